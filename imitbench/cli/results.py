"""`imitbench results`: publish results, fetch those of others, and export curves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from imitbench.cli import options
from imitbench.cli.push import push_results
from imitbench.cli.results_export import export_to_tensorboard, upload_to_wandb

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Publish results on the hub, fetch those of others, and export curves.",
)
app.command("push")(push_results)
app.command("tensorboard")(export_to_tensorboard)
app.command("wandb")(upload_to_wandb)


@app.command("pull")
def pull_results(
    repo: Annotated[str, typer.Argument(metavar="REPO", help="owner/name of the repository.")],
    out: options.Out = options.DEFAULT_OUT,
    revision: Annotated[
        str | None, typer.Option("--revision", metavar="REV", help="Commit, branch or tag.")
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Fetch published results, check them, and make run directories that reports read.

    Every file is checked against its digest, every run against its specification, and every
    result against its episodes. Runs that are in the results folder already stay as they are.

    Example: imitbench results pull me/my-results --out theirs
    """
    from imitbench.cli.hub_progress import make_notifier
    from imitbench.cli.output import note, print_json
    from imitbench.published.results_folder import PATTERNS
    from imitbench.store.results_reader import read_results, restore_runs
    from imitbench.util import hub_client, hub_upload

    hub_upload.check_repository_name(repo)
    fetched = hub_client.fetch(
        repo, files=PATTERNS, kind="dataset", revision=revision, tell=make_notifier(quiet=quiet)
    )
    made, present = restore_runs(read_results(fetched.folder), out)
    if json:
        print_json({"repo": repo, "revision": fetched.commit, "added": made, "present": present})
    elif not quiet:
        note(f"{out}: {made} runs added, {present} were there, from commit {fetched.commit[:12]}")


@app.command("export")
def export_results(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New folder.", file_okay=False)],
    out: options.Out = options.DEFAULT_OUT,
    suite: Annotated[
        str | None, typer.Option("--suite", metavar="NAME", help="Only runs of this suite [all].")
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write results as they are published, into a folder here: every run, and its episodes.

    It is what `imitbench results push` uploads, but for the card, and what `imitbench leaderboard
    validate` checks. Names of machines and tracebacks are left out, and so are runs that newer ones
    have superseded: those of a plug-in before its source was edited.

    Example: imitbench results export submission --out runs
    """
    from imitbench import __version__
    from imitbench.cli.output import count, note, print_json
    from imitbench.cli.provenance import typed_command
    from imitbench.published import results_folder

    runs = results_folder.read_runs(out, suite=suite)
    results_folder.export_results(runs.runs, folder, version=__version__, command=typed_command())
    for message in runs.unreadable:
        note(f"left out: {message}")
    if json:
        print_json(
            {
                "folder": str(folder),
                "runs": sum(run.result is not None for run in runs.runs),
                "failures": sum(run.failure is not None for run in runs.runs),
                "superseded": runs.superseded,
                "unfinished": runs.unfinished,
                "unreadable": runs.unreadable,
            }
        )
    elif not quiet:
        counts = {"superseded by newer ones": runs.superseded, "unfinished": runs.unfinished}
        left = "".join(f", {number} {why} left out" for why, number in counts.items() if number)
        note(f"{folder}: {count(len(runs.runs), 'run')}{left}")
