"""`imitbench leaderboard verify`: trains runs of a submission again, and compares."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from imitbench.cli import options
from imitbench.cli.options import argument, option
from imitbench.cli.output import (
    TextColumn,
    by_word,
    count,
    make_notifier,
    note,
    print_json,
    print_table,
    print_text,
    typed_command,
)
from imitbench.errors import InputError
from imitbench.util.files import is_empty
from imitbench.util.name_lists import split_names
from imitbench.util.text_line import one_line

if TYPE_CHECKING:
    from imitbench.bench.plan import Plan
    from imitbench.bench.request import PluginSelection
    from imitbench.conformance.reproduction import Reproduction, ReproductionSample
    from imitbench.published.submission import Submission
    from imitbench.published.verification import ReturnComparison, Verification
    from imitbench.records.published import PublishedRun

SubmissionFolder = Annotated[Path, argument("SUBMISSION", "Folder with published results.")]

By = Annotated[str | None, option("--by", "Who verifies, as boards show it.", "NAME")]
Runs = Annotated[int, option("--runs", "Number of runs to train again.", min=1)]
PublicSeed = Annotated[
    str | None,
    option(
        "--public-seed",
        "Draw by this text, which became public after the submission, and its digest.",
        "TEXT",
    ),
]
Jobs = Annotated[int, option("--jobs -j", "Number of parallel runs.", min=1)]
Keep = Annotated[
    Path | None, option("--keep", "Keep the runs in this results folder.", "DIR", file_okay=False)
]
Record = Annotated[
    Path | None,
    option(
        "--record",
        "Write the outcome to this folder, as a record that `leaderboard build` reads.",
        "DIR",
        file_okay=False,
    ),
]
Plugins = Annotated[
    list[str], option("--algo", "Allow runs of this plug-in; repeatable.", "PLUGIN")
]
Suites = Annotated[
    list[str], option("--suite", "Allow the suite in this folder; repeatable.", "DIR")
]


def verify_submission(
    submission: SubmissionFolder,
    runs: Runs = 2,
    seed: Annotated[int, option("--seed", "Seed that draws these runs.", min=0)] = 0,
    public_seed: PublicSeed = None,
    jobs: Jobs = 1,
    algo: Plugins = [],  # noqa: B006 (typer copies it)
    suite: Suites = [],  # noqa: B006
    keep: Keep = None,
    record: Record = None,
    by: By = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Train randomly drawn runs of a submission again, and compare the results.

    Uses only methods, experts and demonstrations of this package, and plug-ins that you name;
    never code that a submission names. On a machine like the submitter's the numbers are
    identical. Elsewhere they must agree within the noise of the evaluations, or within the spread
    of the submission's own seeds. Exits with 1 if a run differs, or if no run can be trained here.
    A submitter who knows the seed of the draw knows which runs to forge: use --public-seed.
    Boards show records that others than the submitter wrote with --record.

    Example: imitbench leaderboard verify results/theirs --runs 2 --seed 0
    """
    if keep is not None and not is_empty(keep):
        raise InputError(f"--keep {keep}: is not empty; name a new folder")
    if public_seed is not None and seed:
        raise InputError("--public-seed and --seed: give one of them")
    if record is not None and by is None:
        raise InputError("--record: say who verifies, by --by NAME")
    check_name(by)
    content = _read_valid(submission)

    from imitbench.bench.request import PluginSelection
    from imitbench.published.verification import public_draw, write_verification

    if public_seed is not None:
        seed = public_draw(content.digest, public_seed)
    drawn, found = train_again(
        content.published,
        runs,
        seed=seed,
        jobs=jobs,
        keep=keep,
        quiet=quiet,
        plugins=PluginSelection.named(split_names("--algo", algo), split_names("--suite", suite)),
    )
    if record is not None and by is not None:
        written = make_record(content, drawn, found, by=by, seed=seed, public_seed=public_seed)
        path = write_verification(written, record)
        if not quiet:
            note(f"{path}: record of this verification")
    if json:
        document = _reproduction_document(submission, seed, drawn, found)
        print_json({**document, "public_seed": public_seed})
    else:
        print_reproductions(submission, found, wanted=runs)
    if not found or not all(reproduction.agrees for reproduction in found):
        raise typer.Exit(1)


def check_name(by: str | None) -> None:
    """Checks the name of a verifier, which boards show.

    Raises:
        InputError: It is empty or too long, or not one line.
    """
    if by is not None and not (by.strip() and one_line(by, 100) == by):
        raise InputError("--by: must be one line of 1 to 100 characters")


def train_again(
    submitted: list[PublishedRun],
    count: int,
    *,
    seed: int,
    jobs: int,
    keep: Path | None,
    quiet: bool,
    plugins: PluginSelection | None = None,
) -> tuple[ReproductionSample, list[Reproduction]]:
    """Draws runs of a submission, trains them, and compares.

    Args:
        submitted: Runs of the submission.
        count: Number of runs to draw.
        seed: Seed of the draw.
        jobs: Number of parallel runs.
        keep: Results folder for the runs; `None` for a temporary one.
        quiet: Whether to show no progress.
        plugins: Plug-ins that the user named.

    Returns:
        The draw, and the outcomes of the runs that could be trained.
    """
    from imitbench.conformance.reproduction import compare_run, sample_runs

    notify = make_notifier(quiet=quiet)
    drawn = sample_runs(submitted, count, seed=seed, notify=notify, plugins=plugins)
    if not quiet:
        _tell_draw(drawn, seed)
    with contextlib.ExitStack() as stack:
        scratch = keep or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="imitbench-"))
        )
        for plan in drawn.plans:
            _train(plan, scratch, jobs, quiet=quiet)
        return drawn, [compare_run(run, scratch, submitted) for run in drawn.runs]


