"""Runs plans: skips what is done, submits the rest, watches it, and counts failures."""

from __future__ import annotations

import errno
import importlib
import tempfile
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from imitbench.bench import artifacts
from imitbench.bench.job import Job, pack_runs
from imitbench.bench.plan import DurationEstimates, Plan
from imitbench.bench.plugin_check import check_plugins
from imitbench.bench.spec import reference_scores
from imitbench.bench.stopping import InterruptFlag, catch_interrupts
from imitbench.bench.worker_death import JobWorker
from imitbench.errors import InputError
from imitbench.executors.base import Executor, JobEvent
from imitbench.executors.options import JobOptions, RunOptions
from imitbench.executors.registry import executor_class
from imitbench.records.runs import RunFailure, RunSpec
from imitbench.store.activity import active_sweep
from imitbench.store.run_dir import RunDirectory
from imitbench.store.sweep_file import SweepFile

_POLL_S = 0.2


class SweepObserver(Protocol):
    """Is told how a sweep goes."""

    def planned(self, total: int, already_done: int) -> None:
        """The sweep has `total` runs, of which some need nothing."""

    def started(self, runs: list[RunSpec]) -> None:
        """A worker took these runs."""

    def finished(self, run: RunSpec, failure: RunFailure | None) -> None:
        """A run completed or failed."""

    def stopping(self) -> None:
        """Workers were asked to save checkpoints and end; that may take a while."""


@dataclass
class SweepOutcome:
    """How a sweep ended.

    Attributes:
        already_done: Runs that were complete before.
        done: Runs completed now.
        failed: Runs that failed, with their failure.
        left: Runs not reached because the sweep was stopped.
        queued: Runs that go on without this process, in a scheduler's queue.
        lost: Runs that a scheduler has forgotten: cancelled, or with a node that was lost.
    """

    already_done: int = 0
    done: int = 0
    failed: list[tuple[RunSpec, RunFailure]] = field(default_factory=list)
    left: int = 0
    queued: int = 0
    lost: int = 0

    def add(self, other: SweepOutcome) -> None:
        """Adds what came of other runs."""
        self.already_done += other.already_done
        self.done += other.done
        self.failed += other.failed
        self.left += other.left
        self.queued += other.queued
        self.lost += other.lost


def carry_out(
    plans: Sequence[Plan], options: RunOptions, *, out: Path, command: str, observer: SweepObserver
) -> SweepOutcome:
    """Runs one plan after the other, or submits them, by the executor that options name.

    Args:
        plans: What to do.
        options: How, as `imitbench.executors.registry.resolve` gives it.
        out: Results folder.
        command: The command that the user typed, for provenance.
        observer: Told about progress.

    Returns:
        What happened to the runs of all plans. Once a plan was stopped, what is open of those
        after it counts as left.

    Raises:
        InputError: It cannot be carried out as asked.
    """
    outcome = SweepOutcome()
    for plan in plans:
        if outcome.left or (options.fail_fast and outcome.failed):
            outcome.left += sum(not RunDirectory.of(out, run).is_done for run in plan)
            continue
        own = options.model_copy(update={"device": plan.settings.device})
        pool = executor_class(options.executor).from_options(own, JobWorker(), out)
        # What the summary needs is loaded while the workers are busy. It is waited for in any
        # case: a process that ends in the middle of an import may crash.
        loader = threading.Thread(
            target=importlib.import_module, args=("imitbench.store.collector",)
        )
        loader.start()
        try:
            outcome.add(
                run_sweep(plan, pool, out=out, command=command, observer=observer, options=options)
            )
        finally:
            loader.join()
    return outcome


def run_sweep(
    plan: Plan,
    executor: Executor,
    *,
    out: Path,
    command: str,
    observer: SweepObserver,
    options: RunOptions | None = None,
    pack: int = 1,
) -> SweepOutcome:
    """Runs a plan to its end.

    Args:
        plan: What to do.
        executor: Where to do it; closed at the end.
        out: Results folder, created when missing.
        command: The command that the user typed, for provenance.
        observer: Told about progress.
        options: How runs are carried out.
        pack: Most runs in one job.

    Returns:
        What happened to each run. Interrupting returns too, with `left` above zero: the first
        Ctrl-C (or SIGTERM, SIGUSR1, SIGUSR2) once the workers have saved checkpoints, the second
        at once.
        Where jobs outlive this process, they go on, and count as `queued`.

    Raises:
        InputError: The plan cannot be carried out as asked, or the folder cannot be written.
    """
    options = options or RunOptions()
    runs = list(plan)
    check_writable(out)
    open_runs = [run for run in runs if options.force or not _is_done(out, run)]
    outcome = SweepOutcome(already_done=len(runs) - len(open_runs))
    observer.planned(len(runs), outcome.already_done)
    if not open_runs:
        return outcome
    check_plugins(plan)
    sweep = _Sweep(plan, executor, out, observer, outcome)
    try:
        if plan.only is None:
            SweepFile.of(out, runs, command, plan.request).write(out)
        with active_sweep(out), catch_interrupts(wanted=executor.prompt) as interruption:
            sweep.submit(sweep.adopt(open_runs), command, options.for_jobs, pack)
            if executor.detached:
                sweep.stop()
            else:
                sweep.watch(interruption, fail_fast=options.fail_fast)
    except KeyboardInterrupt:
        sweep.stop()
    except OSError as error:
        sweep.stop()
        raise InputError(
            f"--out {out}: {error.strerror}; mend that, then run the same command again: "
            "completed runs are kept"
        ) from error
    except BaseException:
        sweep.stop()  # no worker goes on behind the back of an error
        raise
    else:
        executor.close()
    return outcome


