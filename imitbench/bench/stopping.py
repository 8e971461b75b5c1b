"""Being asked to stop (SIGTERM, SIGUSR1, SIGUSR2): noted at once, answered where nothing is lost.

Schedulers send such signals before they take a machine away or when time is running out, and the
harness sends SIGTERM when its user presses Ctrl-C. Some schedulers send SIGUSR2 to all processes
of a task.
"""

from __future__ import annotations

import faulthandler
import math
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

from imitbench.util.quantities import show_duration

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
GRACE_S = 20.0
"""What is not trained any more may take so long to complete; schedulers kill after 30 seconds."""


class RunStoppedError(BaseException):
    """Ends a run that was asked to stop; it is not complete, and nothing went wrong."""


class StopRequest:
    """Remembers whether, and when, the process was asked to stop."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._idle = False

    @property
    def made(self) -> bool:
        """Whether it was asked."""
        return self._since is not None

    def check(self, grace_s: float = 0.0) -> None:
        """To be called where stopping loses nothing that can be kept.

        Args:
            grace_s: How long ago it must have been asked.

        Raises:
            RunStoppedError: It was.
        """
        if self._since is not None and time.monotonic() - self._since >= grace_s:
            raise RunStoppedError

    @contextmanager
    def idle(self) -> Iterator[None]:
        """Within it, the process only waits, and stops wherever it is."""
        self._idle = True
        try:
            self.check()
            yield
        finally:
            self._idle = False

    def _note(self, _signal: int, _frame: FrameType | None) -> None:
        if self._since is None:
            self._since = time.monotonic()
        if self._idle:
            raise RunStoppedError


@contextmanager
def catch_stop_signals() -> Iterator[StopRequest]:
    """Within it, requests to stop are noted, and must be looked at often.

    Yields:
        The request, which has not been made yet; outside the main thread, it never is.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    with signal_handlers(SIGNALS, request._note):
        yield request


@contextmanager
def signal_handlers(
    numbers: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], None]
) -> Iterator[None]:
    """Within it, a handler hears these signals; whoever heard them before does so afterwards.

    Only in the main thread.
    """
    previous = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in previous.items():
            signal.signal(number, earlier)


class InterruptFlag:
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
def catch_interrupts(*, wanted: bool = True) -> Iterator[InterruptFlag]:
    """Within it, the first Ctrl-C is only noted; the second one interrupts as usual.

    SIGTERM, SIGUSR1 and SIGUSR2, which schedulers send, are noted always.

    An exception at a random place may be swallowed: by a callback from C, or by a finalizer.

    Args:
        wanted: Whether to do so at all.

    Yields:
        What was noted; to be checked often.
    """
    interruption = InterruptFlag()
    if not wanted or threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    numbers = [signal.SIGINT, *SIGNALS]
    # A shell starts background jobs with Ctrl-C ignored, and so it stays.
    heard = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    with signal_handlers(heard, interruption._note):
        yield interruption


HANG_S = 60.0
"""After the time is up, what has not answered for so long, and a tenth of the time, is ended."""


class TimedOut(Exception):  # noqa: N818 (its name is what users read in the table of failures)
    """An attempt took longer than it may."""


class TimeLimit:
    """The time that an attempt may take, from now on.

    Args:
        seconds: How long; `None` for as long as it likes.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._end = math.inf if seconds is None else time.monotonic() + seconds

    def check(self, phase: str, grace_s: float = 0.0) -> None:
        """To be called where ending loses nothing that can be kept.

        Args:
            phase: What the run is doing, for the message.
            grace_s: How much longer it may take.

        Raises:
            TimedOut: It takes longer.
        """
        if self._seconds is not None and time.monotonic() >= self._end + grace_s:
            raise TimedOut(
                f"took longer than --timeout {show_duration(self._seconds)}, in phase {phase}; "
                "raise --timeout: the same command resumes from the last checkpoint"
            )

    @contextmanager
    def enforced(self) -> Iterator[None]:
        """Within it, the process is killed by SIGALRM when that takes much longer.

        For a process of its own, whose death is looked after, and in its main thread.
        """
        if self._seconds is None:
            yield
            return
        faulthandler.register(signal.SIGALRM, file=2, all_threads=True, chain=True)
        late = self._end + _patience_s(self._seconds)
        signal.setitimer(signal.ITIMER_REAL, max(late - time.monotonic(), 1.0))
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            faulthandler.unregister(signal.SIGALRM)


def explain_alarm(seconds: float) -> str:
    """What to say of a worker that died by the alarm.

    Args:
        seconds: How long its attempt might have taken.
    """
    return (
        f"took longer than --timeout {show_duration(seconds)}, did not answer for "
        f"{_patience_s(seconds):.0f} s, and was killed; raise --timeout, or see where it hung"
    )


def _patience_s(seconds: float) -> float:
    return HANG_S + seconds / 10
