"""Interfaces of executors and of the workers that they start."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Protocol

from imitbench.errors import InputError
from imitbench.executors.devices import choose_device, count_threads, count_workers
from imitbench.executors.options import RunOptions

STOPPED = 75
"""Exit code of a worker that received a request to stop (SIGTERM, SIGUSR1, SIGUSR2); another
worker can resume its job. The value is EX_TEMPFAIL of sysexits.h."""
RESTART = 76
"""Exit code of a worker that requests a new process to continue the same job: a failure was
recorded, but may have corrupted the state of its process."""


@dataclass(frozen=True)
class JobEvent:
    """Something that happened to a job.

    Attributes:
        job: Path of the job file.
        kind: `started`; `finished` (its runs record their outcomes); `stopped` (the worker
            received a request to stop, and the job can be submitted again); `died` (the worker
            crashed, and the crash could not be recorded); or `lost` (the scheduler no longer
            knows the job, which is not the fault of its runs).
        detail: How the worker ended (first line), the end of its output, and other problems.
    """

    job: Path
    kind: str
    detail: str = ""


class Worker(Protocol):
    """A worker program, and the functions that its supervisor calls.

    The program is `python -m MODULE JOBFILE`; or `python -m MODULE -`, which reads job files from
    standard input, one per line, and answers each with the same line on standard output when it is
    done. Exit codes: 0 when every run has an outcome, `STOPPED`, `RESTART` (only where jobs are
    read from standard input), and 2 when nothing could be done. Some executors pickle the worker.
    """

    @property
    def module(self) -> str:
        """Module of the program."""

    def main(self, arguments: list[str]) -> int:
        """Runs the program within this process and returns its exit code."""

    def after_death(self, job: Path, detail: str) -> bool:
        """Records that a process of the program crashed.

        Args:
            job: Job file of the process.
            detail: How the process ended (first line), and the end of its output.

        Returns:
            Whether runs of the job remain, which another process must do.

        Raises:
            Exception: The crash could not be recorded.
        """


@dataclass(frozen=True)
class Preview:
    """What an executor would submit to a scheduler.

    Attributes:
        tasks: Number of tasks.
        arrays: Number of job arrays; `None` if only the scheduler knows.
        command: Command of the scheduler.
        request: Resources that each task requests, as options of that command.
    """

    tasks: int
    arrays: int | None
    command: str
    request: Mapping[str, object]

    def as_document(self) -> dict[str, object]:
        """Returns what `--json` prints."""
        return {"tasks": self.tasks, "arrays": self.arrays, self.command: dict(self.request)}


class Executor(ABC):
    """Runs jobs with a worker, on this machine or elsewhere.

    A third-party executor is a subclass in an installed package, named by an entry point of the
    group `imitbench.executors`; `--executor NAME` finds it there. It must implement
    `from_options`, `submit`, `poll`, `kill` and `close`. An executor whose jobs outlive this
    process stores its data in the folder `.NAME` of the results folder: `status`, `cancel` and
    `logs` are called if that folder exists.

    Args:
        worker: Worker that runs the jobs.

    Attributes:
        option_help: Options (by keyword, see `RunOptions`) that apply only to this executor, with
            a line of help for each.
        limits_memory: Whether its workers are killed above a memory limit.
        prompt: Whether `poll` returns in time, which is so if jobs run in other processes.
        distributed: Whether jobs run on other machines, which share file systems with this one.
        outlives: Whether submitted jobs continue when this process ends.
        detached: Whether this process does not wait for the jobs.
        combines_jobs: Whether it needs the expected run time of jobs, to combine short ones.
        at_once: Number of jobs to submit at a time if the next ones depend on results.
    """

    option_help: ClassVar[Mapping[str, str]] = MappingProxyType({})
    limits_memory = False
    prompt = True
    distributed = False
    outlives = False
    detached = False
    combines_jobs = False
    at_once = 1

    def __init__(self, worker: Worker) -> None:
        self.worker = worker

    @classmethod
    def resolve(cls, options: RunOptions) -> RunOptions:
        """Fills in unspecified options: device, GPUs, and the numbers of runs and of threads.

        Raises:
            InputError: Two options contradict each other, or this machine cannot fulfil one.
        """
        if options.max_memory is not None and not cls.limits_memory:
            raise InputError("--max-mem: only worker processes on Linux can be limited; omit it")
        chosen = choose_device(options.device, options.gpus)
        jobs = count_workers(options.jobs, chosen.gpus, options.per_gpu)
        # Where jobs run on other machines, only the executor may know their cores.
        threads = options.threads if cls.distributed else count_threads(options.threads, jobs)
        return options.model_copy(
            update={
                "device": chosen.device,
                "gpus": chosen.gpus,
                "jobs": jobs,
                "threads": threads,
            }
        )

    @classmethod
    def check(cls, options: RunOptions) -> None:
        """Checks that this machine has what the options request; `--dry-run` calls it, too.

        Args:
            options: Options as `resolve` returns them.

        Raises:
            InputError: Something is missing, for example a GPU.
        """
        del options

    @classmethod
    @abstractmethod
    def from_options(cls, options: RunOptions, worker: Worker, out: Path) -> Executor:
        """Creates an executor.

        Args:
            options: Options as `resolve` returns them.
            worker: Worker that runs the jobs.
            out: Folder that contains all job files.

        Raises:
            InputError: The executor is not available on this machine.
        """

    @classmethod
    def preview(cls, options: RunOptions, expected_s: Sequence[float]) -> Preview | None:
        """Returns what would be submitted to a scheduler; `None` without a scheduler.

        Args:
            options: Options as `resolve` returns them.
            expected_s: Expected seconds of each run.
        """
        del options, expected_s
        return None

    @classmethod
    def status(cls, out: Path) -> str | None:
        """Describes a folder's tasks in a scheduler's queue in one line; `None` if none."""
        del out
        return None

    @classmethod
    def cancel(cls, out: Path) -> int:
        """Removes the tasks of a results folder from a scheduler's queue.

        Returns:
            Number of tasks that were waiting or running.

        Raises:
            InputError: The scheduler cannot be reached.
        """
        del out
        return 0

    @classmethod
    def logs(cls, out: Path, run_id: str) -> list[tuple[str, Path]]:
        """Returns a scheduler's logs of a run's tasks: titles and files, oldest first."""
        del out, run_id
        return []

    @abstractmethod
    def submit(self, jobs: Sequence[Path], expected_s: Sequence[float] = ()) -> None:
        """Accepts job files; they start in this order when workers are free.

        Args:
            jobs: Paths of the job files.
            expected_s: Expected seconds of each job, for an executor that combines jobs.
        """

    def adopt(self) -> list[Path]:
        """Returns job files that an earlier process submitted and that are still in progress.

        `poll` also reports their events.
        """
        return []

    @abstractmethod
    def poll(self, timeout: float) -> list[JobEvent]:
        """Returns events since the last call; waits at most `timeout` seconds for the first."""

    def stop(self) -> None:
        """Requests running jobs to save checkpoints and end, waits, and drops waiting jobs.

        `poll` then returns the remaining events. The default implementation kills the jobs.
        """
        self.kill()

    @abstractmethod
    def kill(self) -> None:
        """Ends running jobs immediately, and drops waiting ones."""

    @abstractmethod
    def close(self) -> None:
        """Releases all resources; no job may be running."""
