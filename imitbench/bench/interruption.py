"""Ctrl-C and other requests to stop a sweep, answered where it is safe, and never lost."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from imitbench.bench import stopping


class Interruption:
    """Remembers whether Ctrl-C was pressed, or a signal asked to stop."""

    def __init__(self) -> None:
        self._seen = False

    @property
    def seen(self) -> bool:
        """Whether it was."""
        return self._seen

    def _note(self, number: int, _frame: FrameType | None) -> None:
        # Schedulers repeat themselves; only people are in a hurry.
        if self._seen and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._seen = True


@contextmanager
def noted_interruption(*, wanted: bool = True) -> Iterator[Interruption]:
    """Within it, the first Ctrl-C is only noted; the second one interrupts as usual.

    SIGTERM, SIGUSR1 and SIGUSR2, which schedulers send, are noted always.

    An exception at a random place may be swallowed: by a callback from C, or by a finalizer.

    Args:
        wanted: Whether to do so at all.

    Yields:
        What was noted; to be checked often.
    """
    interruption = Interruption()
    if not wanted or threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    numbers = [signal.SIGINT, *stopping.SIGNALS]
    # A shell starts background jobs with Ctrl-C ignored, and so it stays.
    heard = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    with stopping.handled(heard, interruption._note):
        yield interruption
