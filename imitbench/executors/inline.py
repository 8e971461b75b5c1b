"""Runs jobs in this very process, one after the other: for debugging."""

from __future__ import annotations

import io
import os
from collections import deque
from collections.abc import Sequence
from contextlib import redirect_stderr
from pathlib import Path

from imitbench.executors.base import STOPPED, Executor, JobEvent, Worker
from imitbench.executors.devices import check_cuda, find_cuda, visible_gpus
from imitbench.executors.options import RunOptions


class InlineExecutor(Executor):
    """Each poll starts or runs one job, so that a debugger sees everything."""

    prompt = False

    def __init__(self, worker: Worker) -> None:
        super().__init__(worker)
        self._waiting: deque[Path] = deque()
        self._announced = False

    @classmethod
    def from_options(cls, options: RunOptions, worker: Worker, out: Path) -> InlineExecutor:
        """Makes the executor.

        Raises:
            InputError: There is no such GPU.
        """
        del out
        if options.device == "cuda":
            gpus = visible_gpus(options.gpus or ("0",), os.environ.get("CUDA_VISIBLE_DEVICES"))
            # This process is the worker, and has not looked for GPUs yet.
            os.environ["CUDA_VISIBLE_DEVICES"] = gpus[0]
            check_cuda(("0",), find_cuda())
        return cls(worker)

    def submit(self, jobs: Sequence[Path], expected_s: Sequence[float] = ()) -> None:
        """Queues job files."""
        self._waiting.extend(jobs)

    def poll(self, timeout: float) -> list[JobEvent]:
        """Announces the next job, and runs it at the following call.

        Raises:
            KeyboardInterrupt: This process was asked to stop.
        """
        del timeout
        if not self._waiting:
            return []
        if not self._announced:
            self._announced = True
            return [JobEvent(self._waiting[0], "started")]
        job = self._waiting.popleft()
        self._announced = False
        with redirect_stderr(io.StringIO()) as errors:  # as little as in a process of its own
            code = self.worker.main([str(job)])
        if code == STOPPED:
            raise KeyboardInterrupt
        if code != 0:
            detail = f"worker exited with code {code}\n{errors.getvalue()}".rstrip()
            return [JobEvent(job, "died", detail)]
        return [JobEvent(job, "finished")]

    def kill(self) -> None:
        """Forgets waiting jobs."""
        self._waiting.clear()

    def close(self) -> None:
        """Nothing to let go of."""
