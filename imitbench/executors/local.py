"""An executor with a pool of worker processes on this machine."""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Sequence
from pathlib import Path

from imitbench.executors.base import Executor, JobEvent, Worker
from imitbench.executors.devices import usable_gpus
from imitbench.executors.options import RunOptions
from imitbench.executors.worker_process import WorkerProcess, can_measure


class LocalExecutor(Executor):
    """Keeps `jobs` worker processes busy; each runs jobs sequentially.

    A worker that crashes affects only its current run, and is replaced.

    Args:
        worker: Worker that runs the jobs.
        jobs: Number of worker processes.
        gpus: GPUs that the workers use in turn, as CUDA_VISIBLE_DEVICES names them; if empty, the
            workers see none.
        max_memory: Bytes of memory above which a worker, with its children, is killed.
    """

    limits_memory = can_measure()

    def __init__(
        self,
        worker: Worker,
        jobs: int,
        *,
        gpus: Sequence[str] = (),
        max_memory: int | None = None,
    ) -> None:
        super().__init__(worker)
        self.at_once = jobs
        self._waiting: queue.SimpleQueue[Path | None] = queue.SimpleQueue()
        self._events: queue.SimpleQueue[JobEvent] = queue.SimpleQueue()
        self._cancelled = threading.Event()
        self._workers = [
            WorkerProcess(
                worker,
                environment={"CUDA_VISIBLE_DEVICES": gpus[lane % len(gpus)] if gpus else ""},
                max_memory=max_memory,
                fresh=bool(gpus),
            )
            for lane in range(jobs)
        ]
        self._lanes = [
            threading.Thread(target=self._serve, args=(process,), daemon=True)
            for process in self._workers
        ]

    @classmethod
    def check(cls, options: RunOptions) -> None:
        """Checks that the requested GPUs exist.

        Raises:
            InputError: A requested GPU does not exist.
        """
        if options.on_gpu:
            usable_gpus(options.gpus)

    @classmethod
    def from_options(cls, options: RunOptions, worker: Worker, out: Path) -> LocalExecutor:
        """Creates the executor.

        Raises:
            InputError: A requested GPU does not exist.
        """
        del out
        gpus = usable_gpus(options.gpus) if options.on_gpu else ()
        return cls(worker, options.jobs or 1, gpus=gpus, max_memory=options.max_memory)

    def submit(self, jobs: Sequence[Path], expected_s: Sequence[float] = ()) -> None:
        """Queues job files; idle workers take them immediately."""
        for job in jobs:
            self._waiting.put(job)
        for lane in self._lanes:
            if not lane.is_alive():
                lane.start()

    def poll(self, timeout: float) -> list[JobEvent]:
        """Returns events since the last call; waits at most `timeout` seconds for the first."""
        events = []
        try:
            events.append(self._events.get(timeout=timeout))
            while True:
                events.append(self._events.get_nowait())
        except queue.Empty:
            return events

    def stop(self) -> None:
        """Requests the workers to save checkpoints and end, and waits until they have."""
        self._end_by(signal.SIGTERM)

    def kill(self) -> None:
        """Kills the workers; their unfinished runs resume from older checkpoints next time."""
        self._end_by(signal.SIGKILL)

    def _end_by(self, number: signal.Signals) -> None:
        self._cancelled.set()
        for worker in self._workers:
            worker.send(number)
        self.close()

    def close(self) -> None:
        """Ends the workers once they are idle."""
        for _ in self._lanes:
            self._waiting.put(None)
        for lane in self._lanes:
            if lane.ident is not None:
                lane.join()

    def _serve(self, worker: WorkerProcess) -> None:
        """Passes jobs to a worker until there are no more, or the pool is stopped."""
        while (job := self._waiting.get()) is not None and not self._cancelled.is_set():
            self._events.put(JobEvent(job, "started"))
            self._events.put(worker.serve(job))
        worker.close()
