"""Measures and kills all descendants of a worker process, which it reads from `/proc`.

After the worker has exited, a mark in their environment identifies its descendants. Their group
and their parent do not: an external program has its own session, and its children are then
adopted by the first process of the system.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

MARK = "IMITBENCH_WORKER"
"""Environment variable whose value is unique for each worker."""

_PROC = Path("/proc")
_ROUNDS = 10  # a process may start others before it is killed


def kill_descendants(value: str) -> None:
    """Kills every process with this mark; does nothing on systems without `/proc`.

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
        with suppress(OSError):  # exited, or owned by another user
            if line in path.read_bytes().split(b"\0"):
                yield int(path.parent.name)


def can_measure() -> bool:
    """Whether memory can be measured on this system, which is so on Linux."""
    return (_PROC / "self" / "statm").exists()


def memory_above(pid: int, limit: int) -> int | None:
    """Returns the memory of a process tree if it is above a limit.

    Args:
        pid: Id of the root process.
        limit: Limit in bytes.

    Returns:
        Bytes in use, where shared pages count in proportion; `None` if they are not above the
        limit, or the process has exited.
    """
    processes = list(_tree(pid))
    # Fast, and never too low: shared pages count for each process.
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
