"""`imitbench leaderboard`: builds a site or a model card of results, and checks submissions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from imitbench.cli import completion, options
from imitbench.cli.leaderboard_intake import init_board, rescore_submission, take_in
from imitbench.cli.leaderboard_verify import SubmissionFolder, verify_submission
from imitbench.cli.options import argument, option
from imitbench.cli.output import (
    TextColumn,
    by_word,
    count,
    note,
    print_json,
    print_table,
    print_text,
)
from imitbench.errors import InputError

if TYPE_CHECKING:
    from imitbench.published.findings import Finding
    from imitbench.published.validation import Validation

_MAX_SHOWN = 20


def validate_submission(
    submission: SubmissionFolder,
    against: Annotated[
        list[str],
        option(
            "--against",
            "Look for copies of these results: published results, a folder of such folders, "
            "or 'published'; repeatable.",
            "DIR",
            completion.results_locations,
        ),
    ] = [],  # noqa: B006 (typer copies it)
    registered: Annotated[
        str | None,
        option(
            "--registered",
            "Compare the designs of races with those that were published before the runs: "
            "the address of a design, a file or folder of designs, or published results.",
            "URL|DIR",
        ),
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Check a submission: digests, specifications, scores, seeds.

    Makes all checks and reports all problems. Exits with 1 if a check fails, and with 2 if the
    folder has no published results. Warns of signs that results were invented or copied, which may
    have innocent reasons and do not count. To test what the files alone cannot show, use
    `imitbench leaderboard verify`.

    Example: imitbench leaderboard validate results/theirs --against results/ours
    """
    from imitbench.published.opening import results_location
    from imitbench.published.race_checks import compare_registered
    from imitbench.published.results_sources import compare_with
    from imitbench.published.validation import validate

    others = [results_location(name) for name in dict.fromkeys(against)]
    validation = compare_with(validate(submission), others)
    if registered is not None:
        problems = compare_registered(validation.submission.races, registered)
        validation = replace(validation, problems=(*validation.problems, *problems))
    if json:
        print_json(_validation_document(submission, validation))
    else:
        _print_validation(submission, validation, quiet=quiet)
    if not validation.valid:
        raise typer.Exit(1)


def _validation_document(submission: Path, validation: Validation) -> dict[str, Any]:
    from imitbench.published.findings import CHECKS, MEANINGS

    return {
        "submission": str(submission),
        "valid": validation.valid,
        "digest": validation.submission.digest or None,
        "runs": len(validation.submission.runs),
        "checks": [
            {"check": check, "ok": not validation.of_check(check), "meaning": MEANINGS[check]}
            for check in CHECKS
        ],
        "problems": [vars(problem) for problem in validation.problems],
        "told": [vars(note) for note in validation.notes],
        "warnings": [vars(alarm) for alarm in validation.alarms],
    }


def _print_validation(submission: Path, validation: Validation, *, quiet: bool) -> None:
    from imitbench.published.findings import CHECKS, MEANINGS

    def verdict(problems: list[Finding]) -> str:
        return f"FAILED ({len(problems)})" if problems else "ok"

    print_table(
        [
            "check",
            TextColumn("verdict", color=by_word(ok="green", FAILED="bold red")),
            TextColumn("makes sure that", below=True),
        ],
        [[check, verdict(validation.of_check(check)), MEANINGS[check]] for check in CHECKS],
    )
    for check in validation.failed:
        typer.echo("")
        problems = validation.of_check(check)
        for problem in problems[:_MAX_SHOWN]:
            print_text(f"{check}: {problem}", indent=2)
        if len(problems) > _MAX_SHOWN:
            print_text(f"{check}: … and {len(problems) - _MAX_SHOWN} more; --json names all")
    notes = () if quiet else validation.notes
    for text in notes[:_MAX_SHOWN]:
        note(f"note: {text}")
    if len(notes) > _MAX_SHOWN:
        note(f"… and {len(notes) - _MAX_SHOWN} more notes; --json names all")
    for alarm in validation.alarms[:_MAX_SHOWN]:
        note(f"warning ({alarm.kind}): {alarm}")
    if len(validation.alarms) > _MAX_SHOWN:
        note(f"… and {len(validation.alarms) - _MAX_SHOWN} more warnings; --json names all")
    runs = count(len(validation.submission.runs), "run")
    if validation.valid:
        warned = count(len(validation.alarms), "warning")
        print_text(f"\n{submission}: valid, {runs}" + f", {warned}" * bool(validation.alarms))
    else:
        number = count(len(validation.problems), "problem")
        print_text(f"\n{submission}: NOT valid, {number} in {runs}")


Verifications = Annotated[
    list[Path],
    option(
        "--verifications",
        "Records of `leaderboard verify --record` [verifications/ inside or next to the "
        "submissions]; repeatable.",
        "DIR",
        file_okay=False,
    ),
]


Videos = Annotated[
    Path | None,
    option(
        "--videos",
        "Also include MP4 files of median and worst runs, at most 2 MiB each, from a folder "
        "where their names have the ids of the runs.",
        "DIR",
        file_okay=False,
    ),
]
SubmitTo = Annotated[
    str | None,
    option(
        "--submit-to",
        "Address of the repository that takes submissions, for the page on submitting.",
        "URL",
    ),
]


