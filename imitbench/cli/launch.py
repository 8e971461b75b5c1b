"""Carries out a plan as the user asked, and says what came of it."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from imitbench.cli import options
from imitbench.cli.run_options import array_request, count_workers

if TYPE_CHECKING:
    from imitbench.bench.devices import DeviceClass
    from imitbench.bench.plan import Plan
    from imitbench.bench.sweep import Outcome
    from imitbench.executors.base import Executor
    from imitbench.executors.slurm.executor import ArrayRequest


@dataclass(frozen=True)
class Launch:
    """How plans are carried out; nothing here but the device changes a number.

    Attributes:
        out: Results folder.
        executor: Name of the executor.
        device: Class of the processor that was chosen.
        jobs: Runs at a time.
        gpus: GPUs that they use in turn, by number or UUID.
        max_memory: Bytes that each worker may use.
        retries: How often a run that failed is tried again.
        timeout_s: Seconds that an attempt at a run may take.
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
    device: DeviceClass = "cpu"
    jobs: int = 1
    gpus: tuple[str, ...] = ()
    max_memory: int | None = None
    retries: int = 0
    timeout_s: float | None = None
    force: bool = False
    fail_fast: bool = False
    checkpoint_minutes: float = 10.0
    slurm: ArrayRequest | None = None
    wait: bool = True
    json: bool = False
    quiet: bool = False

    @classmethod
    def of(
        cls,
        *,
        executor: str,
        profile: Path | None,
        min_task_minutes: float,
        device: str = "auto",
        jobs: int | None,
        gpus: str | None,
        per_gpu: int | None,
        timeout: str | None,
        max_mem: str | None,
        **others: Any,
    ) -> Launch:
        """Reads options as they are typed; those not named here are taken as they are.

        Raises:
            InputError: One is wrong, or two do not go together.
        """
        from imitbench.bench.devices import choose_device, parse_gpus
        from imitbench.util.quantities import parse_duration, parse_size

        max_memory = None if max_mem is None else parse_size(max_mem, option="--max-mem")
        slurm = array_request(
            executor, profile, min_task_minutes, jobs=jobs, gpus=gpus, max_memory=max_memory
        )
        asked: Sequence[str] = () if gpus is None else parse_gpus(gpus)
        if slurm is not None:
            asked = [str(number) for number in range(slurm.profile.gpus)]
        chosen = choose_device(device, asked)
        return cls(
            executor=executor,
            slurm=slurm,
            device=chosen.device,
            jobs=count_workers(jobs, chosen.gpus, per_gpu),
            gpus=chosen.gpus,
            max_memory=max_memory,
            timeout_s=None if timeout is None else parse_duration(timeout, option="--timeout"),
            **others,
        )


def launch(plans: Sequence[Plan], how: Launch) -> None:
    """Runs one plan after the other, or submits them; collects, and prints one short table.

    Raises:
        typer.Exit: With 130 when it was stopped, 1 when runs failed or were lost.
    """
    from imitbench.bench.sweep import Outcome
    from imitbench.store.run_dir import RunDirectory

    outcome = Outcome()
    for plan in plans:
        if outcome.left or (how.fail_fast and outcome.failed):
            outcome.left += sum(not RunDirectory.of(how.out, run).is_done for run in plan)
        else:
            outcome.add(_execute(plan, how))
    _summarize(plans, how, outcome)
    if outcome.left or (how.wait and outcome.queued):
        raise typer.Exit(130)
    if outcome.failed or outcome.lost:
        raise typer.Exit(1)


def _execute(plan: Plan, how: Launch) -> Outcome:
    from imitbench.bench.sweep import WORKER, run_sweep
    from imitbench.cli.progress import make_observer
    from imitbench.cli.provenance import typed_command

    pool = make_pool(how, WORKER, how.out, device=plan.settings.device)
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
                retries=how.retries,
                timeout_s=how.timeout_s,
            )
    finally:
        loader.join()


def make_pool(how: Launch, entry: str, out: Path, *, device: DeviceClass) -> Executor:
    """Makes the executor that was asked for.

    Args:
        how: How runs are carried out.
        entry: Module of the worker.
        out: Folder that all jobs lie below.
        device: What the runs ask for.

    Raises:
        InputError: It is not available here.
    """
    from imitbench.executors.registry import make_executor

    if how.slurm is not None:
        from imitbench.executors.slurm.executor import SlurmExecutor

        return SlurmExecutor(entry, out, how.slurm, wait=how.wait)
    return make_executor(
        how.executor,
        entry=entry,
        jobs=how.jobs,
        gpus=_gpus_for_workers(how) if device == "cuda" else (),
        max_memory=how.max_memory,
    )


def _gpus_for_workers(how: Launch) -> tuple[str, ...]:
    """Makes sure that the GPUs are there, and names them as workers need it."""
    from imitbench.bench.devices import check_cuda, find_cuda, visible_gpus

    gpus = how.gpus or ("0",)
    visible = visible_gpus(gpus, os.environ.get("CUDA_VISIBLE_DEVICES"))
    if how.executor == "inline":  # this process is the worker, and has not looked for GPUs yet
        os.environ["CUDA_VISIBLE_DEVICES"] = visible[0]
        check_cuda(("0",), find_cuda())
    elif how.executor == "local":
        check_cuda(gpus, find_cuda())
    return visible


def _summarize(plans: Sequence[Plan], how: Launch, outcome: Outcome) -> None:
    """Collects, then says what happened: counts and failures to stderr, scores to stdout."""
    from imitbench.cli.output import command_for, count, note, print_json
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
    also = "" if how.force else f", and so does `{command_for(how.out, 'resume')}`"
    if outcome.left:
        note(f"stopped with {outcome.left} runs left; the same command resumes{also}")
    if outcome.lost:
        note(
            f"{count(outcome.lost, 'run')} left the queue before being complete (cancelled, or "
            f"with a lost node); the same command resumes{also}"
        )
    if outcome.queued:
        note(
            f"{count(outcome.queued, 'run')} in the queue; "
            f"`{command_for(how.out, 'status', '--watch')}` follows, "
            f"`{command_for(how.out, 'cancel')}` cancels"
        )
    if not how.quiet:
        note(
            f"{outcome.done} done, {outcome.already_done} already there, "
            f"{len(outcome.failed)} failed; results in {how.out}"
        )
