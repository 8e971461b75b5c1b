"""Runs jobs in the current process, sequentially, for debugging."""

from __future__ import annotations

import io
import os
from collections import deque
from collections.abc import Sequence
from contextlib import redirect_stderr
from pathlib import Path

from imitbench.executors.base import STOPPED, Executor, JobEvent, Worker
from imitbench.executors.devices import check_cuda, find_cuda, usable_gpus, visible_gpus
from imitbench.executors.options import RunOptions


class InlineExecutor(Executor):
    """Each poll starts or runs one job, so that a debugger can follow everything."""

    prompt = False

    def __init__(self, worker: Worker) -> None:
        super().__init__(worker)
        self._waiting: deque[Path] = deque()
        self._announced = False

    @classmethod
    def check(cls, options: RunOptions) -> None:
        """Checks that the requested GPU exists.

        Raises:
            InputError: It does not exist.
        """
        if options.on_gpu:
            usable_gpus(options.gpus)

    @classmethod
    def from_options(cls, options: RunOptions, worker: Worker, out: Path) -> InlineExecutor:
        """Creates the executor.

        Raises:
            InputError: A requested GPU does not exist.
        """
        del out
        if options.on_gpu:
            gpus = visible_gpus(options.gpus or ("0",), os.environ.get("CUDA_VISIBLE_DEVICES"))
            # This process is the worker, and has not queried GPUs yet.
            os.environ["CUDA_VISIBLE_DEVICES"] = gpus[0]
            check_cuda(("0",), find_cuda())
        return cls(worker)

    def submit(self, jobs: Sequence[Path], expected_s: Sequence[float] = ()) -> None:
        """Queues job files."""
        self._waiting.extend(jobs)

    def poll(self, timeout: float) -> list[JobEvent]:
        """Announces the next job, and runs it at the following call.

        Raises:
            KeyboardInterrupt: A signal requested a stop of this process.
        """
        del timeout
        if not self._waiting:
            return []
        if not self._announced:
            self._announced = True
            return [JobEvent(self._waiting[0], "started")]
        job = self._waiting.popleft()
        self._announced = False
        with redirect_stderr(io.StringIO()) as errors:  # separate, as for a worker process
            code = self.worker.main([str(job)])
        if code == STOPPED:
            raise KeyboardInterrupt
        if code != 0:
            detail = f"worker exited with code {code}\n{errors.getvalue()}".rstrip()
            return [JobEvent(job, "died", detail)]
        return [JobEvent(job, "finished")]

    def kill(self) -> None:
        """Drops waiting jobs."""
        self._waiting.clear()

    def close(self) -> None:
        """Does nothing; there are no resources."""
