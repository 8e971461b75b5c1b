"""`imitbench run`: trains and evaluates algorithms x environments x seeds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from imitbench.cli import options, run_options
from imitbench.cli.launch import launch, print_plans
from imitbench.cli.options import option
from imitbench.cli.output import count, make_notifier, note
from imitbench.cli.record_options import with_options_of
from imitbench.executors.options import RunOptions
from imitbench.records.selection import Selection
from imitbench.util.name_lists import split_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from imitbench.bench.plan import Plan
    from imitbench.reward_board.folder import EvaluatedRun

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
    actions: run_options.Actions = None,
    mixture: run_options.MixtureOption = None,
    source: run_options.Source = "bundled",
    lock: options.NamedLock = None,
    reward_board: Annotated[
        bool,
        option("--reward-board", "Then measure learned rewards: `rewards evaluate --reoptimize`."),
    ] = False,
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
    overrides = parse_overrides(set_)
    demos = DemoChoice.parse(n_demos, demo_every, regime, actions, mixture)
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
    plans = plan_requests(requests, demos, notify, collect=not dry_run)
    if len(seed_list) > _MANY_SEEDS:  # a single seed is written with a comma
        notify(f"{len(seed_list):,} seeds, {min(seed_list)} to {max(seed_list)}")
    if dry_run:
        print_plans(plans, resolved, out, json=json)
    else:
        board = _RewardBoard(plans, resolved, out, quiet=quiet) if reward_board else None
        also = dict if board is None else board.document
        launch(plans, resolved, out, json=json, quiet=quiet, also=also)
        if board is not None and not json:
            board.show()


@dataclass
class _RewardBoard:
    """Measures the rewards that the runs of plans have learned."""

    plans: Sequence[Plan]
    run_options: RunOptions
    out: Path
    quiet: bool

    def measure(self) -> list[EvaluatedRun]:
        """Trains fresh policies on the rewards, and measures these."""
        from imitbench.cli.rewards import measure_rewards
        from imitbench.records.reward_scores import OptimizationProtocol, RewardProtocol

        outside = [plan.suite.origin.reference for plan in self.plans if plan.suite.origin.source]
        return measure_rewards(
            self.out,
            Selection(),
            RewardProtocol(optimization=OptimizationProtocol()),
            self.run_options.model_copy(update={"pack": None}),
            suite=outside[0] if outside else None,
            quiet=self.quiet,
            only={spec.run_id for plan in self.plans for spec in plan},
        )

    def is_due(self) -> bool:
        """Whether all runs are done; says so if they are not, but stopped, failed or queued."""
        from imitbench.store.run_dir import RunDirectory

        runs = [RunDirectory.of(self.out, spec) for plan in self.plans for spec in plan]
        left = sum(not run.is_done for run in runs)
        if left:
            note(
                f"no reward board yet: {left} of {count(len(runs), 'run')} are not done; the same "
                "command continues"
            )
        return not left

    def document(self) -> dict[str, Any]:
        """Returns what was measured, for the JSON document; nothing before all runs are done."""
        from imitbench.cli.rewards import documents

        return {"rewards": documents(self.measure())} if self.is_due() else {}

    def show(self) -> None:
        """Measures, and prints the tables, once all runs are done."""
        from imitbench.cli.rewards import print_rewards

        if self.is_due():
            print_rewards(self.measure(), self.out, json=False)
