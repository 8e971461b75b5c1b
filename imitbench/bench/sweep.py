"""Runs plans: skips completed runs, submits the others, and monitors them."""

from __future__ import annotations

import errno
import importlib
import itertools
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from imitbench.bench.job import Job, group_runs, remove_orphans
from imitbench.bench.plan import Plan
from imitbench.bench.plugin_check import check_plugins
from imitbench.bench.stopping import InterruptFlag, catch_interrupts
from imitbench.bench.worker_death import JobWorker
from imitbench.errors import InputError
from imitbench.executors.base import Executor, JobEvent
from imitbench.executors.options import JobOptions, RunOptions
from imitbench.executors.registry import executor_class
from imitbench.published.submission import check_no_submission
from imitbench.records.runs import RunFailure, RunSpec, RunTime
from imitbench.store import lease
from imitbench.store.run_dir import RunDirectory
from imitbench.store.sweep_file import SweepFile, active_sweep
from imitbench.untrusted.files import require_utf8
from imitbench.util.text_line import one_line

_POLL_S = 0.2


@dataclass(frozen=True)
class SweepStart:
    """What a sweep is about to do.

    Attributes:
        out: Root of the results folder.
        total: Number of runs.
        already_done: Number of runs that are complete.
        ahead: Open runs, each with its expected time from the costs on the cards.
    """

    out: Path
    total: int
    already_done: int
    ahead: Sequence[tuple[RunSpec, RunTime]]


class SweepObserver:
    """Notified of the progress of a sweep; this base class does nothing."""

    def planned(self, start: SweepStart) -> None:
        """Called first."""

    def started(self, runs: list[RunSpec]) -> None:
        """Called when a worker starts these runs."""

    def finished(self, run: RunSpec, failure: RunFailure | None) -> None:
        """Called when a run completes or fails."""

    def stopping(self) -> None:
        """Called when workers were requested to save checkpoints and exit; takes a while."""


@dataclass
class SweepOutcome:
    """How a sweep ended.

    Attributes:
        already_done: Number of runs that were complete before.
        done: Number of runs completed by this sweep.
        failed: Runs that failed, each with its failure.
        left: Number of runs not reached because the sweep was stopped.
        queued: Number of runs that continue without this process, in a scheduler's queue.
        lost: Number of runs that a scheduler no longer knows: cancelled, or on a lost node.
    """

    already_done: int = 0
    done: int = 0
    failed: list[tuple[RunSpec, RunFailure]] = field(default_factory=list)
    left: int = 0
    queued: int = 0
    lost: int = 0

    def add(self, other: SweepOutcome) -> None:
        """Adds the outcome of other runs."""
        self.already_done += other.already_done
        self.done += other.done
        self.failed += other.failed
        self.left += other.left
        self.queued += other.queued
        self.lost += other.lost


def carry_out(
    plans: Sequence[Plan], options: RunOptions, *, out: Path, command: str, observer: SweepObserver
) -> SweepOutcome:
    """Runs plans, or submits them, with the executor that the options name.

    Runs of all plans for the same class of device share the executor, so that no worker waits for
    the last run of a plan.

    Args:
        plans: Plans, whose runs start in this order.
        options: Execution options, as `imitbench.executors.registry.resolve` returns them.
        out: Root of the results folder.
        command: The command that the user typed, for provenance.
        observer: Notified of progress.

    Returns:
        Outcome of the runs of all plans. After a stop, open runs count as left.

    Raises:
        InputError: A plan cannot be run as requested.
    """
    check_no_submission(out)
    outcome = SweepOutcome()
    by_device = itertools.groupby(plans, key=lambda plan: plan.processor)
    for device, group in [(device, list(group)) for device, group in by_device]:
        if outcome.left or (options.fail_fast and outcome.failed):
            open_runs = (not RunDirectory.of(out, run).is_done for plan in group for run in plan)
            outcome.left += sum(open_runs)
            continue
        own = options.model_copy(update={"device": device})
        pool = executor_class(options.executor).from_options(own, JobWorker(), out)
        # Loads what the summary needs while the workers are busy. The thread is always joined,
        # because a process that exits in the middle of an import may crash.
        loader = threading.Thread(
            target=importlib.import_module, args=("imitbench.store.collector",)
        )
        loader.start()
        try:
            outcome.add(
                run_sweeps(
                    group, pool, out=out, command=command, observer=observer, options=options
                )
            )
        finally:
            loader.join()
    return outcome


