"""`imitbench leaderboard`: builds a site of published results, and checks submissions."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from imitbench.cli import completion, options

if TYPE_CHECKING:
    from imitbench.bench.plan import Plan
    from imitbench.conformance.reproduction import (
        Reproduction,
        ReproductionSample,
        ReturnComparison,
    )
    from imitbench.published.findings import Finding
    from imitbench.published.validation import Validation
    from imitbench.records.published import PublishedRun


_WORDS = {
    "identical": "identical",
    "within noise": "agrees, within the noise of evaluation",
    "within seeds": "agrees, within the spread of seeds",
    "different": "DIFFERENT",
    "failed": "FAILED here",
}


def verify_submission(
    submission: Submission,
    runs: Annotated[int, typer.Option("--runs", min=1, help="Number of runs to train again.")] = 2,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed that draws these runs.")] = 0,
    public_seed: Annotated[
        str | None,
        typer.Option(
            "--public-seed",
            metavar="TEXT",
            help="Draw by this text, which became public after the submission, and its digest.",
        ),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Number of parallel runs.")] = 1,
    algo: Annotated[
        list[str],
        typer.Option("--algo", metavar="PLUGIN", help="Allow runs of this plug-in; repeatable."),
    ] = [],  # noqa: B006 (typer copies it)
    suite: Annotated[
        list[str],
        typer.Option("--suite", metavar="DIR", help="Allow the suite in this folder; repeatable."),
    ] = [],  # noqa: B006
    keep: Annotated[
        Path | None,
        typer.Option(
            "--keep", metavar="DIR", help="Keep the runs in this results folder.", file_okay=False
        ),
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Train randomly drawn runs of a submission again, and compare the results.

    Uses only methods, experts and demonstrations of this package, and plug-ins that you name;
    never code that a submission names. On a machine like the submitter's the numbers are
    identical. Elsewhere they must agree within the noise of the evaluations, or within the spread
    of the submission's own seeds. Exits with 1 if a run differs, or if no run can be trained here.
    A submitter who knows the seed of the draw knows which runs to forge: take a --public-seed.

    Example: imitbench leaderboard verify results/theirs --runs 2 --seed 0
    """
    from imitbench.cli.output import make_notifier, print_json
    from imitbench.errors import InputError
    from imitbench.util.files import is_empty

    if keep is not None and not is_empty(keep):
        raise InputError(f"--keep {keep}: is not empty; name a new folder")
    if public_seed is not None and seed:
        raise InputError("--public-seed and --seed: give one of them")
    submitted, digest = _read_strictly(submission)

    from imitbench.bench.request import PluginSelection
    from imitbench.conformance.reproduction import compare_run, public_draw, sample_runs
    from imitbench.util.name_lists import split_names

    if public_seed is not None:
        seed = public_draw(digest, public_seed)

    drawn = sample_runs(
        submitted,
        runs,
        seed=seed,
        notify=make_notifier(quiet=quiet),
        plugins=PluginSelection.named(split_names("--algo", algo), split_names("--suite", suite)),
    )
    if not quiet:
        _tell_draw(drawn, seed)
    with contextlib.ExitStack() as stack:
        scratch = keep or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="imitbench-"))
        )
        for plan in drawn.plans:
            _train(plan, scratch, jobs, quiet=quiet)
        found = [compare_run(run, scratch, submitted) for run in drawn.runs]
    if json:
        document = _reproduction_document(submission, seed, drawn, found)
        print_json({**document, "public_seed": public_seed})
    else:
        _print_reproductions(submission, found, wanted=runs)
    if not found or not all(each.agrees for each in found):
        raise typer.Exit(1)


def _read_strictly(submission: Path) -> tuple[list[PublishedRun], str]:
    """Returns the runs of a submission, and its digest."""
    from imitbench.published.findings import StrictFindings
    from imitbench.published.submission import read_submission
    from imitbench.untrusted import gate

    content = gate.checked(
        lambda: read_submission(submission, StrictFindings(submission)), submission
    )
    assert content.manifest is not None  # a malformed one was an error
    return [each.run for each in content.runs], content.manifest.own_digest


