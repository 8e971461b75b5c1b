"""Handles the crash of a worker process: its run gets another attempt or a recorded failure."""

from __future__ import annotations

import importlib
import signal
from dataclasses import dataclass
from pathlib import Path

from imitbench.bench import provenance
from imitbench.bench.job import Job
from imitbench.bench.provenance import isolation_of
from imitbench.bench.stopping import explain_alarm
from imitbench.records.runs import RunFailure, RunSpec
from imitbench.store.run_dir import RunDirectory, RunStatus, State
from imitbench.untrusted.files import read_end

_LOG_TAIL = 4000  # characters


@dataclass(frozen=True)
class JobWorker:
    """The worker program of runs; implements `imitbench.executors.base.Worker`.

    Attributes:
        module: Module of the worker program.
        job_type: Class of its job files.
    """

    module: str = "imitbench.bench.worker"
    job_type: type[Job] = Job

    def main(self, arguments: list[str]) -> int:
        """Runs the program within this process and returns its exit code."""
        code: int = importlib.import_module(self.module).main(arguments)
        return code

    def after_death(self, job: Path, detail: str) -> bool:
        """Records a crash of a worker in the directory of the run, or pack, that it worked on.

        Every call uses up an attempt or a run, so a job always ends.

        Args:
            job: The worker's job file.
            detail: How the worker ended (first line), and the end of its output.

        Returns:
            Whether runs of the job remain to be done.

        Raises:
            InputError: The job file or the results folder cannot be read or written.
            OSError: The file system raised an error.
        """
        return _record_death(self.job_type.read(job), detail)


def _record_death(job: Job, detail: str) -> bool:
    recorded = False
    for spec in _suspects(job):
        directory = RunDirectory.of(Path(job.out), spec)
        with directory.claim(wait=False) as claimed:
            if claimed:
                _record(job, spec, directory, detail)
                recorded = True
                if spec.pack is None:  # the runs of a pack end together
                    break
    if not recorded:  # the worker was only waiting for other processes, which hold these runs
        return False
    return any(not is_settled(job, run) for run in job.runs)


def is_settled(job: Job, spec: RunSpec) -> bool:
    """Whether a job has nothing left to do for one of its runs.

    Runs that this job began or completed before its worker stopped or crashed are not forced
    again, and runs that failed in it are not tried again.
    """
    directory = RunDirectory.of(Path(job.out), spec)
    status = directory.last_status()
    if status is None or status.job != job.id:
        return directory.is_done and not job.force
    return status.state in ("done", "failed") and directory.has_outcome


def attempt_number(job: Job, directory: RunDirectory) -> int:
    """Returns the number of the run's current attempt in this job, counted from 1."""
    status = directory.last_status()
    return status.attempt if status is not None and status.job == job.id else 1


def _suspects(job: Job) -> list[RunSpec]:
    """Runs that the crashed worker may have been working on, the most likely first."""

    def is_innocent(spec: RunSpec) -> bool:
        status = RunDirectory.of(Path(job.out), spec).last_status()
        return status is None or status.job != job.id or status.state != "running"

    return sorted((run for run in job.runs if not is_settled(job, run)), key=is_innocent)


def _record(job: Job, spec: RunSpec, directory: RunDirectory, detail: str) -> None:
    how, _, last_words = detail.partition("\n")
    attempt, status = attempt_number(job, directory), directory.last_status()
    phase = status.phase if status is not None and status.job == job.id else "start"
    if not (directory.path / "spec.json").exists():
        directory.begin(spec)

    def notify(state: State, attempt: int) -> None:
        directory.write_status(RunStatus.now(state, phase, job=job.id, attempt=attempt))

    kind = "WorkerDied"
    if job.timeout_s is not None and signal.SIGALRM.name in how:
        kind, how = "TimedOut", explain_alarm(job.timeout_s)
    message = f"{how} (in phase {phase})"
    with directory.log.open("a") as log:
        log.write(f"attempt {attempt} of {job.retries + 1}: {message}\n")
    if attempt <= job.retries:
        notify("interrupted", attempt + 1)
        return
    log_end = read_end(directory.log, _LOG_TAIL)
    notify("failed", attempt)
    directory.fail(
        RunFailure(
            run_id=spec.run_id,
            phase="worker",
            error_type=kind,
            message=message,
            traceback=f"{last_words}\n\nEnd of {directory.log.name}:\n{log_end}",
            failed_at=provenance.now(),
            references=job.references,
            # Describes this process, which must not use a GPU.
            provenance=provenance.describe_provenance(job.command, "cpu", isolation_of(spec)),
        )
    )
