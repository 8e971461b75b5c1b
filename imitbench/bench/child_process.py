"""A program that works for a run, and does not outlive it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

from imitbench.errors import InputError

GRACE_S = 5.0
"""Seconds between being asked to end and being killed."""

_LAST_LINES = 8
_PR_SET_PDEATHSIG = 1  # <sys/prctl.h>
_SINGLE = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class ChildFailedError(RuntimeError):
    """A program ended otherwise than with code 0."""


class ChildProcess:
    """Runs a program, whose standard error goes to this process's.

    It has a process group of its own, which is ended on leaving the context. On Linux the kernel
    kills it when this process dies, however that happens.

    Args:
        words: The program and its arguments.
        folder: Where to run it.
        timeout_s: Longest that it may take; `None` for as long as it likes.

    Raises:
        InputError: There is no such program.
    """

    def __init__(self, words: Sequence[str], *, folder: Path, timeout_s: float | None) -> None:
        self._words = list(words)
        self._timeout_s = timeout_s
        self._timed_out = False
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        single = {name: os.environ.get(name, "1") for name in _SINGLE}
        try:
            self._process = subprocess.Popen(
                self._words,
                cwd=folder,
                env={**os.environ, **single, "PYTHONDONTWRITEBYTECODE": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,
            )
        except OSError as error:
            raise InputError(
                f"command: {self._words[0]}: cannot be started ({error.strerror}); is it installed?"
            ) from error
        self._pump = threading.Thread(target=self._pass_on, daemon=True)
        self._pump.start()
        self._timer: threading.Timer | None = None
        if timeout_s is not None:
            self._timer = threading.Timer(timeout_s, self._time_out)
            self._timer.daemon = True
            self._timer.start()

    def __enter__(self) -> ChildProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._end()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def lines(self) -> Iterator[str]:
        """Lines of its standard output as they come, until it ends."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            yield line.rstrip("\n")

    def answer(self) -> None:
        """Writes an empty line to its standard input, for which it waits."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it did not wait
            self._process.stdin.write("\n")
            self._process.stdin.flush()

    def check(self) -> None:
        """Waits for its end.

        Raises:
            ChildFailedError: It did not end with code 0.
        """
        code = self._process.wait()
        self._pump.join(GRACE_S)
        if self._timed_out:
            raise ChildFailedError(
                f"{self._name} took longer than {self._timeout_s:g} s, and was ended{self._words_}"
            )
        if code:
            how = f"ended with code {code}" if code > 0 else f"was killed by signal {-code}"
            raise ChildFailedError(f"{self._name} {how}{self._words_}")

    def _end(self) -> None:
        """Ends it and what it started: asked to at first, killed a little later."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_S)

    @property
    def _name(self) -> str:
        return " ".join(Path(word).name for word in self._words[:2])

    @property
    def _words_(self) -> str:
        last = " | ".join(self._last)
        return f"; its last words: {last}" if last else ""

    def _pass_on(self) -> None:
        assert self._process.stderr is not None
        with contextlib.suppress(ValueError):  # closed meanwhile
            for line in self._process.stderr:
                self._last.append(line.rstrip())
                print(line, end="", file=sys.stderr)

    def _time_out(self) -> None:
        self._timed_out = True
        self._end()


def _die_with_parent() -> None:
    """Runs in the child, between fork and exec."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
