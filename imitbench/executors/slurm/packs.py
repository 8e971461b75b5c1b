"""Puts short jobs together, so that a task is worth the scheduler's effort."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

_Job = TypeVar("_Job")

_LARGEST_SHARE = 0.5
"""A pack stays below this share of the time limit: estimates are rough, and going back into the
queue takes minutes."""


def pack_tasks(
    jobs: Sequence[_Job],
    expected_s: Sequence[float],
    *,
    least_s: float,
    limit_s: float,
    workers: int = 1,
) -> list[list[_Job]]:
    """Divides jobs among tasks, in their order.

    Args:
        jobs: Jobs, or whatever stands for them.
        expected_s: About how many seconds each takes; empty where unknown, which makes each job
            a task.
        least_s: Seconds that a task should take at least.
        limit_s: Time limit of a task.
        workers: Jobs at a time within a task.

    Returns:
        Jobs of each task.
    """
    if not expected_s:
        return [[job] for job in jobs]
    wanted = workers * min(least_s, _LARGEST_SHARE * limit_s)
    tasks: list[list[_Job]] = []
    filled_s = float("inf")
    for job, seconds in zip(jobs, expected_s, strict=True):
        # A task with room for several runs at a time is not left with one.
        if filled_s >= wanted and (not tasks or len(tasks[-1]) >= workers):
            tasks.append([])
            filled_s = 0.0
        tasks[-1].append(job)
        filled_s += seconds
    return tasks