def make_record(
    submission: Submission,
    drawn: ReproductionSample,
    found: list[Reproduction],
    *,
    by: str,
    seed: int,
    public_seed: str | None,
) -> Verification:
    """Returns the record of a verification, see `record_verification`."""
    from imitbench.conformance.reproduction import record_verification

    return record_verification(
        submission.folder.resolve().name,
        submission.digest,
        submission.published,
        drawn,
        found,
        by=by,
        seed=seed,
        public_seed=public_seed,
        command=typed_command(),
    )


def _read_valid(submission: Path) -> Submission:
    """Returns a submission; ends the command if a check of `leaderboard validate` fails.

    Raises:
        InputError: It has no published results, or they contradict themselves.
    """
    from imitbench.published.validation import validate

    validation = validate(submission)
    problems = validation.problems
    if not validation.consistent:
        raise InputError(f"{submission}/{problems[0]}")
    if problems:
        more = f" (and {len(problems) - 1} more problems)" if len(problems) > 1 else ""
        note(
            f"{submission}: is not valid, so nothing was trained: {problems[0]}{more}; "
            f"`imitbench leaderboard validate {submission}` shows all"
        )
        raise typer.Exit(1)
    return validation.submission


def _tell_draw(drawn: ReproductionSample, seed: int) -> None:
    for refused in drawn.refused:
        note(f"not drawn: {refused.label}: {refused.why}")
    for run in drawn.runs:
        note(f"drawn with seed {seed}: {run.spec.label} ({run.spec.run_id})")


def _train(plan: Plan, out: Path, jobs: int, *, quiet: bool) -> None:
    from imitbench.bench.progress import make_observer
    from imitbench.bench.sweep import carry_out
    from imitbench.executors.options import RunOptions

    options = RunOptions(jobs=jobs)
    with make_observer(quiet=quiet) as observer:
        outcome = carry_out([plan], options, out=out, command=typed_command(), observer=observer)
    if outcome.left:
        raise typer.Exit(130)


def _reproduction_document(
    submission: Path, seed: int, drawn: ReproductionSample, found: list[Reproduction]
) -> dict[str, Any]:
    def numbers(comparison: ReturnComparison | None) -> dict[str, float | None] | None:
        return (
            None
            if comparison is None
            else {**vars(comparison), "difference": comparison.difference}
        )

    return {
        "submission": str(submission),
        "seed": seed,
        "agrees": bool(found) and all(reproduction.agrees for reproduction in found),
        "runs": [
            {
                "run_id": reproduction.spec.run_id,
                "label": reproduction.spec.label,
                "verdict": reproduction.verdict,
                "raw_return": numbers(reproduction.stochastic),
                "deterministic_return": numbers(reproduction.deterministic),
                "same_setting": reproduction.same_setting,
                "problem": reproduction.problem or None,
            }
            for reproduction in found
        ],
        "refused": [
            {"run_id": run.run_id, "label": run.label, "why": run.why} for run in drawn.refused
        ],
    }


def print_reproductions(submission: Path, found: list[Reproduction], *, wanted: int) -> None:
    """Prints the outcomes of runs that were trained again."""
    from imitbench.published.verification import VERDICT_TEXTS

    words = {**VERDICT_TEXTS, "different": "DIFFERENT", "failed": "FAILED here"}
    rows = []
    for reproduction in found:
        headline = reproduction.stochastic
        numbers: list[object] = [None, None, None, None]
        if headline is not None:
            numbers = [headline.stated, headline.found, headline.noise_band, headline.seed_band]
        rows.append([reproduction.spec.label, *numbers, words[reproduction.verdict]])
    if rows:
        header: list[str | TextColumn] = [
            "run",
            TextColumn("stated", rank=1),
            "found",
            TextColumn("noise band", rank=2),
            TextColumn("seed band", rank=3),
            TextColumn(
                "verdict",
                below=True,
                color=by_word(identical="green", agrees="green", DIFFERENT="red", FAILED="red"),
            ),
        ]
        print_table(header, rows)
        typer.echo("")
    for reproduction in found:
        if reproduction.problem:
            note(f"{reproduction.spec.label}: {reproduction.problem}")
        elif reproduction.same_setting and reproduction.verdict != "identical":
            note(
                f"{reproduction.spec.label}: versions and processor are the submitter's, so the "
                "numbers should be identical"
            )
    if len(found) < wanted:
        note(f"only {count(len(found), 'run')} of {wanted} can be trained here")
    differing = sum(not reproduction.agrees for reproduction in found)
    if not found:
        print_text(f"{submission}: NOT verified, no run of it can be trained here")
    elif differing:
        print_text(f"{submission}: NOT verified, {differing} of {count(len(found), 'run')} differ")
    else:
        identical = sum(reproduction.verdict == "identical" for reproduction in found)
        print_text(
            f"{submission}: verified, {count(len(found), 'run')} trained again: {identical} "
            f"identical, {len(found) - identical} within the bands"
        )
