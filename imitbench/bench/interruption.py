"""Ctrl-C that is answered where it is safe, and never lost."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interruption:
    """Remembers whether Ctrl-C was pressed."""

    def __init__(self) -> None:
        self._seen = False

    def check(self) -> None:
        """Raises `KeyboardInterrupt` if Ctrl-C was pressed."""
        if self._seen:
            raise KeyboardInterrupt

    def _note(self, _signal: int, _frame: FrameType | None) -> None:
        if self._seen:
            raise KeyboardInterrupt  # pressed again: at once
        self._seen = True


@contextmanager
def noted_interruption(*, wanted: bool = True) -> Iterator[Interruption]:
    """Within it, the first Ctrl-C is only noted; the second one interrupts as usual.

    An exception at a random place may be swallowed: by a callback from C, or by a finalizer.

    Args:
        wanted: Whether to do so at all.

    Yields:
        What was noted; to be checked often.
    """
    interruption = Interruption()
    # A shell starts background jobs with Ctrl-C ignored, and so it stays.
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if not wanted or ignored or threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    previous = signal.signal(signal.SIGINT, interruption._note)
    try:
        yield interruption
    finally:
        signal.signal(signal.SIGINT, previous)
