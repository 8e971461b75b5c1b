"""Executors of this machine, by name; that of SLURM needs more to be made."""

from __future__ import annotations

from collections.abc import Sequence

from imitbench.errors import InputError, did_you_mean
from imitbench.executors.base import Executor
from imitbench.executors.inline import InlineExecutor
from imitbench.executors.local import LocalExecutor
from imitbench.executors.memory import can_measure

EXECUTORS = ("local", "slurm", "inline")


def make_executor(
    name: str,
    *,
    entry: str,
    jobs: int,
    gpus: Sequence[str] = (),
    max_memory: int | None = None,
) -> Executor:
    """Makes an executor.

    Args:
        name: `inline` or `local`.
        entry: Module of the worker.
        jobs: How many jobs run at once, where the executor can choose.
        gpus: GPUs for the workers of this machine, as CUDA_VISIBLE_DEVICES names them.
        max_memory: Bytes that a worker of this machine, with its children, may use.

    Raises:
        InputError: No such executor, or it cannot limit memory.
    """
    if max_memory is not None and (name == "inline" or not can_measure()):
        raise InputError("--max-mem: only worker processes on Linux can be limited; leave it out")
    if name == "inline":
        return InlineExecutor(entry)
    if name == "local":
        return LocalExecutor(entry, jobs, gpus=gpus, max_memory=max_memory)
    raise InputError(f"--executor {name}: no such executor; {did_you_mean(name, EXECUTORS)}")
