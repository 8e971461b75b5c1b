"""Carries out a plan as the user asked, and says what came of it."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from imitbench.cli import options

if TYPE_CHECKING:
    from imitbench.bench.plan import Plan
    from imitbench.bench.sweep import Outcome
    from imitbench.executors.base import Executor
    from imitbench.executors.slurm.executor import ArrayRequest


@dataclass(frozen=True)
class Launch:
    """How a plan is carried out; nothing here changes a number.

    Attributes:
        out: Results folder.
        executor: Name of the executor.
        jobs: Runs at a time.
        force: Whether completed runs are done again.
        fail_fast: Whether the first failure stops the sweep.
        checkpoint_minutes: Between two checkpoints of a run.
        slurm: How tasks are submitted with the executor `slurm`.
        wait: Whether this process waits for tasks that were submitted.
        json: Whether the summary is one JSON document.
        quiet: Whether progress is not shown.
    """

    out: Path = options.DEFAULT_OUT
    executor: str = "local"
    jobs: int = 1
    force: bool = False
    fail_fast: bool = False
    checkpoint_minutes: float = 10.0
    slurm: ArrayRequest | None = None
    wait: bool = True
    json: bool = False
    quiet: bool = False


def array_request(
    executor: str, profile: Path | None, min_task_minutes: float
) -> ArrayRequest | None:
    """What the options of SLURM say; `None` for another executor.

    Raises:
        InputError: They go with another executor, or the profile is wrong.
    """
    from imitbench.errors import InputError

    if executor != "slurm":
        if profile is not None:
            raise InputError(f"--profile {profile}: goes with --executor slurm only")
        return None
    from imitbench.executors.slurm.executor import ArrayRequest
    from imitbench.executors.slurm.profile import Profile, read_profile

    return ArrayRequest(
        profile=Profile() if profile is None else read_profile(profile),
        min_task_s=60 * min_task_minutes,
    )


def launch(plan: Plan, how: Launch) -> None:
    """Runs a plan to its end, or submits it; collects, and prints a short table.

    Raises:
        typer.Exit: With 130 when it was stopped, 1 when runs failed.
    """
    launch_all([plan], how)


def launch_all(plans: Sequence[Plan], how: Launch) -> None:
    """Runs one plan after the other, and sums them up as one; raises as `launch` does."""
    from imitbench.bench.sweep import Outcome
    from imitbench.store.run_dir import RunDirectory

    outcome = Outcome()
    for plan in plans:
        if outcome.left or (how.fail_fast and outcome.failed):
            outcome.left += sum(not RunDirectory.of(how.out, run).is_done for run in plan)
        else:
            outcome.add(_execute(plan, how))
    _summarize(plans, how, outcome)
    if outcome.left:
        raise typer.Exit(130)
    if outcome.failed or outcome.lost:
        raise typer.Exit(1)


def _execute(plan: Plan, how: Launch) -> Outcome:
    from imitbench.bench.sweep import run_sweep
    from imitbench.cli.progress import make_observer
    from imitbench.cli.provenance import typed_command

    pool = _executor(how)
    # What the summary needs is loaded while the workers are busy. It is waited for in any case:
    # a process that ends in the middle of an import may crash.
    loader = threading.Thread(target=importlib.import_module, args=("imitbench.store.collector",))
    loader.start()
    try:
        with make_observer(quiet=how.quiet) as observer:
            return run_sweep(
                plan,
                pool,
                out=how.out,
                command=typed_command(),
                observer=observer,
                force=how.force,
                fail_fast=how.fail_fast,
                checkpoint_s=60 * how.checkpoint_minutes,
            )
    finally:
        loader.join()


def _executor(how: Launch) -> Executor:
    from imitbench.bench.sweep import WORKER
    from imitbench.executors.registry import make_executor

    if how.slurm is not None:
        from imitbench.executors.slurm.executor import SlurmExecutor

        return SlurmExecutor(WORKER, how.out, how.slurm, wait=how.wait)
    return make_executor(how.executor, entry=WORKER, jobs=how.jobs)


def _summarize(plans: Sequence[Plan], how: Launch, outcome: Outcome) -> None:
    """Collects, then says what happened: counts and failures to stderr, scores to stdout."""
    from imitbench.cli.output import command_for, note, print_json
    from imitbench.report.tables import build_report
    from imitbench.report.terminal import render_short
    from imitbench.store import database
    from imitbench.store.collector import collect

    for left_out in collect(how.out).quarantined:
        note(f"left out: {left_out.path}: {left_out.reason}")
    wanted = {spec.run_id for plan in plans for spec in plan}
    places = {(plan.suite.name, env_id) for plan in plans for env_id in plan.environments}
    not_applicable = [pair for plan in plans for pair in plan.not_applicable]
    with database.reader(how.out) as connection:
        scores = [row for row in database.read_scores(connection) if row.run_id in wanted]
        failures = [row for row in database.read_failures(connection) if row.run_id in wanted]
        references = [
            row for row in database.read_references(connection) if (row.suite, row.env) in places
        ]
    if how.json:
        document: dict[str, Any] = {
            "already_done": outcome.already_done,
            "done": outcome.done,
            "failed": [row.model_dump(mode="json") for row in failures],
            "left": outcome.left,
            "queued": outcome.queued,
            "lost": outcome.lost,
            "not_applicable": [vars(pair) for pair in not_applicable],
            "scores": [row.model_dump(mode="json") for row in scores],
        }
        print_json(document)
    else:
        typer.echo(render_short(build_report(scores, failures, references)), nl=False)
    for pair in not_applicable:
        note(f"not applicable: {pair.algo} on {pair.env}: {pair.why}")
    for spec, failure in outcome.failed:
        note(f"failed: {spec.label} ({failure.phase}): {failure.error_type}: {failure.message}")
    if outcome.left:
        also = "" if how.force else f", and so does `{command_for(how.out, 'resume')}`"
        note(f"stopped with {outcome.left} runs left; the same command resumes{also}")
    if outcome.lost:
        note(
            f"{outcome.lost} runs left the queue before they were complete (cancelled, or their "
            "node was lost); the same command resumes"
        )
    if outcome.queued:
        note(
            f"{outcome.queued} runs are in the queue; follow them with "
            f"`{command_for(how.out, 'status', '--watch')}`, stop them with "
            f"`{command_for(how.out, 'cancel')}`"
        )
    if not how.quiet:
        note(
            f"{outcome.done} done, {outcome.already_done} already there, "
            f"{len(outcome.failed)} failed; results in {how.out}"
        )
