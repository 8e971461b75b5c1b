"""`imitbench leaderboard verify`: whether runs that others submitted can be had again."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from imitbench.cli import options
from imitbench.cli.leaderboard_validate import Submission

if TYPE_CHECKING:
    from imitbench.bench.plan import Plan
    from imitbench.conformance.reproduction import (
        Reproduction,
        ReproductionSample,
        ReturnComparison,
    )

_WORDS = {
    "identical": "identical",
    "within noise": "agrees, within the noise of evaluation",
    "within seeds": "agrees, within the spread of seeds",
    "different": "DIFFERENT",
    "failed": "FAILED here",
}


def verify_submission(
    submission: Submission,
    runs: Annotated[int, typer.Option("--runs", min=1, help="How many runs to train again.")] = 2,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the draw of these.")] = 0,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Runs at a time.")] = 1,
    algo: Annotated[
        list[str],
        typer.Option("--algo", metavar="PLUGIN", help="Plug-in of yours to verify; repeatable."),
    ] = [],  # noqa: B006 (typer copies it)
    suite: Annotated[
        list[str],
        typer.Option("--suite", metavar="DIR", help="Folder of a suite that you have."),
    ] = [],  # noqa: B006
    keep: Annotated[
        Path | None,
        typer.Option("--keep", metavar="DIR", help="Results folder to keep.", file_okay=False),
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Train some runs of a submission again, drawn at random, and compare.

    Only methods, experts and demonstrations of this package are used, and plug-ins that you name:
    never what a submission names. On a machine like the
    submitter's the numbers are identical. Elsewhere they must agree within the noise of the
    evaluations, or within the spread of the submission's own seeds. Exits with 1 if a run differs,
    or none can be trained here.

    Example: imitbench leaderboard verify results/theirs --runs 2 --seed 0
    """
    from imitbench.cli.hub_progress import make_notifier
    from imitbench.cli.output import note, print_json
    from imitbench.errors import InputError
    from imitbench.store.results_reader import read_results
    from imitbench.util.files import is_empty

    if keep is not None and not is_empty(keep):
        raise InputError(f"--keep {keep}: is not empty; name a new folder")
    submitted = read_results(submission)

    from imitbench.bench.request import PluginSelection
    from imitbench.conformance.reproduction import compare_run, sample_runs

    drawn = sample_runs(
        submitted,
        runs,
        seed=seed,
        tell=make_notifier(quiet=quiet),
        plugins=PluginSelection.named(algo, suite),
    )
    if not quiet:
        for refused in drawn.refused:
            note(f"not drawn: {refused.spec.label}: {refused.why}")
        for run in drawn.runs:
            note(f"drawn with seed {seed}: {run.spec.label} ({run.spec.run_id})")
    with contextlib.ExitStack() as stack:
        scratch = keep or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="imitbench-"))
        )
        for plan in drawn.plans:
            _train(plan, scratch, jobs, quiet=quiet)
        found = [compare_run(run, scratch, submitted) for run in drawn.runs]
    if json:
        print_json(_document(submission, seed, drawn, found))
    else:
        _print(submission, found, wanted=runs)
    if not found or not all(each.agrees for each in found):
        raise typer.Exit(1)


def _train(plan: Plan, out: Path, jobs: int, *, quiet: bool) -> None:
    from imitbench.bench.progress import make_observer
    from imitbench.bench.sweep import carry_out
    from imitbench.cli.provenance import typed_command
    from imitbench.executors.options import RunOptions

    options = RunOptions(jobs=jobs)
    with make_observer(quiet=quiet) as observer:
        outcome = carry_out([plan], options, out=out, command=typed_command(), observer=observer)
    if outcome.left:
        raise typer.Exit(130)


def _document(
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


def _print(submission: Path, found: list[Reproduction], *, wanted: int) -> None:
    from imitbench.cli.output import count, note, print_table

    rows = []
    for each in found:
        headline = each.stochastic
        numbers: list[object] = [None, None, None, None]
        if headline is not None:
            numbers = [headline.stated, headline.found, headline.noise_band, headline.seed_band]
        rows.append([each.spec.label, *numbers, _WORDS[each.verdict]])
    if rows:
        header = ["run", "stated", "found", "noise band", "seed band", "verdict"]
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
        typer.echo(f"{submission}: NOT verified, no run of it can be trained here")
    elif differing:
        typer.echo(f"{submission}: NOT verified, {differing} of {count(len(found), 'run')} differ")
    else:
        identical = sum(each.verdict == "identical" for each in found)
        typer.echo(
            f"{submission}: verified, {count(len(found), 'run')} trained again: {identical} "
            f"identical, {len(found) - identical} within the bands"
        )
