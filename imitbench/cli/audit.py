"""`imitbench audit`: does survival explain a method's score?"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from imitbench.cli import completion, options, run_options
from imitbench.cli.options import option
from imitbench.cli.output import (
    TextColumn,
    make_notifier,
    note,
    print_json,
    print_table,
    print_text,
    typed_command,
)
from imitbench.cli.record_options import with_options_of
from imitbench.errors import InputError
from imitbench.executors.options import RunOptions
from imitbench.util.torch_startup import start_torch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from imitbench.experts.lookup import ListedEnvironment
    from imitbench.report.survival import Audit


@with_options_of(RunOptions)
def audit(
    context: typer.Context,
    env: Annotated[str, option("--env", "Environment id.", "ID", completion.environments)],
    algo: Annotated[
        str,
        option(
            "--algo", "Method: name, ./plugin or package.module.", "NAME", completion.algorithms
        ),
    ],
    suite: options.SuiteOfEnv = None,
    seeds: run_options.Seeds = "3",
    budget: run_options.Budget = "default",
    demos: Annotated[
        str | None,
        option("--demos", "Demonstrations, where the environment is in no suite.", "DIR_OR_REPO"),
    ] = None,
    out: options.Out = options.DEFAULT_OUT,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Find out whether survival explains a method's score where episodes end early.

    Trains the method, and its learner (PPO, or the agent with a replay buffer) on rewards of +1,
    -1 and 0 in every step, which tell nothing of the expert. Prints how their episodes end, and
    whether a constant reward reaches what the method does. In an environment of a suite, these are
    ordinary runs: they are kept, resumed and reported. In others nothing is kept, and a method
    that learns from demonstrations is only trained if --demos names some.

    Example: imitbench audit --env seals/EarlyTermPos-v0 --algo gail --seeds 3 --budget quick
    """
    from imitbench.bench.plan import parse_seeds
    from imitbench.executors.registry import resolve
    from imitbench.experts.lookup import find_listed_environment

    seed_list = parse_seeds(seeds)
    resolved = resolve(context.obj)
    listed = find_listed_environment(env.rpartition(":")[2], suite)
    if listed is None:
        found = _trained(env, algo, seed_list, budget, demos, quiet=quiet)
    elif demos is not None:
        raise InputError(f"--demos: suite {listed.suite.name} has those of {env}; omit it")
    else:
        found = _run(listed, algo, seed_list, budget, resolved, out, quiet=quiet)
    if json:
        print_json(_document(found))
    else:
        _print(found)


def _run(
    listed: ListedEnvironment,
    algo: str,
    seeds: Sequence[int],
    budget: str,
    resolved: RunOptions,
    out: Path,
    *,
    quiet: bool,
) -> Audit:
    """Runs the learners as `imitbench run` does.

    Raises:
        typer.Exit: With 130 when it was stopped, and 1 when runs failed.
    """
    from imitbench.bench.summary import summarize_sweep
    from imitbench.cli.launch import complete
    from imitbench.experts.audit import CONTROLS, METHOD, RANDOM, plan_audit
    from imitbench.report.survival import Audit, Outcome

    plans = plan_audit(
        listed, algo, seeds, budget, resolved.device_class, make_notifier(quiet=quiet)
    )
    every = list(plans.values())
    outcome = complete(every, resolved, out, quiet=quiet, what="the audit")
    scores = summarize_sweep(every, out, outcome).scores
    found = {
        key: Outcome.of_rows([row for row in scores if row.run_id in wanted])
        for key, wanted in ((key, {spec.run_id for spec in plan}) for key, plan in plans.items())
    }
    [(card, _)] = plans[METHOD].algorithms
    controls = {key: found[key] for key in CONTROLS}
    return Audit(card.name, listed.env_id, found[METHOD], found[RANDOM], **controls)


def _trained(
    env: str,
    algo: str,
    seeds: Sequence[int],
    budget: str,
    demos: str | None,
    *,
    quiet: bool,
) -> Audit:
    """Trains the learners one after another, without a results folder."""
    from imitbench.bench.stopping import RunStoppedError
    from imitbench.cli.train_progress import shown_training
    from imitbench.experts.audit import CONTROLS, METHOD, RANDOM, mean_episodes, train_audit
    from imitbench.report.survival import Audit, Outcome

    start_torch()
    watch, notify = partial(shown_training, quiet=quiet), make_notifier(quiet=quiet)
    try:
        found = train_audit(env, algo, seeds, budget, demos, typed_command(), watch, notify)
    except RunStoppedError:
        note("stopped; nothing is kept of an audit in an environment that is in no suite")
        raise typer.Exit(130) from None

    def outcome(key: str) -> Outcome | None:
        if key not in found:
            return None
        mean, length, early = mean_episodes(found[key])
        return Outcome(mean, math.nan, length, early, len(found[key]))

    controls = {key: outcome(key) for key in CONTROLS}
    return Audit(algo, env, outcome(METHOD), outcome(RANDOM), **controls)


def _print(found: Audit) -> None:
    rows: list[list[Any]] = []
    for name, own in found.rows.items():
        if own is not None:
            score = "unknown" if math.isnan(own.score) else f"{own.score:.3f}"
            numbers = [f"{own.mean_return:.2f}", score, f"{own.length:.1f}"]
            rows.append([name, own.seeds, *numbers, f"{100 * own.early:.1f}%"])
    headings: list[str | TextColumn] = [
        "learner",
        TextColumn("seeds", rank=2),
        "return",
        "score",
        "mean length",
        "early ends",
    ]
    print_table(headings, rows)
    for sentence in found.sentences():
        print_text(sentence)


def _document(found: Audit) -> dict[str, Any]:
    def number(value: float) -> float | None:
        return None if math.isnan(value) else value

    return {
        "algo": found.algo,
        "env": found.env,
        "learners": {
            name: None
            if own is None
            else {
                "seeds": own.seeds,
                "mean_return": own.mean_return,
                "score": number(own.score),
                "mean_length": own.length,
                "early_ends": own.early,
            }
            for name, own in found.rows.items()
        },
        "share_of_constant_reward": number(found.share),
        "sentences": found.sentences(),
    }
