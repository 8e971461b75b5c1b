"""Processes that a worker started, however far down, read from `/proc`: their memory, their end.

A mark in their environment tells them once the worker is dead. Neither their group nor their
parent does then: a program of its own has a session of its own, and what that started is handed
to the system's first process.
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


def kill_descendants(value: str) -> None:
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


def can_measure() -> bool:
    """Whether this system tells; Linux does."""
    return (_PROC / "self" / "statm").exists()


def memory_above(pid: int, limit: int) -> int | None:
    """Memory of a process tree if it is above a limit.

    Args:
        pid: The process at the root.
        limit: Bytes.

    Returns:
        Bytes in use, pages that several processes share counted in parts; `None` if that is not
        above the limit, or the process is gone.
    """
    processes = list(_tree(pid))
    # Cheap, and never too low: pages that parent and children share count for each of them.
    if sum(map(_resident, processes)) <= limit:
        return None
    used = sum(map(_proportional, processes))
    return used if used > limit else None


def _tree(pid: int) -> Iterator[int]:
    yield pid
    try:
        threads = list((_PROC / str(pid) / "task").iterdir())
    except OSError:
        return
    for thread in threads:
        try:
            children = (thread / "children").read_text().split()
        except OSError:  # ended in the meantime
            continue
        for child in children:
            yield from _tree(int(child))


def _resident(pid: int) -> int:
    try:
        return int((_PROC / str(pid) / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def _proportional(pid: int) -> int:
    try:
        lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return _resident(pid)
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
