"""A task of a job array, which runs on a node: serves jobs, and requeues itself if stopped."""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from imitbench.executors.base import STOPPED, Worker
from imitbench.executors.slurm.queue import SchedulerError, requeue
from imitbench.executors.worker_process import WorkerProcess

_SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
_POLL_S = 0.2


@dataclass(frozen=True)
class SlurmTask:
    """Serves job files; deletes each when it is done.

    When the scheduler is about to take the node away (time limit, preemption), workers save
    checkpoints and the task requeues itself; the restarted task resumes the remaining job files.

    Attributes:
        worker: Worker that runs the jobs.
        jobs: Paths of job files.
        workers: Number of jobs at a time.
        gpus: Whether the task has GPUs.
        max_requeues: Maximum number of requeues.
        max_memory: Bytes of memory that a worker may use; unlimited if `None`.
    """

    worker: Worker
    jobs: Sequence[str]
    workers: int = 1
    gpus: bool = False
    max_requeues: int = 20
    max_memory: int | None = None

    def __call__(self) -> int:
        """Serves the jobs.

        Returns:
            0, or 75 if jobs remain.
        """
        stop = threading.Event()

        def note(number: int, _frame: FrameType | None) -> None:
            del number
            stop.set()

        for number in _SIGNALS:
            signal.signal(number, note)
        self._serve_all(stop)
        left = [job for job in map(Path, self.jobs) if job.exists()]
        if not left:
            return 0
        if stop.is_set():
            self._requeue(len(left))
        return STOPPED

    def _serve_all(self, stop: threading.Event) -> None:
        waiting: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for job in map(Path, self.jobs):
            if job.exists():
                waiting.put(job)
        processes = [
            WorkerProcess(
                self.worker,
                environment=self._environment(number),
                max_memory=self.max_memory,
                fresh=self.gpus,
            )
            for number in range(min(self.workers, waiting.qsize()))
        ]
        lanes = [
            threading.Thread(target=_serve, args=(process, waiting, stop)) for process in processes
        ]
        for lane in lanes:
            lane.start()
        signalled = False
        while any(lane.is_alive() for lane in lanes):
            lanes[-1].join(_POLL_S) if lanes[-1].is_alive() else stop.wait(_POLL_S)
            if stop.is_set() and not signalled:
                signalled = True
                for process in processes:
                    process.send(signal.SIGTERM)

    def _environment(self, number: int) -> dict[str, str]:
        """Returns variables that show worker `number` one of the task's GPUs, or none."""
        if not self.gpus:
            return {"CUDA_VISIBLE_DEVICES": ""}
        visible = [gpu for gpu in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpu]
        return {"CUDA_VISIBLE_DEVICES": visible[number % len(visible)]} if visible else {}

    def _requeue(self, left: int) -> None:
        restarts = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
        if restarts >= self.max_requeues:
            print(
                f"stopped with {left} jobs left, after {restarts} requeues (max_requeues of the "
                "profile); `imitbench resume` continues",
                file=sys.stderr,
            )
            return
        print(f"stopped with {left} jobs left; requeueing the task", file=sys.stderr)
        try:
            requeue(os.environ["SLURM_JOB_ID"])
        except SchedulerError as error:
            print(f"not requeued by this task: {error}", file=sys.stderr)


def _serve(process: WorkerProcess, waiting: queue.SimpleQueue[Path], stop: threading.Event) -> None:
    with closing(process):
        while not stop.is_set():
            try:
                job = waiting.get_nowait()
            except queue.Empty:
                return
            event = process.serve(job)
            if event.kind == "finished":
                job.unlink(missing_ok=True)
            elif event.kind == "died":
                print(f"{job}: {event.detail}", file=sys.stderr)