def run_sweeps(
    plans: Sequence[Plan],
    executor: Executor,
    *,
    out: Path,
    command: str,
    observer: SweepObserver,
    options: RunOptions,
    runs_per_job: int = 1,
) -> SweepOutcome:
    """Runs plans together until all are complete or stopped.

    Args:
        plans: Runs and settings. A run that several plans have is done once.
        executor: Runs the jobs; closed at the end.
        out: Results folder, created if missing.
        command: The command that the user typed, for provenance.
        observer: Notified of progress.
        options: Execution options.
        runs_per_job: Largest number of runs in one job; a pack is always a job of its own.

    Returns:
        Outcome of the runs. An interrupted sweep also returns, with `left` above zero: after the
        first Ctrl-C (or SIGTERM, SIGUSR1, SIGUSR2) once the workers have saved checkpoints,
        after the second immediately. Jobs that outlive this process are `queued`.

    Raises:
        InputError: A plan cannot be run as requested, or the folder cannot be written.
    """
    sweeps = [(plan, list(plan)) for plan in plans]
    estimates = [plan.estimates(out).on_cards for plan in plans]
    check_writable(out)
    distinct = {run.run_id: run for _, runs in sweeps for run in runs}
    open_ids = {key for key, run in distinct.items() if options.force or not _is_done(out, run)}
    outcome = SweepOutcome(already_done=len(distinct) - len(open_ids))
    ahead = {
        run.run_id: (run, estimate(run))
        for (_, runs), estimate in zip(sweeps, estimates, strict=True)
        for run in runs
        if run.run_id in open_ids
    }
    observer.planned(SweepStart(out, len(distinct), outcome.already_done, [*ahead.values()]))
    if not open_ids:
        return outcome
    for plan, runs in sweeps:
        if not open_ids.isdisjoint(run.run_id for run in runs):
            check_plugins(plan)
    sweep = _Sweep(executor, out, observer, outcome)
    try:
        for (plan, runs), estimate in zip(sweeps, estimates, strict=True):
            if plan.only is None:
                SweepFile.of(out, runs, command, plan.request, estimate).write(out)
        with active_sweep(out), catch_interrupts(wanted=executor.prompt) as interruption:
            remove_orphans(out)
            open_ids -= sweep.take_over(open_ids)
            if executor.outlives and not options.force:
                open_ids -= sweep.count_ended([distinct[key] for key in sorted(open_ids)])
            for plan, runs in sweeps:
                own = [run for run in runs if run.run_id in open_ids]
                open_ids.difference_update(run.run_id for run in own)
                sweep.submit(plan, _grouped(plan, own, runs_per_job), command, options.for_jobs)
            if executor.detached:
                sweep.stop()
            else:
                sweep.watch(interruption, fail_fast=options.fail_fast)
    except KeyboardInterrupt:
        sweep.stop()
    except OSError as error:
        sweep.stop()
        raise InputError(
            f"--out {out}: {error.strerror}; fix that, then run the same command again: "
            "completed runs are kept"
        ) from error
    except BaseException:
        sweep.stop()  # no worker continues after an error
        raise
    else:
        executor.close()
    return outcome


def check_writable(out: Path) -> None:
    """Checks that results can be written, before any work is done.

    Raises:
        InputError: The folder cannot be created or written.
    """
    require_utf8(out.absolute())  # job files have the path
    if {"\n", "\r"} & set(str(out.absolute())):  # workers read the paths of jobs line by line
        told = one_line(str(out.absolute()))
        raise InputError(f"--out {told}: has a line break in its path; name another folder")
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=out, prefix=".probe-") as probe:
            probe.write(b"x" * 4096)
            probe.flush()
    except OSError as error:
        raise InputError(
            f"--out {out}: cannot be written ({error.strerror}); choose another folder"
        ) from error


def _is_done(out: Path, run: RunSpec) -> bool:
    directory = RunDirectory.of(out, run)
    directory.remove_leftover_checkpoints()
    return directory.is_done


_Group = tuple[list[RunSpec], list[RunSpec]]
"""Runs of a job, and other runs of their pack."""


def _grouped(plan: Plan, left: list[RunSpec], size: int) -> Iterator[_Group]:
    """Groups runs into jobs.

    Args:
        plan: Plan of the runs.
        left: Runs to do.
        size: Largest number of runs in one job.
    """
    if plan.request.pack is None:
        for group in group_runs(left, size):
            yield group, []
        return
    ids = {run.run_id for run in left}
    for pack in group_runs(replace(plan, only=None), size):
        members = [run for run in pack if run.run_id in ids]
        if members:
            others = [run for run in pack if run.run_id not in ids] if members[0].pack else []
            yield members, others


