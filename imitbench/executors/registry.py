"""Executors of this machine, by name; that of SLURM needs more to be made."""

from __future__ import annotations

from collections.abc import Callable

from imitbench.errors import InputError, did_you_mean
from imitbench.executors.base import Executor
from imitbench.executors.inline import InlineExecutor
from imitbench.executors.local import LocalExecutor

_EXECUTORS: dict[str, Callable[[str, int], Executor]] = {
    "inline": lambda entry, _jobs: InlineExecutor(entry),
    "local": LocalExecutor,
}


def make_executor(name: str, *, entry: str, jobs: int) -> Executor:
    """Makes an executor.

    Args:
        name: `inline` or `local`.
        entry: Module of the worker.
        jobs: How many jobs run at once, where the executor can choose.

    Raises:
        InputError: No such executor.
    """
    if name not in _EXECUTORS:
        known = [*_EXECUTORS, "slurm"]
        raise InputError(f"--executor {name}: no such executor; {did_you_mean(name, known)}")
    return _EXECUTORS[name](entry, jobs)
