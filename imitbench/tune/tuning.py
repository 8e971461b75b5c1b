"""Runs a tuning: keeps as many jobs in flight as may be, whichever study they are for."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from imitbench.bench.stopping import Interruption, noted_interruption
from imitbench.errors import InputError
from imitbench.executors.base import Executor, JobEvent
from imitbench.store import lease
from imitbench.tune.cell import Cell, Observer, check_cell
from imitbench.tune.held_out import Contest
from imitbench.tune.request import TuneRequest
from imitbench.tune.storage import StudyAddress, opened
from imitbench.tune.trial_job import TrialJob

_POLL_S = 0.2


@dataclass
class Outcome:
    """How a tuning ended.

    Attributes:
        contests: By the name of the study's scope, those that were decided.
        stopped: Whether it was stopped before all were.
        queued: Jobs that go on without this process, in a scheduler's queue.
    """

    contests: dict[str, Contest] = field(default_factory=dict)
    stopped: bool = False
    queued: int = 0


def tune(
    request: TuneRequest, executor: Executor, root: Path, observer: Observer, *, at_once: int
) -> Outcome:
    """Searches, and lets the best compete with the defaults; goes on with what is on disk.

    Args:
        request: What is asked for.
        executor: Where runs are done, by `TRIAL_WORKER`; closed at the end.
        root: Folder of the tuning, made when missing.
        observer: Told about progress.
        at_once: Most jobs in flight. With one, the result depends on seeds alone.

    Raises:
        InputError: It cannot be done as asked, or the folder cannot be written.
    """
    cells = [Cell(request, scope, root, observer) for scope in request.scopes]
    with ExitStack() as stack:
        stack.enter_context(_alone(root))
        for cell in cells:
            cell.begin()
        crew = _Crew(executor, cells, observer, at_once)
        try:
            adopted = crew.adopt()
            for cell in cells:
                storage = stack.enter_context(
                    opened(StudyAddress.within(cell.folder, request.storage))
                )
                cell.forget_jobs({path.resolve() for path in adopted})
                cell.open(storage, [job for job in adopted.values() if cell.has(job)])
            with noted_interruption(wanted=executor.prompt) as interruption:
                crew.work(interruption)
        except KeyboardInterrupt:
            crew.outcome.stopped = True
            crew.leave()
        except OSError as error:
            crew.leave()
            raise InputError(
                f"{root}: {error.strerror}; mend that, then run the same command again: "
                "finished trials are kept"
            ) from error
        except BaseException:
            crew.leave()  # no worker goes on behind the back of an error
            raise
        else:
            if not crew.outcome.stopped:
                executor.close()
        crew.outcome.contests = {
            cell.scope.name: cell.contest for cell in cells if cell.contest is not None
        }
        return crew.outcome


def check(request: TuneRequest, root: Path) -> None:
    """Looks for what can be refused before anything is begun.

    Raises:
        InputError: Nothing fits, an objective cannot be had, or a study was begun otherwise.
    """
    for scope in request.scopes:
        check_cell(request, scope, root)


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    """Within it, no other process tunes in a folder.

    Raises:
        InputError: One does already, or the folder cannot be written.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{root}: cannot be made ({error.strerror})") from error
    held = lease.acquire(root, wait=False)
    if held is None:
        raise InputError(f"{root}: another process is tuning there; wait for it, or give --name")
    try:
        yield
    finally:
        held.release()


class _Crew:
    """The jobs in flight."""

    def __init__(
        self, executor: Executor, cells: Sequence[Cell], observer: Observer, at_once: int
    ) -> None:
        self.outcome = Outcome()
        self._executor = executor
        self._cells = cells
        self._observer = observer
        self._at_once = at_once
        self._jobs: dict[Path, TrialJob] = {}

    def adopt(self) -> dict[Path, TrialJob]:
        """Takes on the jobs that an earlier process submitted."""
        for path in self._executor.adopt():
            with suppress(InputError):  # it was completed just now
                job = TrialJob.read(path)
                if any(cell.has(job) for cell in self._cells):
                    self._jobs[path] = job
        return dict(self._jobs)

    def work(self, interruption: Interruption) -> None:
        """Goes on until nothing is left, or somebody interrupts."""
        self._fill()
        while self._jobs and not interruption.seen:
            for event in self._executor.poll(_POLL_S):
                self._handle(event)
            if not interruption.seen:
                self._fill()
        if interruption.seen:
            self._wind_down()

    def leave(self) -> None:
        """Stops workers, unless they outlive this process."""
        if self._executor.outlives:
            self.outcome.queued = sum(path.exists() for path in self._jobs)
            return
        self._executor.kill()
        for path in self._jobs:
            with suppress(OSError):  # it may be why everything stops
                path.unlink(missing_ok=True)
        self._jobs.clear()

    def _fill(self) -> None:
        for cell in self._cells:
            while len(self._jobs) < self._at_once and (job := cell.take()) is not None:
                path = job.write()
                self._jobs[path] = job
                self._executor.submit([path])

    def _wind_down(self) -> None:
        self.outcome.stopped = True
        if not self._executor.outlives:
            self._observer.stopping()
            self._executor.stop()
            for event in self._executor.poll(0.0):
                if event.kind == "finished":
                    self._handle(event)
        self.leave()

    def _handle(self, event: JobEvent) -> None:
        job = self._jobs[event.job]
        if event.kind == "started":
            return
        if event.kind == "stopped":  # by somebody else: it goes on
            self._executor.submit([event.job])
            return
        if event.kind == "lost":
            raise InputError(
                "a job has left the queue before being done (cancelled, or with a lost node); the "
                "same command goes on"
            )
        if event.kind == "died":
            how, *further = event.detail.splitlines()
            raise OSError(errno.EIO, f"{how}: {further[-1]}" if further else how)
        del self._jobs[event.job]
        event.job.unlink(missing_ok=True)
        [cell] = [cell for cell in self._cells if cell.has(job)]
        cell.finished(job)