def check_writable(out: Path) -> None:
    """Makes sure that results can be written before any work is done.

    Raises:
        InputError: They cannot.
    """
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
    directory.tidy()
    return directory.is_done


class _Sweep:
    """The jobs of a sweep that are not finished yet."""

    def __init__(
        self,
        plan: Plan,
        executor: Executor,
        out: Path,
        observer: SweepObserver,
        outcome: SweepOutcome,
    ) -> None:
        self._plan = plan
        self._executor = executor
        self._out = out
        self._observer = observer
        self._outcome = outcome
        self._jobs: dict[Path, Job] = {}
        self._stamps: dict[str, str | None] = {}

    def adopt(self, runs: Iterable[RunSpec]) -> list[RunSpec]:
        """Takes on the jobs that an earlier process submitted; returns the runs of no such job."""
        wanted = {run.run_id: run for run in runs}
        for path in self._executor.adopt():
            try:
                job = Job.read(path)
            except InputError:  # completed just now
                continue
            if any(run.run_id in wanted for run in job.runs):
                self._take(path, job)
                for run in job.runs:
                    wanted.pop(run.run_id, None)
        return list(wanted.values())

    def submit(self, runs: Iterable[RunSpec], command: str, options: JobOptions, pack: int) -> None:
        source, suite = self._plan.settings.source, self._plan.suite
        folder = self._plan.settings.folder
        root = artifacts.source_root(source, suite.origin.folder, folder)
        estimates = DurationEstimates(self._plan, self._out) if self._executor.packs else None
        sources = self._plan.sources
        submitted: dict[Path, float] = {}
        for members in pack_runs(runs, pack):
            job = Job(
                out=str(self._out.resolve()),
                source_root=str(root.resolve()),
                sources=sources,
                runs=members,
                references=reference_scores(suite, members[0].environment.id, source, folder),
                command=command,
                **dict(options),
            )
            path = job.write()
            self._take(path, job)
            submitted[path] = sum(map(estimates.seconds, members)) if estimates else 0.0
        if submitted:
            self._executor.submit(list(submitted), list(submitted.values()))

    def _take(self, path: Path, job: Job) -> None:
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
        """Lets workers save checkpoints, and counts what still came to an end."""
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
        """Stops workers, unless they outlive this process; what they completed counts."""
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
                with suppress(OSError):  # it may be why everything stops
                    path.unlink(missing_ok=True)
        self._jobs.clear()

    def _handle(self, event: JobEvent, *, ending: bool = False) -> None:
        job = self._jobs[event.job]
        if event.kind == "started":
            self._observer.started(job.runs)
            return
        if event.kind == "stopped":  # by somebody else: it goes on
            self._executor.submit([event.job])
            return
        if event.kind == "died":
            how, *further = event.detail.splitlines()
            raise OSError(errno.EIO, f"{how}: {further[-1]}" if further else how)
        fates = [self._fate(job, run) for run in job.runs]
        if "open" in fates and not (ending or self._executor.outlives):
            # Another process is at work on a run. A worker waits for that, and takes over if need
            # be; the one before was killed while it did, or its failure has been cleared away.
            self._executor.submit([event.job])
            return
        for run, fate in zip(job.runs, fates, strict=True):
            match fate:
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

    def _fate(self, job: Job, run: RunSpec) -> RunFailure | Literal["done", "lost", "open"]:
        """What became of a run of a job that came to an end; `open` if no outcome is there."""
        directory = RunDirectory.of(self._out, run)
        untouched = directory.outcome_stamp() == self._stamps[run.run_id]
        if directory.is_done and not (job.force and untouched):
            return "done"
        if self._executor.outlives and untouched:
            return "lost"
        return _failure_on_record(directory) or "open"

    def _finished(self, run: RunSpec, failure: RunFailure | None) -> None:
        if failure is None:
            self._outcome.done += 1
        else:
            self._outcome.failed.append((run, failure))
        self._observer.finished(run, failure)


def _failure_on_record(directory: RunDirectory) -> RunFailure | None:
    """Why a run failed; `None` if that is not said, or another process began the run anew."""
    try:
        return directory.read_failure()
    except InputError:
        if directory.failure_is_on_record:  # damaged
            raise
        return None
