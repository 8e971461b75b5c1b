"""Runs the real command in a separate process."""

import atexit
import functools
import os
import subprocess
import sys
from dataclasses import dataclass

from support.warm_start import WarmStart

_OF_TERMINALS = ("COLUMNS", "FORCE_COLOR", "NO_COLOR")


@dataclass
class Answer:
    code: int
    out: str
    err: str


@functools.cache
def _warm_start():
    server = WarmStart()
    atexit.register(server.close)
    return server


def call_imitbench(*arguments, cwd, env=None, bounds=None):
    """Runs `imitbench ARGUMENTS…`, which must not print a traceback.

    Args:
        cwd: Working directory.
        env: Variables in addition to those of this process, without those that describe a terminal.
        bounds: Processor time in seconds and memory in bytes that the command may use.
    """
    words = [str(argument) for argument in arguments]
    inherited = {name: value for name, value in os.environ.items() if name not in _OF_TERMINALS}
    environment = {**inherited, **(env or {})}
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


def refusal(answer):
    """Returns the error line of a command with exit code 2 and without output on stdout."""
    assert (answer.code, answer.out) == (2, ""), answer
    [line] = answer.err.strip().splitlines()
    assert line.startswith("error: ")
    return line
