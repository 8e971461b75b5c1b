"""`imitbench run`: trains and evaluates algorithms x environments x seeds."""

from __future__ import annotations

from imitbench.cli import options, run_options
from imitbench.cli.launch import Launch, launch
from imitbench.cli.plan_table import print_plan


def run(
    algo: run_options.Algo,
    suite: options.Suite = options.DEFAULT_SUITE,
    env: options.Env = None,
    seeds: run_options.Seeds = "3",
    jobs: run_options.Jobs = None,
    out: options.Out = options.DEFAULT_OUT,
    set_: run_options.Set = [],  # noqa: B006 (typer copies it)
    budget: run_options.Budget = "default",
    n_demos: run_options.Demos = None,
    source: run_options.Source = "bundled",
    lock: options.Lock = options.DEFAULT_LOCK,
    executor: run_options.Executor = "local",
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
    from imitbench.bench.devices import choose_device, parse_gpus
    from imitbench.bench.plan import make_plan, parse_overrides, parse_seeds
    from imitbench.bench.spec import Settings
    from imitbench.cli.hub_progress import make_tell
    from imitbench.hub.lock_file import read_lock
    from imitbench.util.quantities import parse_duration, parse_size

    chosen = choose_device(device, parse_gpus(gpus) if gpus is not None else ())
    how = Launch(
        out=out,
        executor=executor,
        jobs=run_options.count_workers(jobs, chosen.gpus, per_gpu),
        gpus=chosen.gpus,
        max_memory=parse_size(max_mem, option="--max-mem") if max_mem is not None else None,
        retries=retries,
        timeout_s=parse_duration(timeout, option="--timeout") if timeout is not None else None,
        force=force,
        fail_fast=fail_fast,
        checkpoint_minutes=checkpoint_minutes,
        json=json,
        quiet=quiet,
    )
    plan = make_plan(
        algorithms=algo,
        suite=suite,
        environment=env,
        seeds=parse_seeds(seeds),
        settings=Settings(
            source=source,
            budget=budget,
            n_demos=n_demos,
            overrides=parse_overrides(set_),
            device=chosen.device,
        ),
        lock=read_lock(lock) if source == "hub" else None,
        tell=make_tell(quiet=quiet),
    )
    if dry_run:
        print_plan(plan, how)
    else:
        launch(plan, how)
