"""Runs the real command in a separate process."""

import atexit
import contextlib
import fcntl
import functools
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from dataclasses import dataclass

from support.warm_start import WarmServer, WarmStart

_OF_TERMINALS = ("COLUMNS", "FORCE_COLOR", "NO_COLOR")
_SHARED = "WARM_START_OF_TESTS"
_LIBRARIES = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}


@dataclass
class Answer:
    code: int
    out: str
    err: str


def share_warm_start():
    """Starts the server of commands for all processes that inherit this one's environment."""
    os.environ[_SHARED] = _start_server().address


def _start_server():
    server = WarmServer(_environment(None))
    atexit.register(server.close)
    return server


@functools.cache
def _warm_start():
    environment = _environment(None)
    if _SHARED in os.environ:
        shared = WarmStart(os.environ[_SHARED])
        if shared.can_run(environment):
            return shared
    return WarmStart(_start_server().address)


def _environment(env):
    inherited = {name: value for name, value in os.environ.items() if name not in _OF_TERMINALS}
    # OpenCV sets it when it is imported; a process with another one than this had at its start
    # could not be forked from the warm one.
    inherited.pop("LD_LIBRARY_PATH", None)
    inherited.pop(_SHARED, None)
    return {**inherited, **_LIBRARIES, **(env or {})}


def call_imitbench(*arguments, cwd, env=None, bounds=None):
    """Runs `imitbench ARGUMENTS…`, which must not print a traceback.

    Args:
        cwd: Working directory.
        env: Variables in addition to those of this process, without those that describe a terminal.
        bounds: Processor time in seconds and memory in bytes that the command may use.
    """
    words = [str(argument) for argument in arguments]
    environment = _environment(env)
    server = _warm_start()
    if server.can_run(environment):
        answer = Answer(*server.run("imitbench", words, cwd, environment, bounds))
    else:
        assert bounds is None, "only forked commands are bounded"
        done = subprocess.run(
            [sys.executable, "-m", "imitbench", *words],
            capture_output=True,
            text=True,
            cwd=cwd,
            env=environment,
        )
        answer = Answer(done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in answer.err, answer.err
    return answer


def run_script(path, *arguments, cwd):
    """Runs `python PATH ARGUMENTS…` in a process that has imported torch."""
    server, environment = _warm_start(), _environment(None)
    assert server.can_run(environment), "it needs an ordinary process"
    return Answer(*server.run(str(path), [*map(str, arguments)], cwd, environment))


class Started:
    """`imitbench ARGUMENTS…` while it runs, for tests that watch or interrupt it.

    Args:
        cwd: Working directory.
        env: As for `call_imitbench`.
        outputs: File descriptors that get stdout and stderr; by default, those of two pipes.

    Attributes:
        pid: Number of the process.
        stdout: What it prints, to read, if it has a pipe; and `stderr`.
    """

    def __init__(self, *arguments, cwd, env=None, outputs=None):
        words, environment = [str(argument) for argument in arguments], _environment(env)
        self._server, self._code = _warm_start(), None
        assert self._server.can_run(environment), "it needs an ordinary process"
        pipes = [] if outputs else [os.pipe(), os.pipe()]
        ends = outputs or [end for _, end in pipes]
        self.pid = self._server.start("imitbench", words, cwd, environment, *ends)
        if pipes:
            self.stdout, self.stderr = (os.fdopen(ours) for ours, _ in pipes)
            for end in ends:
                os.close(end)

    def running(self):
        """Whether it has not ended."""
        if self._code is None:
            self._code = self._server.ended(self.pid)
        return self._code is None

    def signal(self, number):
        """Sends a signal, unless it has ended."""
        if self.running():
            os.kill(self.pid, number)

    def end(self):
        """Waits for its end; returns its exit code and what it printed since last read."""
        with self.stdout, self.stderr:
            answer = Answer(0, self.stdout.read(), self.stderr.read())
        answer.code = self.wait()
        assert "Traceback" not in answer.err, answer.err
        return answer

    def wait(self):
        """Waits for its end; returns its exit code."""
        while self.running():
            time.sleep(0.02)
        return self._code


def on_terminal(*arguments, cwd, width=100, env=None, until=()):
    """Runs `imitbench ARGUMENTS…` on a terminal; returns what it shows, and its exit code.

    Args:
        cwd: Working directory.
        width: Columns of the terminal.
        env: As for `call_imitbench`.
        until: Words after all of which it is interrupted by Ctrl-C; it ends by itself without.
    """
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    process = Started(*arguments, cwd=cwd, env=env, outputs=[its, its])
    os.close(its)
    shown, waiting = b"", bool(until)
    with contextlib.suppress(OSError):  # the other end was closed
        while piece := os.read(ours, 65536):
            shown += piece
            if waiting and all(word.encode() in shown for word in until):
                process.signal(signal.SIGINT)
                waiting = False
    os.close(ours)
    return shown.decode(), process.wait()


def refusal(answer):
    """Returns the error line of a command with exit code 2 and without output on stdout."""
    assert (answer.code, answer.out) == (2, ""), answer
    [line] = answer.err.strip().splitlines()
    assert line.startswith("error: ")
    return line