def _tell_draw(drawn: ReproductionSample, seed: int) -> None:
    from imitbench.cli.output import note

    for refused in drawn.refused:
        note(f"not drawn: {refused.spec.label}: {refused.why}")
    for run in drawn.runs:
        note(f"drawn with seed {seed}: {run.spec.label} ({run.spec.run_id})")


def _train(plan: Plan, out: Path, jobs: int, *, quiet: bool) -> None:
    from imitbench.bench.progress import make_observer
    from imitbench.bench.sweep import carry_out
    from imitbench.cli.output import typed_command
    from imitbench.executors.options import RunOptions

    options = RunOptions(jobs=jobs)
    with make_observer(quiet=quiet) as observer:
        outcome = carry_out([plan], options, out=out, command=typed_command(), observer=observer)
    if outcome.left:
        raise typer.Exit(130)


def _reproduction_document(
    submission: Path, seed: int, drawn: ReproductionSample, found: list[Reproduction]
) -> dict[str, Any]:
    def numbers(each: ReturnComparison | None) -> dict[str, float | None] | None:
        return None if each is None else {**vars(each), "difference": each.difference}

    return {
        "submission": str(submission),
        "seed": seed,
        "agrees": bool(found) and all(each.agrees for each in found),
        "runs": [
            {
                "run_id": each.spec.run_id,
                "label": each.spec.label,
                "verdict": each.verdict,
                "raw_return": numbers(each.stochastic),
                "deterministic_return": numbers(each.deterministic),
                "same_setting": each.same_setting,
                "problem": each.problem or None,
            }
            for each in found
        ],
        "refused": [
            {"run_id": each.spec.run_id, "label": each.spec.label, "why": each.why}
            for each in drawn.refused
        ],
    }


def _print_reproductions(submission: Path, found: list[Reproduction], *, wanted: int) -> None:
    from imitbench.cli.output import Column, by_word, count, note, print_table, print_text

    rows = []
    for each in found:
        headline = each.stochastic
        numbers: list[object] = [None, None, None, None]
        if headline is not None:
            numbers = [headline.stated, headline.found, headline.noise_band, headline.seed_band]
        rows.append([each.spec.label, *numbers, _WORDS[each.verdict]])
    if rows:
        header: list[str | Column] = [
            "run",
            Column("stated", rank=1),
            "found",
            Column("noise band", rank=2),
            Column("seed band", rank=3),
            Column(
                "verdict",
                below=True,
                color=by_word(identical="green", agrees="green", DIFFERENT="red", FAILED="red"),
            ),
        ]
        print_table(header, rows)
        typer.echo("")
    for each in found:
        if each.problem:
            note(f"{each.spec.label}: {each.problem}")
        elif each.same_setting and each.verdict != "identical":
            note(
                f"{each.spec.label}: versions and processor are the submitter's, so the numbers "
                "should be identical"
            )
    if len(found) < wanted:
        note(f"only {count(len(found), 'run')} of {wanted} can be trained here")
    differing = sum(not each.agrees for each in found)
    if not found:
        print_text(f"{submission}: NOT verified, no run of it can be trained here")
    elif differing:
        print_text(f"{submission}: NOT verified, {differing} of {count(len(found), 'run')} differ")
    else:
        identical = sum(each.verdict == "identical" for each in found)
        print_text(
            f"{submission}: verified, {count(len(found), 'run')} trained again: {identical} "
            f"identical, {len(found) - identical} within the bands"
        )


Submission = Annotated[
    Path, typer.Argument(metavar="SUBMISSION", help="Folder with published results.")
]
_MAX_SHOWN = 20


