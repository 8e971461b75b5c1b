"""Submits jobs to a SLURM cluster as arrays, and monitors them."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import TypeVar

from imitbench.errors import InputError
from imitbench.executors.base import Executor, JobEvent, Preview, Worker
from imitbench.executors.options import RunOptions
from imitbench.executors.slurm import OPTION_HELP
from imitbench.executors.slurm.profile import Profile, read_profile
from imitbench.executors.slurm.queue import (
    SchedulerError,
    SlurmSubmission,
    TaskArray,
    cancel_submissions,
    existing,
    is_available,
    max_array_size,
    open_tasks,
    queue_states,
    read_submissions,
    require_slurm,
    task_logs,
)
from imitbench.executors.slurm.task import SlurmTask
from imitbench.util.extras import import_extra
from imitbench.util.interpreter import shell_prefix

_Job = TypeVar("_Job")

_LARGEST_SHARE = 0.5
"""A pack stays below this share of the time limit, because estimates are rough and a requeue takes
minutes."""


def pack_tasks(
    jobs: Sequence[_Job],
    expected_s: Sequence[float],
    *,
    least_s: float,
    limit_s: float,
    workers: int = 1,
) -> list[list[_Job]]:
    """Distributes jobs over tasks, in their order.

    Args:
        jobs: Jobs, or objects that represent them.
        expected_s: Expected seconds of each job; empty if unknown: each job is then a task.
        least_s: Minimum expected seconds of a task.
        limit_s: Time limit of a task in seconds.
        workers: Number of jobs at a time within a task.

    Returns:
        Jobs of each task.
    """
    if not expected_s:
        return [[job] for job in jobs]
    wanted = workers * min(least_s, _LARGEST_SHARE * limit_s)
    tasks: list[list[_Job]] = []
    filled_s = float("inf")
    for job, seconds in zip(jobs, expected_s, strict=True):
        # A task that can do several runs at a time gets at least that many.
        if filled_s >= wanted and (not tasks or len(tasks[-1]) >= workers):
            tasks.append([])
            filled_s = 0.0
        tasks[-1].append(job)
        filled_s += seconds
    return tasks


_AT_ONCE = 8
"""Number of jobs in the queue at a time if the next ones depend on results."""
_QUEUE_S = 3.0
"""Seconds between two queries of the queue, which all users of a cluster share."""
_FILES_S = 1.0
"""Seconds between two listings of the job files, which may be on a network file system."""
_FORGOTTEN_S = 10.0
"""Seconds until a task that the scheduler does not know counts as lost: it may have completed, and
a network file system shows that with a delay."""


class SlurmExecutor(Executor):
    """Submits arrays of tasks; each serves one or more jobs.

    Args:
        worker: Worker that runs the jobs.
        out: Results folder, on a file system that all nodes share.
        options: Execution options.

    Raises:
        InputError: No cluster is accessible, or submitit is not installed.
    """

    option_help = OPTION_HELP
    limits_memory = True
    distributed = True
    outlives = True
    combines_jobs = True

    def __init__(self, worker: Worker, out: Path, options: RunOptions) -> None:
        super().__init__(worker)
        self._submitit = import_extra("submitit", "slurm", "--executor slurm")
        require_slurm()
        self._out = out.resolve()
        self._options = options
        self._profile = _profile_of(options)
        self.at_once = min(_AT_ONCE, self._profile.array_parallelism * self._profile.workers)
        self.detached = not options.wait
        self._submissions: list[SlurmSubmission] = []
        self._waiting: set[Path] = set()
        self._running: set[Path] = set()
        self._missing: dict[Path, float] = {}
        self._listed = self._queried = 0.0

    @classmethod
    def resolve(cls, options: RunOptions) -> RunOptions:
        """Fills in unspecified options as every executor does, with the profile's resources.

        Raises:
            InputError: The profile is invalid, or an option duplicates or exceeds it.
        """
        for option, value, keys in (
            ("--jobs", options.jobs, "workers and array_parallelism"),
            ("--gpus", ",".join(options.gpus) or None, "gpus"),
        ):
            if value is not None:
                raise InputError(
                    f"{option} {value}: with --executor slurm, set {keys} in the profile"
                )
        profile = _profile_of(options)
        gpus = tuple(str(number) for number in range(profile.gpus))
        threads = options.threads or max(1, profile.cpus // profile.workers)
        if threads > profile.cpus:
            raise InputError(
                f"--threads {threads}: tasks have {profile.cpus} cores; set cpus in the profile"
            )
        return super().resolve(options.model_copy(update={"gpus": gpus, "threads": threads}))

    @classmethod
    def from_options(cls, options: RunOptions, worker: Worker, out: Path) -> SlurmExecutor:
        """Creates the executor.

        Raises:
            InputError: As for the class.
        """
        return cls(worker, out, options)

    @classmethod
    def preview(cls, options: RunOptions, expected_s: Sequence[float]) -> Preview:
        """Returns the arrays that would be submitted.

        Raises:
            InputError: The profile is invalid, or the cluster does not answer.
        """
        tasks = len(_divide(range(len(expected_s)), expected_s, options))
        # Only the cluster knows the maximum size of an array.
        arrays = -(-tasks // max_array_size()) if is_available() else None
        return Preview(tasks, arrays, "sbatch", _profile_of(options).sbatch_options())

    @classmethod
    def status(cls, out: Path) -> str | None:
        """Returns the number of tasks in the queue by state, as one line."""
        try:
            states = queue_states(out)
        except SchedulerError as error:
            return f"SLURM does not answer ({error})"
        words = [f"{number} {state.lower()}" for state, number in sorted(states.items())]
        return f"tasks in SLURM's queue: {', '.join(words)}" if words else None

    @classmethod
    def cancel(cls, out: Path) -> int:
        """Cancels tasks; running ones save checkpoints if the cluster gives them the time.

        Raises:
            InputError: No cluster is accessible, or it does not answer.
        """
        submissions = list(read_submissions(out))
        if submissions:
            require_slurm()
        return cancel_submissions(submissions)

    @classmethod
    def logs(cls, out: Path, run_id: str) -> list[tuple[str, Path]]:
        """Returns the standard error output of a run's tasks."""
        return [(f"SLURM: {path.name}", path) for path in task_logs(out, run_id)]

    def submit(self, jobs: Sequence[Path], expected_s: Sequence[float] = ()) -> None:
        """Submits jobs as arrays.

        Raises:
            InputError: The scheduler refuses an array; arrays that it accepted stay in the queue.
        """
        tasks = _divide(jobs, expected_s, self._options)
        submission = SlurmSubmission.of(tasks, max_array_size())
        submission.write(self._out)
        self._submissions.append(submission)
        self._waiting.update(jobs)
        for number, array in enumerate(submission.arrays):
            try:
                self._submit_array(array, submission.logs(self._out, number))
            except (InputError, RuntimeError) as error:  # submitit raises the latter
                for job in submission.jobs_from(number):
                    job.unlink(missing_ok=True)
                raise InputError(
                    f"--executor slurm: array {number + 1} of {len(submission.arrays)} was refused "
                    f"({_last_line(error)}); fix the profile, then run the same command again; "
                    "tasks already in the queue stay there"
                ) from error

    def adopt(self) -> list[Path]:
        """Returns job files of earlier submissions whose tasks are still in the queue.

        Tasks that a killed submitter has left with nothing to run are cancelled.

        Raises:
            SchedulerError: The scheduler does not answer.
        """
        submissions = list(read_submissions(self._out))
        cancel_submissions(submission.unserved(self._out) for submission in submissions)
        queued = [task for task in open_tasks(submissions) if task.state is not None]
        names = {task.array for task in queued}
        self._submissions += [own for own in submissions if names & set(own.names)]
        jobs = [job for task in queued for job in task.jobs]
        self._waiting.update(jobs)
        return jobs

    def _submit_array(self, array: TaskArray, folder: Path) -> None:
        profile = self._profile
        python = shell_prefix(profile.python(sys.executable), own=profile.container is None)
        executor = self._submitit.SlurmExecutor(folder=folder, python=python)
        executor.update_parameters(job_name=array.name, **profile.parameters())
        # The error contains the output of sbatch, which must not be printed twice.
        with redirect_stderr(io.StringIO()), executor.batch():
            for jobs in array.tasks:
                executor.submit(
                    SlurmTask(
                        worker=self.worker,
                        jobs=jobs,
                        workers=profile.workers,
                        gpus=profile.gpus > 0,
                        max_requeues=profile.max_requeues,
                        max_memory=self._options.max_memory,
                    )
                )

    def poll(self, timeout: float) -> list[JobEvent]:
        """Returns the events since the last call, from the job files and the queue."""
        time.sleep(timeout)
        events = []
        if time.monotonic() - self._listed >= _FILES_S:
            gone = self._waiting - existing(self._waiting)
            self._waiting -= gone
            events += [JobEvent(job, "finished") for job in sorted(gone)]
            self._listed = time.monotonic()
        if time.monotonic() - self._queried >= _QUEUE_S:
            events += self._read_queue()
            self._queried = time.monotonic()
        return events

    def _read_queue(self) -> list[JobEvent]:
        try:
            tasks = open_tasks(self._submissions)
        except SchedulerError:
            return []  # the scheduler may be restarting; jobs continue without it
        events = []
        now = time.monotonic()
        for task in tasks:
            jobs = [job for job in task.jobs if job in self._waiting]
            if task.state is None:
                since = [self._missing.setdefault(job, now) for job in jobs]
                if jobs and now - min(since) >= _FORGOTTEN_S:
                    events += [JobEvent(job, "lost") for job in jobs]
                    self._waiting.difference_update(jobs)
                continue
            for job in jobs:
                self._missing.pop(job, None)
            if task.state == "RUNNING" and jobs and jobs[0] not in self._running:
                self._running.add(jobs[0])
                events.append(JobEvent(jobs[0], "started"))
        return events

    def kill(self) -> None:
        """Removes submitted tasks from the queue; runs keep their checkpoints."""
        cancel_submissions(self._submissions)
        self._waiting.clear()

    def close(self) -> None:
        """Does nothing; there are no resources."""


def _profile_of(options: RunOptions) -> Profile:
    """Returns the profile; runs on the CPU leave its GPUs to others."""
    profile = Profile() if options.profile is None else read_profile(options.profile)
    if options.device == "cpu":
        return profile.model_copy(update={"gpus": 0, "gpu_type": None})
    return profile


def _divide(
    jobs: Sequence[_Job], expected_s: Sequence[float], options: RunOptions
) -> list[list[_Job]]:
    """Distributes jobs over tasks, as `pack_tasks` does."""
    profile = _profile_of(options)
    return pack_tasks(
        jobs,
        expected_s,
        least_s=options.min_task_s,
        limit_s=60 * profile.minutes,
        workers=profile.workers,
    )


def _last_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__
