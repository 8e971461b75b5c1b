"""Processes that a worker started, however far down: a mark in their environment tells.

Neither their group nor their parent does once the worker is dead: a program of its own has a
session of its own, and what that started is handed to the system's first process.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

MARK = "IMITBENCH_WORKER"
"""Environment variable with a value that no other worker has."""

_PROC = Path("/proc")
_ROUNDS = 10  # what is killed may have started more since it was looked for


def kill_marked(value: str) -> None:
    """Kills every process with this mark; systems without `/proc` show none.

    Args:
        value: Value of `MARK`.
    """
    for _ in range(_ROUNDS):
        found = list(_marked(f"{MARK}={value}".encode()))
        if not found:
            return
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def _marked(line: bytes) -> Iterator[int]:
    for path in _PROC.glob("[0-9]*/environ"):
        with suppress(OSError):  # gone, or somebody else's
            if line in path.read_bytes().split(b"\0"):
                yield int(path.parent.name)