def validate_submission(
    submission: Submission,
    against: Annotated[
        list[str],
        typer.Option(
            "--against",
            metavar="DIR",
            help="Look for copies of these results: published results, a folder of such folders, "
            "or 'published'; repeatable.",
            autocompletion=completion.results_places,
        ),
    ] = [],  # noqa: B006 (typer copies it)
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
    from imitbench.cli.output import print_json
    from imitbench.published.opening import results_place
    from imitbench.published.results_sources import compare_with
    from imitbench.published.validation import validate

    others = [results_place(name) for name in dict.fromkeys(against)]
    validation = compare_with(validate(submission), others)
    if json:
        print_json(_validation_document(submission, validation))
    else:
        _print_validation(submission, validation, quiet=quiet)
    if not validation.valid:
        raise typer.Exit(1)


def _validation_document(submission: Path, validation: Validation) -> dict[str, Any]:
    from imitbench.published.findings import CHECKS, MEANINGS

    manifest = validation.submission.manifest
    return {
        "submission": str(submission),
        "valid": validation.valid,
        "digest": manifest.own_digest if manifest else None,
        "runs": len(validation.submission.runs),
        "checks": [
            {"check": check, "ok": not validation.of_check(check), "meaning": MEANINGS[check]}
            for check in CHECKS
        ],
        "problems": [vars(each) for each in validation.problems],
        "told": [vars(each) for each in validation.notes],
        "warnings": [vars(each) for each in validation.alarms],
    }


def _print_validation(submission: Path, validation: Validation, *, quiet: bool) -> None:
    from imitbench.cli.output import Column, by_word, count, note, print_table, print_text
    from imitbench.published.findings import CHECKS, MEANINGS

    def verdict(problems: list[Finding]) -> str:
        return f"FAILED ({len(problems)})" if problems else "ok"

    print_table(
        [
            "check",
            Column("verdict", color=by_word(ok="green", FAILED="bold red")),
            Column("makes sure that", below=True),
        ],
        [[check, verdict(validation.of_check(check)), MEANINGS[check]] for check in CHECKS],
    )
    for check in validation.failed:
        typer.echo("")
        problems = validation.of_check(check)
        for each in problems[:_MAX_SHOWN]:
            print_text(f"{check}: {each}", indent=2)
        if len(problems) > _MAX_SHOWN:
            print_text(f"{check}: … and {len(problems) - _MAX_SHOWN} more; --json names all")
    notes = () if quiet else validation.notes
    for each in notes[:_MAX_SHOWN]:
        note(f"note: {each}")
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


def build_site(
    out: Annotated[
        Path,
        typer.Option("--out", metavar="SITE", help="Folder to write.", file_okay=False),
    ],
    results: Annotated[
        list[str],
        typer.Option(
            "--results",
            metavar="DIR",
            help="Published results, a folder of such folders, a results folder, or 'published'; "
            "repeatable.",
            autocompletion=completion.results_places,
        ),
    ] = options.DEFAULT_PLACES,
    title: Annotated[str, typer.Option("--title", metavar="TEXT")] = "Leaderboard",
    external: Annotated[
        bool, typer.Option("--external", help="Also show imported results, without ranks.")
    ] = False,
    videos: Annotated[
        Path | None,
        typer.Option(
            "--videos",
            metavar="DIR",
            help="Also include MP4 files of median and worst runs, at most 2 MiB each, from a "
            "folder where their names have the ids of the runs.",
            file_okay=False,
        ),
    ] = None,
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
    from imitbench.cli.output import count, note, print_json
    from imitbench.errors import InputError
    from imitbench.published.opening import results_place
    from imitbench.published.results_sources import find_results
    from imitbench.report.leaderboard.board import build_board
    from imitbench.report.leaderboard.site import check_place, write_site
    from imitbench.report.leaderboard.videos import choose_videos
    from imitbench.stats.coverage import FailurePolicy

    if not title.strip():
        raise InputError("--title: is empty")
    places = [results_place(name) for name in dict.fromkeys(results)]
    for place in places:
        check_place(out, place)
    found = find_results(*places, external=external)
    policy = FailurePolicy(failed_runs)
    board = build_board(found, title=title.strip(), replicates=replicates, failed_runs=policy)
    films = None if videos is None else choose_videos(board, videos)
    files = write_site(board, out, results=places, videos=films)
    notes = [*found.notes, *(films.notes if films is not None else ())]
    for text in notes:
        note(text)
    if json:
        print_json(
            {
                "site": str(out),
                "taken": found.taken,
                "submissions": [source.name for source in found.sources],
                "tables": len(board.sections),
                "files": files,
                "notes": notes,
            }
        )
    elif not quiet:
        runs = sum(len(source.runs) for source in found.sources)
        note(f"{', '.join(map(str, places))}: taken as {found.taken}, {count(runs, 'run')}")
        note(f"{out / 'index.html'}: {count(len(board.sections), 'table')}, {count(files, 'file')}")


app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Build a leaderboard, and check submissions.",
)
app.command("build")(build_site)
app.command("validate")(validate_submission)
app.command("verify")(verify_submission)
