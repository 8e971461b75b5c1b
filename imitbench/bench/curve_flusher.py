"""Writes learning curves to their files while training continues, for others to follow."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from imitbench.store.lease import LeaseLostError

_SHORTEST_S, _LONGEST_S = 0.5, 5.0
_SHARE = 0.1  # of the time so far; short runs are flushed more often


class CurveFlusher:
    """Calls a function soon after the curve has grown, from a thread of its own.

    The thread does not depend on how often a method reports: a point is written at most
    `_LONGEST_S` seconds later, even if the next one takes an hour. Entering and leaving the context
    call the function, too.

    Args:
        write: Writes the curves. The file system may fail meanwhile: the curves are also in
            memory and in the checkpoints, and the end of the run reports what cannot be written.
    """

    def __init__(self, write: Callable[[], None]) -> None:
        self._write = write
        self._grown = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._flush_often, name="curve", daemon=True)

    def grown(self) -> None:
        """Notes that there is another point."""
        self._grown.set()

    def __enter__(self) -> CurveFlusher:
        self._flush()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        if self._grown.is_set():
            self._flush()

    def _flush_often(self) -> None:
        started = time.monotonic()
        while not self._ended.wait(self._pause_s(time.monotonic() - started)):
            if self._grown.is_set():
                self._flush()

    def _flush(self) -> None:
        self._grown.clear()
        # The main thread notices by itself that the lease was lost, and ends the run.
        with suppress(OSError, LeaseLostError):
            self._write()

    @staticmethod
    def _pause_s(elapsed_s: float) -> float:
        return min(_LONGEST_S, max(_SHORTEST_S, _SHARE * elapsed_s))
