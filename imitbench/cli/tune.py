"""`imitbench tune`: searches for better hyper-parameters, and tests whether they are better."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from imitbench.cli import options, run_options
from imitbench.cli.options import option
from imitbench.cli.output import make_notifier
from imitbench.cli.record_options import with_options_of
from imitbench.executors.options import RunOptions

ObjectiveName = Literal[
    "return", "demo-likelihood", "discriminator", "episode-length", "state-match"
]

Algo = Annotated[str | None, option("--algo", "Algorithm to tune.", "NAME")]
PerOption = Annotated[
    Literal["environment", "suite"],
    option("--per", "Scope of tuned values: each environment, or the whole suite."),
]
Trials = Annotated[
    int, option("--trials", "Total number of trials of each environment or suite.", min=1)
]
Jobs = Annotated[
    int | None, option("--jobs -j", "Parallel trials [1, or 8 in a scheduler's queue].", min=1)
]
Objective = Annotated[
    ObjectiveName, option("--objective", "Objective to maximize; return uses the true reward.")
]
Name = Annotated[str | None, option("--name", "Name of the tuning [ALGO-SUITE].", "NAME")]
To = Annotated[Path | None, option("--to", "File for tuned values.", "FILE", dir_okay=False)]
KeepAnyway = Annotated[
    bool, option("--keep-anyway", "Also write values that do not beat the default.")
]
Best = Annotated[int, option("--best", "Number of best trials to compare with the default.", min=1)]
SearchSeeds = Annotated[str, option("--search-seeds", "Seeds of each trial.", "SEEDS")]
HeldOutSeeds = Annotated[
    str, option("--held-out-seeds", "Seeds of the held-out comparison.", "SEEDS")
]
Seed = Annotated[int, option("--seed", "Seed of the proposals.", min=0)]
SearchShare = Annotated[
    float,
    option(
        "--search-share",
        "Share of the budget that each trial trains; the comparison trains all of it.",
        "SHARE",
        min=0.01,
        max=1.0,
    ),
]
PackSeeds = Annotated[
    bool, option("--pack-seeds", "Train the seeds of a setting as one network, which is faster.")
]
Points = Annotated[
    int,
    option("--points", "Number of equal parts of a trial; each ends with a measurement.", min=1),
]
Prune = Annotated[bool, option("--prune/--no-prune", "Stop bad trials early.")]
Storage = Annotated[
    Literal["auto", "sqlite", "journal"],
    option(
        "--storage",
        "Storage of the study; auto: journal if jobs run on other machines, else sqlite.",
    ),
]
Show = Annotated[bool, option("--show", "Print existing results, and run nothing.")]


@with_options_of(
    RunOptions,
    wait=True,
    min_task_minutes=0.0,
    jobs=None,
    retries=0,
    force=False,
    fail_fast=False,
    pack=None,
)
def tune(
    context: typer.Context,
    algo: Algo = None,
    suite: options.Suite = options.DEFAULT_SUITE,
    env: options.Env = [],  # noqa: B006 (typer copies it)
    per: PerOption = "environment",
    trials: Trials = 50,
    jobs: Jobs = None,
    out: options.Out = options.DEFAULT_OUT,
    objective: Objective = "return",
    name: Name = None,
    to: To = None,
    keep_anyway: KeepAnyway = False,
    best: Best = 3,
    search_seeds: SearchSeeds = "100,101,102",
    held_out_seeds: HeldOutSeeds = "200-204",
    seed: Seed = 0,
    search_share: SearchShare = 1.0,
    pack_seeds: PackSeeds = False,
    points: Points = 5,
    prune: Prune = True,
    storage: Storage = "auto",
    show: Show = False,
    set_: run_options.Set = [],  # noqa: B006 (typer copies it)
    budget: run_options.Budget = "default",
    n_demos: run_options.Demos = None,
    demo_every: run_options.DemoEvery = None,
    regime: run_options.Regime = None,
    actions: run_options.Actions = None,
    mixture: run_options.MixtureOption = None,
    source: run_options.Source = "bundled",
    lock: options.NamedLock = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Search for better hyper-parameters, then test them against the card's own.

    Each environment is tuned separately, or with --per suite all of them get the same values. The
    best trials are compared with the default values on held-out seeds, which the search never
    used; only values that are better there are written. The same command continues after an
    interruption, and with more --trials.

    Example: imitbench tune --algo bc --env Pendulum-v1 --trials 8 --jobs 2 --budget quick
    """
    from imitbench.tune.storage import require_optuna

    require_optuna()  # first: the other modules import it
    from imitbench.bench.plan import DemoChoice
    from imitbench.cli.tune_launch import TuningTarget, make_tune_request, plan_tuning, run_tuning
    from imitbench.cli.tune_table import print_tuning
    from imitbench.executors.registry import executor_class, resolve

    target = TuningTarget(out, algo, suite, per, objective, budget, name, to, keep_anyway)
    if show:
        print_tuning(target.existing(), as_json=json)
        return
    given: RunOptions = context.obj
    if not executor_class(given.executor).distributed:
        given = given.model_copy(update={"jobs": jobs})
    resolved = resolve(given)
    demos = DemoChoice.parse(n_demos, demo_every, regime, actions, mixture)
    plan = plan_tuning(
        resolved, algo, suite, env, set_, budget, demos, source, lock, make_notifier(quiet=quiet)
    )
    request = make_tune_request(
        plan, resolved, per=per, objective=objective, trials=trials, search_seeds=search_seeds,
        held_out_seeds=held_out_seeds, best=best, search_share=search_share, points=points,
        pack_seeds=pack_seeds, prune=prune, seed=seed, storage=storage,
    )  # fmt: skip
    run_tuning(request, resolved, target, jobs, json=json, quiet=quiet)
