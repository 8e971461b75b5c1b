"""`imitbench run`: trains and evaluates algorithms x environments x seeds."""

from __future__ import annotations

from pathlib import Path

from imitbench.cli import options, run_options
from imitbench.cli.launch import launch
from imitbench.cli.plan_table import print_plans
from imitbench.executors.slurm import DEFAULT_MIN_TASK_MINUTES


def run(
    algo: run_options.Algo,
    suite: options.Suite = options.DEFAULT_SUITE,
    env: options.Env = None,
    seeds: run_options.Seeds = "3",
    jobs: run_options.Jobs = None,
    out: options.Out = options.DEFAULT_OUT,
    set_: run_options.Set = [],  # noqa: B006 (typer copies it)
    config: run_options.Config = "default",
    budget: run_options.Budget = "default",
    n_demos: run_options.Demos = "all",
    source: run_options.Source = "bundled",
    lock: options.NamedLock = None,
    executor: run_options.Executor = "local",
    profile: run_options.Profile = None,
    wait: run_options.Wait = False,
    min_task_minutes: run_options.MinTaskMinutes = DEFAULT_MIN_TASK_MINUTES,
    device: run_options.Device = "auto",
    gpus: run_options.Gpus = None,
    per_gpu: run_options.PerGpu = None,
    retries: run_options.Retries = 0,
    timeout: run_options.Timeout = None,
    max_mem: run_options.MaxMem = None,
    dry_run: run_options.DryRun = False,
    force: run_options.Force = False,
    fail_fast: run_options.FailFast = False,
    checkpoint_minutes: run_options.CheckpointMinutes = 10.0,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Train and evaluate every algorithm on every environment and seed.

    Completed runs are kept: the same command again does only what is missing, and goes on with
    interrupted runs from their last checkpoint.

    Example: imitbench run --algo bc --suite classic --seeds 3 --jobs 2
    """
    from imitbench.bench.launch import Launch
    from imitbench.bench.plan import parse_demo_counts, parse_overrides, parse_seeds
    from imitbench.bench.request import lock_in_use, plan_requests
    from imitbench.cli.hub_progress import make_tell
    from imitbench.store.sweep_file import SweepRequest

    how = Launch.of(
        out=out,
        executor=executor,
        profile=profile,
        wait=wait,
        min_task_minutes=min_task_minutes,
        device=device,
        jobs=jobs,
        gpus=gpus,
        per_gpu=per_gpu,
        retries=retries,
        timeout=timeout,
        max_mem=max_mem,
        force=force,
        fail_fast=fail_fast,
        checkpoint_minutes=checkpoint_minutes,
    )
    request = SweepRequest(
        algorithms=algo,
        suite=suite,
        environment=env,
        seeds=parse_seeds(seeds),
        config=config,
        budget=budget,
        overrides=parse_overrides(set_),
        source=source,
        lock=lock_in_use(lock, source),
        device=how.device,
        folder=str(Path.cwd()),
    )
    plans = plan_requests(request, parse_demo_counts(n_demos), make_tell(quiet=quiet))
    if dry_run:
        print_plans(plans, how, json=json)
    else:
        launch(plans, how, json=json, quiet=quiet)
