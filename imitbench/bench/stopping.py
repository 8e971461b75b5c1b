"""Handles requests to stop (SIGTERM, SIGUSR1, SIGUSR2) and time limits.

A request is recorded immediately; the process stops where no work is lost. Schedulers send such
signals before they take a machine away or when time is running out, and the harness sends SIGTERM
when its user presses Ctrl-C. Some schedulers send SIGUSR2 to all processes of a task.
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
"""Seconds that an evaluation may take to complete after a stop; schedulers kill after 30."""


class RunStoppedError(BaseException):
    """Ends a run because a stop was requested; the run is incomplete, but did not fail."""


class StopRequest:
    """Records whether, and when, the process received a request to stop."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._idle = False

    def check(self, grace_s: float = 0.0) -> None:
        """Raises if a stop was requested; called where stopping loses no work.

        Args:
            grace_s: Seconds that must have passed since the request.

        Raises:
            RunStoppedError: A stop was requested at least `grace_s` seconds ago.
        """
        if self._since is not None and time.monotonic() - self._since >= grace_s:
            raise RunStoppedError

    @contextmanager
    def idle(self) -> Iterator[None]:
        """Context in which the process only waits, so that a request stops it immediately."""
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
    """Context in which requests to stop are recorded, and must be checked often.

    Yields:
        The request, which is not set yet; outside the main thread, it is never set.
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
    """Context in which a handler receives these signals; restores earlier handlers afterwards.

    Works only in the main thread.
    """
    previous = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in previous.items():
            signal.signal(number, earlier)


class InterruptFlag:
    """Records whether Ctrl-C was pressed, or a signal requested a stop.

    Attributes:
        seen: Whether an interrupt was received.
    """

    def __init__(self) -> None:
        self.seen = False

    def _note(self, number: int, _frame: FrameType | None) -> None:
        # Schedulers may repeat a signal; only a second Ctrl-C means that the user is in a hurry.
        if self.seen and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.seen = True


@contextmanager
def catch_interrupts(*, wanted: bool = True) -> Iterator[InterruptFlag]:
    """Context in which the first Ctrl-C is only recorded; the second one interrupts as usual.

    SIGTERM, SIGUSR1 and SIGUSR2, which schedulers send, are only recorded.

    Recording is safer: an exception raised at a random point may be swallowed, by a callback from
    C or by a finalizer.

    Args:
        wanted: Whether to record interrupts; if not, the context does nothing.

    Yields:
        The record, which must be checked often.
    """
    interruption = InterruptFlag()
    if not wanted or threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    numbers = [signal.SIGINT, *SIGNALS]
    # A shell starts background jobs with Ctrl-C ignored; it stays ignored.
    heard = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    with signal_handlers(heard, interruption._note):
        yield interruption


HANG_S = 60.0
"""A process that exceeds its time limit by this plus a tenth of the limit is killed (seconds)."""


class TimedOut(Exception):  # noqa: N818 (its name is what users read in the table of failures)
    """An attempt took longer than its time limit."""


class TimeLimit:
    """The time limit of an attempt, which starts now.

    Args:
        seconds: The limit; `None` for no limit.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._end = math.inf if seconds is None else time.monotonic() + seconds

    def check(self, phase: str, grace_s: float = 0.0) -> None:
        """Raises if the time is up; called where ending loses no work.

        Args:
            phase: Phase of the run, for the message.
            grace_s: Additional seconds that it may take.

        Raises:
            TimedOut: The attempt exceeds the limit and the additional seconds.
        """
        if self._seconds is not None and time.monotonic() >= self._end + grace_s:
            raise TimedOut(
                f"took longer than --timeout {show_duration(self._seconds)}, in phase {phase}; "
                "raise --timeout: the same command resumes from the last checkpoint"
            )

    @contextmanager
    def enforced(self) -> Iterator[None]:
        """Context in which SIGALRM kills the process if it exceeds the limit by far.

        Use it only in the main thread of a process whose exit a supervisor handles.
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
    """Returns the message for a worker that was killed by the alarm.

    Args:
        seconds: Time limit of its attempt.
    """
    return (
        f"took longer than --timeout {show_duration(seconds)}, did not answer for "
        f"{_patience_s(seconds):.0f} s, and was killed; raise --timeout, or see where it hung"
    )


def _patience_s(seconds: float) -> float:
    return HANG_S + seconds / 10
