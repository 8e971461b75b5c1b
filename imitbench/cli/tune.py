"""`imitbench tune`: searches for better hyper-parameters, and tests whether they are better."""

from __future__ import annotations

import typer

from imitbench.cli import options, run_options, tune_options
from imitbench.cli.record_options import takes
from imitbench.executors.options import RunOptions


@takes(
    RunOptions, wait=True, min_task_minutes=0.0, jobs=None, retries=0, force=False, fail_fast=False
)
def tune(
    context: typer.Context,
    algo: tune_options.Algo = None,
    suite: options.Suite = options.DEFAULT_SUITE,
    env: options.Env = None,
    per: tune_options.PerOption = "environment",
    trials: tune_options.Trials = 50,
    jobs: tune_options.Jobs = None,
    out: options.Out = options.DEFAULT_OUT,
    objective: tune_options.Objective = "return",
    name: tune_options.Name = None,
    to: tune_options.To = None,
    keep_anyway: tune_options.KeepAnyway = False,
    best: tune_options.Best = 3,
    search_seeds: tune_options.SearchSeeds = "100,101,102",
    held_out_seeds: tune_options.HeldOutSeeds = "200-204",
    seed: tune_options.Seed = 0,
    points: tune_options.Points = 5,
    prune: tune_options.Prune = True,
    storage: tune_options.Storage = "auto",
    show: tune_options.Show = False,
    set_: run_options.Set = [],  # noqa: B006 (typer copies it)
    budget: run_options.Budget = "default",
    n_demos: run_options.Demos = "all",
    source: run_options.Source = "bundled",
    lock: options.NamedLock = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Search for better hyper-parameters, then test them against the card's own.

    Each environment is tuned by itself, or with --per suite all of them get the same values. The
    best trials compete with the default values on seeds that the search never saw; only values
    that are better there are written. The same command goes on after an interruption, and with
    more --trials.

    Example: imitbench tune --algo bc --env Pendulum-v1 --trials 8 --jobs 2 --budget quick
    """
    from imitbench.cli.hub_progress import make_tell
    from imitbench.cli.tune_launch import Target, make_plan, make_request, tune_and_tell
    from imitbench.cli.tune_table import print_tuning
    from imitbench.executors.registry import executor_class, resolve
    from imitbench.tune.dependency import require_optuna

    require_optuna()
    target = Target(out, algo, suite, per, objective, budget, name, to, keep_anyway)
    if show:
        print_tuning(target.existing(), as_json=json)
        return
    given: RunOptions = context.obj
    if not executor_class(given.executor).distributed:
        given = given.model_copy(update={"jobs": jobs})
    how = resolve(given)
    plan = make_plan(
        how, algo, suite, env, set_, budget, n_demos, source, lock, make_tell(quiet=quiet)
    )
    request = make_request(
        plan, how, per=per, objective=objective, trials=trials, search_seeds=search_seeds,
        held_out_seeds=held_out_seeds, best=best, points=points, prune=prune, seed=seed,
        storage=storage,
    )  # fmt: skip
    tune_and_tell(request, how, target, jobs, json=json, quiet=quiet)
