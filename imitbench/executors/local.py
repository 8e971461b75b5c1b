"""A pool of worker processes on this machine."""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Sequence
from pathlib import Path

from imitbench.executors.base import Executor, JobEvent
from imitbench.executors.worker_process import WorkerProcess


class LocalExecutor(Executor):
    """Keeps `jobs` worker processes busy; each serves one job after the other.

    A worker that dies takes only the run along that it was at, and is replaced.

    Args:
        entry: Module of the worker.
        jobs: Number of worker processes.
    """

    def __init__(self, entry: str, jobs: int) -> None:
        super().__init__(entry)
        self._waiting: queue.SimpleQueue[Path | None] = queue.SimpleQueue()
        self._events: queue.SimpleQueue[JobEvent] = queue.SimpleQueue()
        self._cancelled = threading.Event()
        self._lanes = [
            _Lane(WorkerProcess(entry), self._waiting, self._events, self._cancelled)
            for _ in range(jobs)
        ]

    def submit(self, jobs: Sequence[Path], expected_s: Sequence[float] = ()) -> None:
        """Queues job files; idle workers take them at once."""
        for job in jobs:
            self._waiting.put(job)
        for lane in self._lanes:
            if not lane.is_alive():
                lane.start()

    def poll(self, timeout: float) -> list[JobEvent]:
        """Events since the last call, waiting at most `timeout` seconds for the first."""
        events = []
        try:
            events.append(self._events.get(timeout=timeout))
            while True:
                events.append(self._events.get_nowait())
        except queue.Empty:
            return events

    def stop(self) -> None:
        """Asks the workers to save checkpoints and end, and waits until they have."""
        self._end_by(signal.SIGTERM)

    def cancel(self) -> None:
        """Kills the workers; their unfinished runs resume from older checkpoints next time."""
        self._end_by(signal.SIGKILL)

    def _end_by(self, number: signal.Signals) -> None:
        self._cancelled.set()
        for lane in self._lanes:
            lane.worker.send(number)
        self.close()

    def close(self) -> None:
        """Ends the workers once they are idle."""
        for _ in self._lanes:
            self._waiting.put(None)
        for lane in self._lanes:
            if lane.ident is not None:
                lane.join()


class _Lane(threading.Thread):
    """Feeds one worker process."""

    def __init__(
        self,
        worker: WorkerProcess,
        waiting: queue.SimpleQueue[Path | None],
        events: queue.SimpleQueue[JobEvent],
        cancelled: threading.Event,
    ) -> None:
        super().__init__(daemon=True)
        self.worker = worker
        self._waiting = waiting
        self._events = events
        self._cancelled = cancelled

    def run(self) -> None:
        """Passes jobs on until told to stop."""
        while (job := self._waiting.get()) is not None and not self._cancelled.is_set():
            self._events.put(JobEvent(job, "started"))
            self._events.put(self.worker.serve(job))
        self.worker.close()