def build_site(
    out: Annotated[Path, option("--out", "Folder to write.", "SITE", file_okay=False)],
    results: Annotated[
        list[str],
        option(
            "--results",
            "Published results, a folder of such folders, a results folder, or 'published'; "
            "repeatable.",
            "DIR",
            completion.results_locations,
        ),
    ] = options.DEFAULT_RESULTS,
    title: Annotated[str, option("--title", "Title of the site.", "TEXT")] = "Leaderboard",
    external: Annotated[
        bool, option("--external", "Also show imported results, without ranks.")
    ] = False,
    videos: Videos = None,
    submit_to: SubmitTo = None,
    verifications: Verifications = [],  # noqa: B006 (typer copies it)
    failed_runs: options.FailedRuns = "count-as-random",
    replicates: options.Replicates = options.DEFAULT_REPLICATES,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Build a leaderboard: static pages, and the same tables as JSON, CSV and Markdown.

    The pages need no server and no network. The same results give the same files, byte by byte.
    An earlier site in the folder is replaced.

    Example: imitbench leaderboard build --results results --out site
    """
    from imitbench.published.claims import claims_beside
    from imitbench.published.opening import results_location
    from imitbench.published.results_sources import find_results
    from imitbench.report.leaderboard.board import build_board
    from imitbench.report.leaderboard.site import check_site_folder, write_site
    from imitbench.report.leaderboard.videos import choose_videos
    from imitbench.stats.coverage import FailurePolicy

    if not title.strip():
        raise InputError("--title: is empty")
    if submit_to is not None and not submit_to.startswith("https://"):
        raise InputError(f"--submit-to {submit_to}: must start with https://")
    paths = [results_location(name) for name in dict.fromkeys(results)]
    for path in paths:
        check_site_folder(out, path)
    found = find_results(*paths, external=external, verifications=verifications or None)
    policy, name = FailurePolicy(failed_runs), title.strip()
    board = build_board(
        found,
        title=name,
        replicates=replicates,
        failed_runs=policy,
        submit_to=submit_to,
        claims=claims_beside(paths),
    )
    films = None if videos is None else choose_videos(board, videos)
    files = write_site(board, out, results=paths, videos=films)
    notes = [*found.notes, *(films.notes if films is not None else ())]
    for text in notes:
        note(text)
    if json:
        print_json(
            {
                "site": str(out),
                "taken": found.kind,
                "submissions": [source.name for source in found.sources],
                "tables": len(board.sections),
                "files": files,
                "notes": notes,
            }
        )
    elif not quiet:
        runs = sum(len(source.runs) for source in found.sources)
        note(f"{', '.join(map(str, paths))}: taken as {found.kind}, {count(runs, 'run')}")
        note(f"{out / 'index.html'}: {count(len(board.sections), 'table')}, {count(files, 'file')}")


def write_card(
    card: Annotated[
        Path, argument("CARD", "Model card, README.md; created if missing.", dir_okay=False)
    ],
    algo: Annotated[str, option("--algo", "Method, as its runs name it.", "NAME")],
    results: Annotated[
        list[str],
        option(
            "--results",
            "Results, as for `leaderboard build`; repeatable.",
            "DIR",
            completion.results_locations,
        ),
    ] = options.DEFAULT_RESULTS,
    suite: Annotated[str | None, option("--suite", "Suite of the results [all].", "NAME")] = None,
    url: Annotated[
        str | None, option("--url", "Address of the board, named as the source.", "URL")
    ] = None,
    replicates: options.Replicates = options.DEFAULT_REPLICATES,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a method's results into a model card, as the hub's metadata on evaluations.

    Sets the method's entry of `model-index`: for each environment, mean return and score, the
    conditions, and how far the numbers were checked. The rest of the card stays.

    Example: imitbench leaderboard model-card model/README.md --algo bc --results published
    """
    from imitbench.published.opening import results_location
    from imitbench.published.results_sources import find_results
    from imitbench.report.leaderboard.board import build_board
    from imitbench.report.leaderboard.model_card import evaluation_results, write_model_card

    if url is not None and not url.startswith("https://"):
        raise InputError(f"--url {url}: must start with https://")
    found = find_results(*(results_location(name) for name in dict.fromkeys(results)))
    board = build_board(found, title="Leaderboard", replicates=replicates)
    index = evaluation_results(board, algo, suite=suite, address=url)
    write_model_card(card, index)
    entries = sum(len(model["results"]) for model in index)
    if json:
        print_json({"card": str(card), "model-index": index})
    elif not quiet:
        note(f"{card}: {count(entries, 'result')} of {algo}")


app = options.command_group("Build a leaderboard, and check submissions.")
app.command("build")(build_site)
app.command("validate")(validate_submission)
app.command("verify")(verify_submission)
app.command("intake")(take_in)
app.command("init")(init_board)
app.command("rescore")(rescore_submission)
app.command("model-card")(write_card)
