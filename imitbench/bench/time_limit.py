"""How long an attempt at a run may take.

Three things end what takes longer. Where the worker looks whether it is asked to stop, it looks
at the clock as well, saves a checkpoint, and fails. A learner that gives it no occasion is ended
by the kernel's alarm clock, which needs nothing from Python, not even that the interpreter's
lock is free, and says where every thread was. What not even signals reach, such as a process
that waits for a dead file server, is left to the scheduler of the machine.
"""

from __future__ import annotations

import faulthandler
import math
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

from imitbench.util.quantities import show_duration

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
