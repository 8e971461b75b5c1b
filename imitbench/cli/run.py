"""`imitbench run`: trains and evaluates algorithms x environments x seeds."""

from __future__ import annotations

from pathlib import Path

import typer

from imitbench.cli import options, run_options
from imitbench.cli.launch import launch, print_plans
from imitbench.cli.output import make_notifier
from imitbench.cli.record_options import with_options_of
from imitbench.executors.options import RunOptions
from imitbench.util.name_lists import split_names

_MANY_SEEDS = 20  # from which on a single seed may have been meant


@with_options_of(RunOptions)
def run(
    context: typer.Context,
    algo: run_options.Algo,
    suite: run_options.Suites = [options.DEFAULT_SUITE],  # noqa: B006 (typer copies it)
    env: options.Env = [],  # noqa: B006
    seeds: run_options.Seeds = "3",
    out: options.Out = options.DEFAULT_OUT,
    set_: run_options.Set = [],  # noqa: B006
    config: run_options.Config = "default",
    budget: run_options.Budget = "default",
    n_demos: run_options.Demos = None,
    demo_every: run_options.DemoEvery = None,
    regime: run_options.Regime = None,
    source: run_options.Source = "bundled",
    lock: options.NamedLock = None,
    dry_run: run_options.DryRun = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Train and evaluate every algorithm on every environment and seed.

    Completed runs are kept. The same command again does only the missing runs, and resumes
    interrupted runs from their last checkpoint.

    Example: imitbench run --algo bc --suite classic --seeds 3 --jobs 2
    """
    from imitbench.bench.plan import DemoChoice, parse_overrides, parse_seeds
    from imitbench.bench.request import environments_by_suite, lock_in_use, plan_requests
    from imitbench.executors.registry import resolve
    from imitbench.store.sweep_file import SweepRequest

    resolved, folder = resolve(context.obj), Path.cwd()
    algorithms, seed_list = split_names("--algo", algo), parse_seeds(seeds)
    overrides, demos = parse_overrides(set_), DemoChoice.parse(n_demos, demo_every, regime)
    by_suite = environments_by_suite(split_names("--suite", suite), env, folder)
    requests = [
        SweepRequest(
            algorithms=algorithms,
            suite=name,
            environment=environment,
            seeds=seed_list,
            config=config,
            budget=budget,
            overrides=overrides,
            source=source,
            lock=lock_in_use(lock, source),
            device=resolved.device_class,
            pack=resolved.pack,
            folder=str(folder),
        )
        for name, environment in by_suite.items()
    ]
    notify = make_notifier(quiet=quiet)
    plans = plan_requests(requests, demos, notify)
    if len(seed_list) > _MANY_SEEDS:  # a single seed is written with a comma
        notify(f"{len(seed_list):,} seeds, {min(seed_list)} to {max(seed_list)}")
    if dry_run:
        print_plans(plans, resolved, out, json=json)
    else:
        launch(plans, resolved, out, json=json, quiet=quiet)
