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
            worker was asked to stop, and the job can be submitted again); `died` (the worker
            went away in the middle, and not even that could be put on record); or `lost`
            (whoever was to run it has forgotten it, for which its runs are not to blame).
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
        outlives: Whether submitted jobs go on when this process ends.
        detached: Whether nobody is going to wait for them here.
        packs: Whether it wants to know how long jobs take, to put short ones together.
    """

    prompt = True
    outlives = False
    detached = False
    packs = False

    def __init__(self, entry: str) -> None:
        self.entry = entry

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

        Polling then gives the events until the end. By default, jobs are cancelled.
        """
        self.cancel()

    @abstractmethod
    def cancel(self) -> None:
        """Stops running jobs and forgets waiting ones."""

    @abstractmethod
    def close(self) -> None:
        """Lets go of all resources; nothing may be running."""
