"""`imitbench resume`: does whatever was asked for and has no result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from imitbench.cli import options
from imitbench.cli.launch import Launch, array_request, launch_all
from imitbench.cli.plan_table import print_plans

if TYPE_CHECKING:
    from imitbench.bench.request import LeftOut


def resume(
    out: options.Out = options.DEFAULT_OUT,
    jobs: options.Jobs = 1,
    executor: options.Executor = "local",
    profile: options.Profile = None,
    wait: options.Wait = False,
    min_task_minutes: options.MinTaskMinutes = options.DEFAULT_MIN_TASK_MINUTES,
    dry_run: options.DryRun = False,
    fail_fast: options.FailFast = False,
    checkpoint_minutes: options.CheckpointMinutes = 10.0,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Do every run of a results folder that was asked for and has no result.

    Interrupted runs go on from their last checkpoint, waiting ones are begun, and failed ones are
    tried again. What every sweep asked for stands in the folder .sweeps of the results folder.
    Runs that the same request would not give today, because a card has changed, say, are named
    and left out; the exit code is then 1.

    Example: imitbench resume --out runs --jobs 2
    """
    from imitbench.bench.request import plan_missing
    from imitbench.cli.hub_progress import make_tell
    from imitbench.cli.output import note, print_json

    how = Launch(
        out=out,
        executor=executor,
        jobs=jobs,
        fail_fast=fail_fast,
        checkpoint_minutes=checkpoint_minutes,
        slurm=array_request(executor, profile, min_task_minutes),
        wait=wait,
        json=json,
        quiet=quiet,
    )
    missing = plan_missing(out, make_tell(quiet=quiet))
    for each in missing.left_out:
        note(_line(each))
    if not missing.plans:
        if json:
            print_json({"done": 0, "failed": [], "left": 0})
        elif not missing.left_out:
            note(f"nothing is missing in {out}")
    elif dry_run:
        print_plans(missing.plans, how)
    else:
        launch_all(missing.plans, how)
    if missing.left_out:
        raise typer.Exit(1)


def _line(each: LeftOut) -> str:
    runs = "1 run" if each.runs == 1 else f"{each.runs} runs"
    return f"left out: {runs} of `{each.command}`: {each.why}"
