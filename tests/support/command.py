"""The real command in a real process."""

import os
import subprocess
import sys
from dataclasses import dataclass


@dataclass
class Answer:
    code: int
    out: str
    err: str


def call_imitbench(*arguments, cwd, env=None):
    """Runs `imitbench ARGUMENTS…`, which must not show a traceback.

    Args:
        cwd: Folder to run it in.
        env: Variables in addition to those of this process.
    """
    done = subprocess.run(
        [sys.executable, "-m", "imitbench", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **(env or {})},
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Answer(done.returncode, done.stdout, done.stderr)


def refusal(answer):
    """The one line by which a command refused, with exit code 2 and nothing on stdout."""
    assert (answer.code, answer.out) == (2, ""), answer
    [line] = answer.err.strip().splitlines()
    assert line.startswith("error: ")
    return line
