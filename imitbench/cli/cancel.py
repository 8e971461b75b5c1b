"""`imitbench cancel`: removes the tasks of a results folder from a scheduler's queue."""

from __future__ import annotations

from imitbench.cli import options
from imitbench.cli.output import count, note, print_json
from imitbench.errors import InputError


def cancel(out: options.Out = options.DEFAULT_OUT, json: options.Json = False) -> None:
    """Cancel all tasks of a results folder that are in a scheduler's queue.

    Running runs save a checkpoint if the scheduler gives them the time; the same `imitbench run`
    command, or `imitbench resume`, continues them. Stop runs on this machine with Ctrl-C.

    Example: imitbench cancel --out runs
    """
    from imitbench.executors.registry import executors_of

    if not out.is_dir():
        raise InputError(f"--out {out}: no such folder; check the path")
    tasks = sum(executor.cancel(out) for executor in executors_of(out))
    if json:
        print_json({"cancelled_tasks": tasks})
    else:
        note(f"{count(tasks, 'task')} cancelled" if tasks else f"no task of {out} is in the queue")
