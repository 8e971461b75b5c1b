"""The real command in a real process."""

import subprocess
import sys
from dataclasses import dataclass

import pytest


@dataclass
class Answer:
    code: int
    out: str
    err: str


@pytest.fixture
def imitbench(tmp_path):
    """Runs `imitbench ARGUMENTS…` in an empty folder."""

    def call(*arguments, cwd=tmp_path, env=None):
        done = subprocess.run(
            [sys.executable, "-m", "imitbench", *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=cwd,
            env=env,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Answer(done.returncode, done.stdout, done.stderr)

    return call


@pytest.fixture
def refused(imitbench):
    """Runs a command that must be refused with one line and exit code 2; returns the line."""

    def call(*arguments, **options):
        answer = imitbench(*arguments, **options)
        assert (answer.code, answer.out) == (2, ""), answer
        [line] = answer.err.strip().splitlines()
        assert line.startswith("error: ")
        return line

    return call
