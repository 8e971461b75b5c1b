"""What every executor offers: submit job files, poll, cancel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

STOPPED = 75
"""Exit code of a worker that was asked to stop (SIGTERM, SIGUSR1) and can be resumed by giving
its job to another one: EX_TEMPFAIL of sysexits.h."""
RESTART = 76
"""Exit code of a worker that asks for a fresh process to go on with the same job: what failed is
on record, but has spoilt this process."""


@dataclass(frozen=True)
class JobEvent:
    """Something that happened to a job.

    Attributes:
        job: The job file.
        kind: `started`; `finished` (its runs say themselves how they went); `stopped` (the
            worker was asked to stop, and the job can be submitted again); or `died` (the worker
            went away in the middle, and not even that could be put on record).
        detail: How the worker died (first line), its last words, and what else went wrong.
    """

    job: Path
    kind: str
    detail: str = ""


class Executor(ABC):
    """Runs job files by the worker entry point, somewhere.

    Args:
        entry: Module of the worker, run as `python -m <entry>`.

    Attributes:
        prompt: Whether `poll` returns within its time, as where jobs run in other processes.
    """

    prompt = True

    def __init__(self, entry: str) -> None:
        self.entry = entry

    @abstractmethod
    def submit(self, jobs: Sequence[Path]) -> None:
        """Accepts job files; they start in this order as room allows."""

    @abstractmethod
    def poll(self, timeout: float) -> list[JobEvent]:
        """Events since the last call, waiting at most `timeout` seconds for the first."""

    def stop(self) -> None:
        """Asks running jobs to save checkpoints and end, waits, and forgets waiting jobs.

        Polling then gives the events until the end. By default, jobs are cancelled.
        """
        self.cancel()

    @abstractmethod
    def cancel(self) -> None:
        """Stops running jobs and forgets waiting ones."""

    @abstractmethod
    def close(self) -> None:
        """Lets go of all resources; nothing may be running."""
