"""Runs jobs in this very process, one after the other: for debugging."""

from __future__ import annotations

import importlib
import io
from collections import deque
from collections.abc import Sequence
from contextlib import redirect_stderr
from pathlib import Path

from imitbench.executors.base import STOPPED, Executor, JobEvent


class InlineExecutor(Executor):
    """Each poll starts or runs one job, so that a debugger sees everything."""

    prompt = False

    def __init__(self, entry: str) -> None:
        super().__init__(entry)
        self._waiting: deque[Path] = deque()
        self._announced = False

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
            code = importlib.import_module(self.entry).main([str(job)])
        if code == STOPPED:
            raise KeyboardInterrupt
        if code != 0:
            detail = f"worker exited with code {code}\n{errors.getvalue()}".rstrip()
            return [JobEvent(job, "died", detail)]
        return [JobEvent(job, "finished")]

    def cancel(self) -> None:
        """Forgets waiting jobs."""
        self._waiting.clear()

    def close(self) -> None:
        """Nothing to let go of."""