class _Sweep:
    """The unfinished jobs of a sweep."""

    def __init__(
        self, executor: Executor, out: Path, observer: SweepObserver, outcome: SweepOutcome
    ) -> None:
        self._executor = executor
        self._out = out
        self._observer = observer
        self._outcome = outcome
        self._jobs: dict[Path, Job] = {}
        self._stamps: dict[str, str | None] = {}

    def take_over(self, wanted: Set[str]) -> set[str]:
        """Takes over jobs that an earlier process submitted; returns the ids of their runs."""
        taken: set[str] = set()
        for path in self._executor.adopt():
            try:
                job = Job.read(path)
            except InputError:  # completed in the meantime
                continue
            ids = {run.run_id for run in job.runs}
            if ids & (wanted - taken):
                self._add(path, job)
                taken |= ids
        return taken

    def count_ended(self, runs: Iterable[RunSpec]) -> set[str]:
        """Counts runs that jobs of an earlier process have completed; returns their ids.

        Such a job may end after the runs were listed, and before it could be taken over.
        """
        ended = [run for run in runs if _is_done(self._out, run)]
        for run in ended:
            self._finished(run, None)
        return {run.run_id for run in ended}

    def submit(
        self, plan: Plan, groups: Iterable[_Group], command: str, options: JobOptions
    ) -> None:
        root = str(plan.source_root.resolve())
        estimates = plan.estimates(self._out) if self._executor.combines_jobs else None
        sources = plan.sources
        submitted: dict[Path, float] = {}
        for members, companions in groups:
            job = Job(
                out=str(self._out.resolve()),
                source_root=root,
                sources=sources,
                runs=members,
                companions=companions,
                references=plan.references(members[0].environment.id),
                command=command,
                owner="" if self._executor.outlives else lease.process_mark(),
                **dict(options),
            )
            path = job.write()
            self._add(path, job)
            submitted[path] = sum(map(estimates.seconds, members)) if estimates else 0.0
        if submitted:
            self._executor.submit(list(submitted), list(submitted.values()))

    def _add(self, path: Path, job: Job) -> None:
        self._jobs[path] = job
        for run in job.runs:
            self._stamps[run.run_id] = RunDirectory.of(self._out, run).outcome_stamp()

    def watch(self, interruption: InterruptFlag, *, fail_fast: bool) -> None:
        while self._jobs:
            for event in self._executor.poll(_POLL_S):
                self._handle(event)
            if interruption.seen or (fail_fast and self._outcome.failed):
                self._wind_down()

    def _wind_down(self) -> None:
        """Lets workers save checkpoints, and counts the runs that still end."""
        if self._executor.outlives:
            if self._outcome.failed:
                self._executor.kill()
            self.stop()
            return
        self._observer.stopping()
        self._executor.stop()
        for event in self._executor.poll(0.0):
            if event.kind != "stopped":
                self._handle(event, ending=True)
        self.stop()

    def stop(self) -> None:
        """Stops workers, unless they outlive this process; counts what they completed."""
        if not self._executor.outlives:
            self._executor.kill()
        for path, job in self._jobs.items():
            queued = self._executor.outlives and path.exists()
            for run in job.runs:
                if RunDirectory.of(self._out, run).is_done and not job.force:
                    self._outcome.done += 1
                elif queued:
                    self._outcome.queued += 1
                else:
                    self._outcome.left += 1
            if not queued:
                with suppress(OSError):  # a failing disk may be why the sweep stops
                    path.unlink(missing_ok=True)
        self._jobs.clear()

    def _handle(self, event: JobEvent, *, ending: bool = False) -> None:
        job = self._jobs.get(event.job)
        if job is None:  # of an earlier process; it ended before it was taken over, or is not ours
            return
        if event.kind == "started":
            self._observer.started(job.runs)
            return
        if event.kind == "stopped":  # not by this process: submit it again
            self._executor.submit([event.job])
            return
        if event.kind == "died":
            how, *further = event.detail.splitlines()
            raise OSError(errno.EIO, f"{how}: {further[-1]}" if further else how)
        states = [self._state(job, run) for run in job.runs]
        if "open" in states and not (ending or self._executor.outlives):
            # Another process is working on a run. A worker waits for it, and takes over if
            # necessary. Or the worker was killed while it waited, or its failure was cleared.
            self._executor.submit([event.job])
            return
        for run, state in zip(job.runs, states, strict=True):
            match state:
                case "done":
                    self._finished(run, None)
                case "lost":
                    self._outcome.lost += 1
                case "open":
                    self._outcome.left += 1
                case failure:
                    self._finished(run, failure)
        del self._jobs[event.job]
        event.job.unlink(missing_ok=True)

    def _state(self, job: Job, run: RunSpec) -> RunFailure | Literal["done", "lost", "open"]:
        """Returns the state of a run after its job ended; `open` without an outcome."""
        directory = RunDirectory.of(self._out, run)
        untouched = directory.outcome_stamp() == self._stamps[run.run_id]
        if directory.is_done and not (job.force and untouched):
            return "done"
        if self._executor.outlives and untouched:
            return "lost"
        return directory.failure_on_record() or "open"

    def _finished(self, run: RunSpec, failure: RunFailure | None) -> None:
        if failure is None:
            self._outcome.done += 1
        else:
            self._outcome.failed.append((run, failure))
        self._observer.finished(run, failure)
