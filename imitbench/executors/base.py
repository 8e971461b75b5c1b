"""What every executor offers, and what it asks of a worker."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Protocol

from imitbench.errors import InputError
from imitbench.executors.devices import choose_device, count_workers
from imitbench.executors.options import RunOptions

STOPPED = 75
"""Exit code of a worker that was asked to stop (SIGTERM, SIGUSR1, SIGUSR2) and can be resumed by
giving its job to another one: EX_TEMPFAIL of sysexits.h."""
RESTART = 76
"""Exit code of a worker that asks for a fresh process to go on with the same job: what failed is
on record, but has spoilt this process."""


@dataclass(frozen=True)
class JobEvent:
    """Something that happened to a job.

    Attributes:
        job: The job file.
        kind: `started`; `finished` (its runs say themselves how they went); `stopped` (the
            worker was asked to stop, and the job can be submitted again); `died` (the worker
            went away in the middle, and not even that could be put on record); or `lost`
            (whoever was to run it has forgotten it, for which its runs are not to blame).
        detail: How the worker died (first line), its last words, and what else went wrong.
    """

    job: Path
    kind: str
    detail: str = ""


class Worker(Protocol):
    """What does jobs: a program of its own, and what its supervisor calls.

    The program is `python -m MODULE JOBFILE`; or `python -m MODULE -`, which reads job files from
    standard input, one a line, and answers each with the same line on standard output once it is
    done. Exit codes: 0 when every run has an outcome, `STOPPED`, `RESTART` (only where jobs are
    read from standard input), and 2 when nothing could be done. Some executors pickle the worker.
    """

    @property
    def module(self) -> str:
        """Module of the program."""

    def main(self, arguments: list[str]) -> int:
        """The program within this process; returns its exit code."""

    def after_death(self, job: Path, detail: str) -> bool:
        """Puts on record that a process of the program died.

        Args:
            job: Its job file.
            detail: How it died (first line), and its last words.

        Returns:
            Whether runs of the job remain, for which another process is started.

        Raises:
            Exception: The death could not be put on record.
        """


@dataclass(frozen=True)
class Preview:
    """What an executor would hand to a scheduler.

    Attributes:
        tasks: Number of tasks.
        arrays: Number of job arrays; `None` where only the scheduler could tell.
        command: Command of the scheduler.
        request: What each task asks for, as options of that command.
    """

    tasks: int
    arrays: int | None
    command: str
    request: Mapping[str, object]

    def as_document(self) -> dict[str, object]:
        """What `--json` prints."""
        return {"tasks": self.tasks, "arrays": self.arrays, self.command: dict(self.request)}


class Executor(ABC):
    """Does jobs somewhere, by a worker.

    An executor of your own is a subclass in an installed package, named by an entry point of the
    group `imitbench.executors`; `--executor NAME` finds it there. `from_options`, `submit`,
    `poll`, `kill` and `close` are what it needs. One whose jobs go on without this process keeps
    what it must know of them in the folder `.NAME` of the results folder: `status`, `cancel` and
    `logs` are asked where that folder exists.

    Args:
        worker: What does the jobs.

    Attributes:
        option_help: Options (by keyword, see `RunOptions`) that mean something to this executor
            alone, and a line of help for each.
        limits_memory: Whether its workers end when they use more than they may.
        prompt: Whether `poll` returns within its time, as where jobs run in other processes.
        distributed: Whether jobs run on other machines, which share file systems with this one.
        outlives: Whether submitted jobs go on when this process ends.
        detached: Whether nobody is going to wait for them here.
        packs: Whether it wants to know how long jobs take, to put short ones together.
        at_once: How many jobs to hand over at a time where the next ones depend on results.
    """

    option_help: ClassVar[Mapping[str, str]] = MappingProxyType({})
    limits_memory = False
    prompt = True
    distributed = False
    outlives = False
    detached = False
    packs = False
    at_once = 1

    def __init__(self, worker: Worker) -> None:
        self.worker = worker

    @classmethod
    def resolve(cls, options: RunOptions) -> RunOptions:
        """Fills in what options leave open: device, GPUs, and how many runs are done at a time.

        Raises:
            InputError: Two options do not go together.
        """
        if options.max_memory is not None and not cls.limits_memory:
            raise InputError(
                "--max-mem: only worker processes on Linux can be limited; leave it out"
            )
        chosen = choose_device(options.device, options.gpus)
        jobs = count_workers(options.jobs, chosen.gpus, options.per_gpu)
        return options.model_copy(
            update={"device": chosen.device, "gpus": chosen.gpus, "jobs": jobs}
        )

    @classmethod
    @abstractmethod
    def from_options(cls, options: RunOptions, worker: Worker, out: Path) -> Executor:
        """Makes an executor.

        Args:
            options: As `resolve` gives them.
            worker: What does the jobs.
            out: Folder that all job files lie below.

        Raises:
            InputError: It cannot be had here.
        """

    @classmethod
    def preview(cls, options: RunOptions, expected_s: Sequence[float]) -> Preview | None:
        """What would be handed to a scheduler; `None` for an executor that has none.

        Args:
            options: As `resolve` gives them.
            expected_s: About how many seconds each run takes.
        """
        del options, expected_s
        return None

    @classmethod
    def status(cls, out: Path) -> str | None:
        """What of a results folder is in a scheduler's queue, in one line; `None` for nothing."""
        del out
        return None

    @classmethod
    def cancel(cls, out: Path) -> int:
        """Takes what of a results folder is in a scheduler's queue out of it.

        Returns:
            Number of tasks that were waiting or running.

        Raises:
            InputError: The scheduler cannot be reached.
        """
        del out
        return 0

    @classmethod
    def logs(cls, out: Path, run_id: str) -> list[tuple[str, Path]]:
        """What a scheduler wrote of a run's tasks: titles and files, oldest first."""
        del out, run_id
        return []

    @abstractmethod
    def submit(self, jobs: Sequence[Path], expected_s: Sequence[float] = ()) -> None:
        """Accepts job files; they start in this order as room allows.

        Args:
            jobs: The job files.
            expected_s: About how many seconds each takes, for an executor that packs.
        """

    def adopt(self) -> list[Path]:
        """Job files that an earlier process submitted, and that are still being looked after.

        They are polled for like those that were submitted here.
        """
        return []

    @abstractmethod
    def poll(self, timeout: float) -> list[JobEvent]:
        """Events since the last call, waiting at most `timeout` seconds for the first."""

    def stop(self) -> None:
        """Asks running jobs to save checkpoints and end, waits, and forgets waiting jobs.

        Polling then gives the events until the end. By default, jobs are killed.
        """
        self.kill()

    @abstractmethod
    def kill(self) -> None:
        """Ends running jobs at once, and forgets waiting ones."""

    @abstractmethod
    def close(self) -> None:
        """Lets go of all resources; nothing may be running."""
