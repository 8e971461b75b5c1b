"""`imitbench run`: trains and evaluates algorithms x environments x seeds."""

from __future__ import annotations

from pathlib import Path

from imitbench.cli import options
from imitbench.cli.launch import Launch, array_request, launch
from imitbench.cli.plan_table import print_plans


def run(
    algo: options.Algo,
    suite: options.Suite = options.DEFAULT_SUITE,
    env: options.Env = None,
    seeds: options.Seeds = "3",
    jobs: options.Jobs = 1,
    out: options.Out = options.DEFAULT_OUT,
    set_: options.Set = [],  # noqa: B006 (typer copies it)
    budget: options.Budget = "default",
    n_demos: options.NDemos = None,
    source: options.Source = "bundled",
    lock: options.NamedLock = None,
    executor: options.Executor = "local",
    profile: options.Profile = None,
    wait: options.Wait = False,
    min_task_minutes: options.MinTaskMinutes = options.DEFAULT_MIN_TASK_MINUTES,
    dry_run: options.DryRun = False,
    force: options.Force = False,
    fail_fast: options.FailFast = False,
    checkpoint_minutes: options.CheckpointMinutes = 10.0,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Train and evaluate every algorithm on every environment and seed.

    Completed runs are kept: the same command again does only what is missing, and goes on with
    interrupted runs from their last checkpoint.

    Example: imitbench run --algo bc --suite classic --seeds 3 --jobs 2
    """
    from imitbench.bench.plan import parse_overrides, parse_seeds
    from imitbench.bench.request import plan_request
    from imitbench.cli.hub_progress import make_tell
    from imitbench.store.sweep_file import SweepRequest

    if lock is None and options.DEFAULT_LOCK.exists():
        lock = options.DEFAULT_LOCK
    request = SweepRequest(
        algorithms=algo,
        suite=suite,
        environment=env,
        seeds=parse_seeds(seeds),
        budget=budget,
        n_demos=n_demos,
        overrides=parse_overrides(set_),
        source=source,
        lock=str(lock) if lock is not None and source == "hub" else None,
        folder=str(Path.cwd()),
    )
    plan = plan_request(request, make_tell(quiet=quiet))
    how = Launch(
        out=out,
        executor=executor,
        jobs=jobs,
        force=force,
        fail_fast=fail_fast,
        checkpoint_minutes=checkpoint_minutes,
        slurm=array_request(executor, profile, min_task_minutes),
        wait=wait,
        json=json,
        quiet=quiet,
    )
    if dry_run:
        print_plans([plan], how)
    else:
        launch(plan, how)
