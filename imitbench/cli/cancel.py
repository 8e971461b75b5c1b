"""`imitbench cancel`: takes what a results folder has in a scheduler's queue out of it."""

from __future__ import annotations

from imitbench.cli import options


def cancel(out: options.Out = options.DEFAULT_OUT, json: options.Json = False) -> None:
    """Cancel all tasks that were submitted to SLURM for a results folder.

    Running runs save a checkpoint if the cluster gives them the time; the same `imitbench run`
    command, or `imitbench resume`, goes on with them. Runs on this machine end with Ctrl-C.

    Example: imitbench cancel --out runs
    """
    from imitbench.cli.output import count, note, print_json
    from imitbench.errors import InputError
    from imitbench.executors.slurm.queue import require_slurm
    from imitbench.executors.slurm.submission import cancel_submissions, read_submissions

    if not out.is_dir():
        raise InputError(f"--out {out}: no such folder")
    submissions = list(read_submissions(out))
    if submissions:
        require_slurm()
    tasks = cancel_submissions(submissions)
    if json:
        print_json({"cancelled_tasks": tasks})
    else:
        note(f"{count(tasks, 'task')} cancelled" if tasks else f"nothing of {out} is in the queue")
