"""How much memory a process and its descendants use, read from `/proc`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

NO_LIMIT = "--max-mem: only worker processes on Linux can be limited; leave it out"

_PROC = Path("/proc")


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
