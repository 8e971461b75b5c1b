"""`imitbench results`: publishes results, fetches published ones, exports curves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from imitbench.cli import options
from imitbench.cli.options import argument, option
from imitbench.cli.output import count, make_notifier, note, print_json, typed_command
from imitbench.cli.push import push_results
from imitbench.errors import InputError
from imitbench.version import __version__


def export_to_tensorboard(
    to: Annotated[Path, option("--to", "Folder for event files.", "DIR", file_okay=False)] = Path(
        "tensorboard"
    ),
    out: options.Out = options.DEFAULT_OUT,
    suite: options.Suites = [],  # noqa: B006 (typer copies it)
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write learning curves and results of all runs as event files for TensorBoard.

    Finished runs are written in full, running runs up to now. The same
    command again updates all of them, and TensorBoard reloads them. Runs of `imitbench run` write
    no event files during training; `imitbench train` does.

    Example: imitbench results tensorboard --out runs --to tb && tensorboard --logdir tb
    """
    from imitbench.report.curve_exports import export_tensorboard

    done = export_tensorboard(out, to, notify=note, suite=suite)
    if json:
        print_json({"folder": str(to), **vars(done)})
    elif not quiet:
        note(
            f"{to}: {count(done.written, 'run')} written, {done.unchanged} up to date, "
            f"{done.without} without a point so far"
        )


def upload_to_wandb(
    project: Annotated[str, option("--project", "W&B project.", "NAME")] = "imitbench",
    entity: Annotated[
        str | None, option("--entity", "W&B user or team [W&B's default].", "NAME")
    ] = None,
    out: options.Out = options.DEFAULT_OUT,
    suite: options.Suites = [],  # noqa: B006 (typer copies it)
    folder: Annotated[
        Path, option("--dir", "Folder in which W&B makes its folder wandb.", "DIR", file_okay=False)
    ] = Path(),
    again: Annotated[
        bool, option("--again", "Also upload runs that were uploaded before.")
    ] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Upload finished runs to Weights & Biases: settings, learning curves and results.

    Each run is uploaded once; the results folder records the uploaded runs. With
    WANDB_MODE=offline nothing leaves this machine, and `wandb sync` uploads later. Workers never
    connect to W&B. Needs the extra `wandb`.

    Example: imitbench results wandb --out runs --project imitation
    """
    from imitbench.report.curve_exports import upload_runs

    done = upload_runs(
        out, project, notify=note, entity=entity, suite=suite, folder=folder, again=again
    )
    if json:
        print_json({"project": project, "entity": entity, **vars(done)})
    elif not quiet:
        kept = f", offline: `wandb sync {folder / 'wandb'}/offline-run-*` uploads them"
        note(
            f"{project}: {count(done.uploaded, 'run')} uploaded, {done.present} before, "
            f"{done.unfinished} unfinished{kept if done.offline else ''}"
        )


app = options.command_group(
    "Publish results on the hub, fetch published results, and export curves."
)
app.command("push")(push_results)
app.command("tensorboard")(export_to_tensorboard)
app.command("wandb")(upload_to_wandb)


@app.command("pull")
def pull_results(
    source: Annotated[
        str, argument("REPO", "Repository, owner/name, or a local folder of published results.")
    ],
    out: options.Out = options.DEFAULT_OUT,
    revision: Annotated[str | None, option("--revision", "Commit, branch or tag.", "REV")] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Fetch published results, check them, and write run directories that reports read.

    Every file is checked against its digest, every run against its specification, and every
    result against its episodes. Existing runs of the results folder are not changed, and `imitbench
    run` trains only what is missing there. The designs of races, published learning curves,
    numbers about learned rewards and statements of how hyper-parameters were chosen come with
    their runs.

    Example: imitbench results pull me/my-results --out theirs

    Example: imitbench results pull results/imitbench-seals-gail-airl --out more
    """
    from imitbench.published.disclosure import add_disclosures
    from imitbench.published.results_folder import PATTERNS
    from imitbench.published.submission import read_strictly, restore_runs
    from imitbench.util import hub_client, hub_upload

    folder, commit = Path(source), None
    if not folder.is_dir():
        if source.count("/") != 1:
            raise InputError(f"{source}: no such folder, and not owner/name of a repository")
        hub_upload.check_repository_name(source)
        fetched = hub_client.fetch(
            source,
            files=PATTERNS,
            kind="dataset",
            revision=revision,
            notify=make_notifier(quiet=quiet),
        )
        folder, commit = fetched.folder, fetched.commit
    elif revision is not None:
        raise InputError(f"--revision {revision}: {source} is a local folder; leave it out")
    found = read_strictly(folder)
    made, present = restore_runs(found.published, out, found.races)
    add_disclosures(out, found.disclosures)
    if json:
        print_json({"repo": source, "revision": commit, "added": made, "present": present})
    elif not quiet:
        origin = source if commit is None else f"commit {commit[:12]}"
        note(f"{out}: {made} runs added, {present} existed, from {origin}")


@app.command("export")
def export_results(
    folder: Annotated[Path, argument("DIR", "Folder to create.", file_okay=False)],
    out: options.Out = options.DEFAULT_OUT,
    suite: options.Suites = [],  # noqa: B006 (typer copies it)
    without_curves: options.WithoutCurves = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write results in the published layout to a local folder: runs, episodes, learning curves.

    The folder holds what `imitbench results push` uploads, except the card, and what `imitbench
    leaderboard validate` checks. It excludes names of machines, tracebacks, and superseded runs:
    those of a plug-in before its source was edited. How hyper-parameters were chosen is what
    disclosure.json of the results folder states, and the records of `imitbench tune`. What
    `imitbench rewards evaluate` measured is published with the runs.

    Example: imitbench results export submission --out runs
    """
    from imitbench.published import disclosure, results_folder

    runs = results_folder.read_runs(out, suite=suite)
    stated = disclosure.own_disclosures(out, runs.runs)
    races = results_folder.races_of(out, runs.runs)
    results_folder.export_results(
        runs.runs,
        folder,
        version=__version__,
        command=typed_command(),
        races=races,
        curves=not without_curves,
        disclosures=stated,
    )
    for message in runs.unreadable:
        note(f"skipped: {message}")
    specs = [run.spec for run in runs.runs]
    for row in disclosure.undisclosed(stated, specs):
        note(f"{row}; state it in {out / disclosure.DISCLOSURE_FILE}, and export again")
    if json:
        print_json(
            {
                "folder": str(folder),
                "runs": sum(run.result is not None for run in runs.runs),
                "failures": sum(run.failure is not None for run in runs.runs),
                "superseded": runs.superseded,
                "unfinished": runs.unfinished,
                "unreadable": runs.unreadable,
                "races": [race.id for race in races],
            }
        )
    elif not quiet:
        counts = {"superseded by newer ones": runs.superseded, "unfinished": runs.unfinished}
        left = "".join(f", {number} {why} skipped" for why, number in counts.items() if number)
        raced = f", {count(len(races), 'race')}" if races else ""
        note(f"{folder}: {count(len(runs.runs), 'run')}{raced}{left}")
