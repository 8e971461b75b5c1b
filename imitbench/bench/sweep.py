"""Runs a plan: skips what is done, submits the rest, watches it, and counts failures."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from imitbench.bench import artifacts, provenance
from imitbench.bench.interruption import Interruption, noted_interruption
from imitbench.bench.job import CHECKPOINT_S, Job, pack_runs
from imitbench.bench.plan import Plan
from imitbench.bench.spec import reference_scores
from imitbench.errors import InputError
from imitbench.executors.base import Executor, JobEvent
from imitbench.store.records import RunFailure, RunSpec
from imitbench.store.run_dir import RunDirectory
from imitbench.store.sweep_file import SweepFile

WORKER = "imitbench.bench.worker"
_POLL_S = 0.2


class Observer(Protocol):
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
class Outcome:
    """How a sweep ended.

    Attributes:
        already_done: Runs that were complete before.
        done: Runs completed now.
        failed: Runs that failed, with their failure.
        left: Runs not reached because the sweep was stopped.
    """

    already_done: int = 0
    done: int = 0
    failed: list[tuple[RunSpec, RunFailure]] = field(default_factory=list)
    left: int = 0


def run_sweep(
    plan: Plan,
    executor: Executor,
    *,
    out: Path,
    command: str,
    observer: Observer,
    force: bool = False,
    fail_fast: bool = False,
    pack: int = 1,
    checkpoint_s: float = CHECKPOINT_S,
) -> Outcome:
    """Runs a plan to its end.

    Args:
        plan: What to do.
        executor: Where to do it; closed at the end.
        out: Results folder, created when missing.
        command: The command that the user typed, for provenance.
        observer: Told about progress.
        force: Whether completed runs are done again.
        fail_fast: Whether the first failure stops the sweep.
        pack: Most runs in one job.
        checkpoint_s: Least seconds between two checkpoints of a run.

    Returns:
        What happened to each run. Interrupting returns too, with `left` above zero: the first
        Ctrl-C (or SIGTERM, SIGUSR1) once the workers have saved checkpoints, the second at once.

    Raises:
        InputError: The plan cannot be carried out as asked, or the folder cannot be written.
    """
    runs = list(plan)
    check_writable(out)
    open_runs = [run for run in runs if force or not _is_done(out, run)]
    outcome = Outcome(already_done=len(runs) - len(open_runs))
    observer.planned(len(runs), outcome.already_done)
    if not open_runs:
        return outcome
    sweep = _Sweep(plan, executor, out, observer, outcome)
    try:
        SweepFile.of(out, runs, command).write(out)
        with noted_interruption(wanted=executor.prompt) as interruption:
            sweep.submit(
                open_runs, command=command, force=force, pack=pack, checkpoint_s=checkpoint_s
            )
            sweep.watch(interruption, fail_fast=fail_fast)
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
        self, plan: Plan, executor: Executor, out: Path, observer: Observer, outcome: Outcome
    ) -> None:
        self._plan = plan
        self._executor = executor
        self._out = out
        self._observer = observer
        self._outcome = outcome
        self._jobs: dict[Path, Job] = {}
        self._stamps: dict[str, str | None] = {}

    def submit(
        self,
        runs: Iterable[RunSpec],
        *,
        command: str,
        force: bool,
        pack: int,
        checkpoint_s: float,
    ) -> None:
        source, suite = self._plan.settings.source, self._plan.suite
        root = artifacts.source_root(source, suite.name)
        for members in pack_runs(runs, pack):
            job = Job(
                out=str(self._out.resolve()),
                source_root=str(root.resolve()),
                runs=members,
                references=reference_scores(suite, members[0].environment.id, source),
                command=command,
                force=force,
                checkpoint_s=checkpoint_s,
            )
            self._jobs[job.write()] = job
            for run in members:
                self._stamps[run.run_id] = RunDirectory.of(self._out, run).outcome_stamp()
        self._executor.submit(list(self._jobs))

    def watch(self, interruption: Interruption, *, fail_fast: bool) -> None:
        while self._jobs:
            for event in self._executor.poll(_POLL_S):
                self._handle(event)
            if interruption.seen or (fail_fast and self._outcome.failed):
                self._wind_down()

    def _wind_down(self) -> None:
        """Lets workers save checkpoints, and counts what still came to an end."""
        self._observer.stopping()
        self._executor.stop()
        for event in self._executor.poll(0.0):
            if event.kind != "stopped":
                self._handle(event)
        self.stop()

    def stop(self) -> None:
        """Stops workers; whatever they completed in the meantime counts."""
        self._executor.cancel()
        for path, job in self._jobs.items():
            for run in job.runs:
                if RunDirectory.of(self._out, run).is_done and not job.force:
                    self._outcome.done += 1
                else:
                    self._outcome.left += 1
            path.unlink(missing_ok=True)
        self._jobs.clear()

    def _handle(self, event: JobEvent) -> None:
        job = self._jobs[event.job]
        if event.kind == "started":
            self._observer.started(job.runs)
            return
        if event.kind == "stopped":  # by somebody else: it goes on
            self._executor.submit([event.job])
            return
        for run in job.runs:
            failure = self._failure(run, job, event)
            if failure is None:
                self._outcome.done += 1
            else:
                self._outcome.failed.append((run, failure))
            self._observer.finished(run, failure)
        del self._jobs[event.job]
        event.job.unlink(missing_ok=True)

    def _failure(self, run: RunSpec, job: Job, event: JobEvent) -> RunFailure | None:
        """Why a run of an ended job did not complete; `None` if it did."""
        directory = RunDirectory.of(self._out, run)
        untouched = directory.outcome_stamp() == self._stamps[run.run_id]
        if event.kind == "died" and (untouched or not directory.has_outcome):
            failure = _death_of(run, job, event.detail)
            if not directory.is_done:
                directory.fail_for_another(failure, run)
            return failure
        return None if directory.is_done else directory.read_failure()


def _death_of(run: RunSpec, job: Job, detail: str) -> RunFailure:
    first, _, last_words = detail.partition("\n")
    return RunFailure(
        run_id=run.run_id,
        phase="worker",
        error_type="WorkerDied",
        message=first,
        traceback=last_words,
        failed_at=provenance.now(),
        references=job.references,
        provenance=provenance.describe(job.command, "cpu"),
    )
