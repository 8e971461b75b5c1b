"""`imitbench experts`: lists, trains, converts and evaluates experts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from imitbench.cli import completion, options
from imitbench.cli.options import argument, option
from imitbench.cli.output import (
    TextColumn,
    make_notifier,
    note,
    print_json,
    print_table,
    typed_command,
)
from imitbench.cli.pull import pull_experts
from imitbench.cli.push import push_experts
from imitbench.util.torch_startup import start_torch

if TYPE_CHECKING:
    from imitbench.cards.suite import EnvironmentCard
    from imitbench.experts.measurement import MeasurementComparison
    from imitbench.hub.reported_results import ReportedReturn


app = options.command_group("List, train, pull, push, convert and evaluate experts.")
app.command("pull")(pull_experts)
app.command("push")(push_experts)


@app.command("list")
def list_experts(
    suite: options.OneSuite = None,
    json: options.Json = False,
) -> None:
    """List the bundled experts with their measured returns.

    Example: imitbench experts list --suite classic
    """
    from imitbench.experts import listing
    from imitbench.experts.lookup import suites_of

    rows = [row for found in suites_of(suite) for row in listing.list_experts(found)]
    if json:
        print_json([row.as_document() for row in rows])
        return
    shown = [
        [
            row.suite, row.env, row.repo, row.env_steps, row.core_hours, row.mean_return,
            row.std_return, row.likely_return, row.termination_rate, row.mean_length,
            row.episodes,
        ]
        for row in rows
    ]  # fmt: skip
    print_table(
        [
            TextColumn("suite", rank=1, above=True),
            "environment",
            TextColumn("expert", rank=4),
            TextColumn("steps", rank=5),
            TextColumn("core hours", rank=6),
            "return",
            TextColumn("std", rank=3),
            TextColumn("most likely", rank=1),
            TextColumn("share ended early", rank=2),
            TextColumn("length", rank=4),
            TextColumn("episodes", rank=7),
        ],
        shown,
    )


@app.command("train")
def train(
    suite: options.Suite,
    env: options.Env = [],  # noqa: B006 (typer copies it)
    to: Annotated[
        Path | None, option("--to", "Folder to write [trained/SUITE/experts].", "DIR")
    ] = None,
    episodes: Annotated[int, option("--episodes", "Episodes of the measurement.", min=1)] = 100,
    steps: Annotated[
        int | None, option("--steps", "Training steps [from the card].", min=1)
    ] = None,
    device: Annotated[
        Literal["cpu", "cuda"],
        option("--device", "Processor of recipes with bundled methods; others use the CPU."),
    ] = "cpu",
    json: options.Json = False,
) -> None:
    """Train a suite's experts by the recipes on its card, and measure them.

    The same command resumes a training that was stopped. Exits with 1 if an expert is weaker than
    its recipe demands.

    Example: imitbench experts train --suite classic --env 'seals/CartPole-v0'
    """
    from imitbench.cards.catalog import select_trained
    from imitbench.cards.plugins import find_suite

    suite_card = find_suite(suite)
    environments = select_trained(suite_card, env)

    # Training libraries take seconds to import, so the request is checked first.
    from imitbench.bench.stopping import RunStoppedError
    from imitbench.experts.training import train_expert

    start_torch()
    target = to or Path("trained") / suite_card.name / "experts"
    rows = []
    for env_id, card in environments.items():
        recipe = card.expert_in(env_id)
        if steps is not None and recipe.trains:
            recipe = recipe.model_copy(update={"env_steps": steps})
            card = card.model_copy(update={"expert": recipe})
        what = f"training {recipe.algo} for {recipe.env_steps:,} steps"
        if not recipe.trains:
            what = "planning with its model" if recipe.script is None else f"script {recipe.script}"
        note(f"{env_id}: {what}")
        try:
            train_expert(
                env_id,
                card,
                target,
                command=typed_command(),
                progress=lambda step, mean: note(f"  {step:>9,} steps  mean return {mean:.2f}"),
                device=device,
            )
        except RunStoppedError:
            note("stopped; the same command resumes from a checkpoint")
            raise typer.Exit(130) from None
        rows.append(_measured(env_id, card, target / recipe.repo, episodes))
    if json:
        print_json(rows)
    if any(row["too_weak"] for row in rows):
        raise typer.Exit(1)


def _measured(
    env_id: str, card: EnvironmentCard, directory: Path, episodes: int
) -> dict[str, object]:
    """Measures an expert, and writes its card."""
    from imitbench.experts import measurement
    from imitbench.experts.training import write_expert_card
    from imitbench.policies.storage import load_policy
    from imitbench.records.runs import EnvironmentSpec

    measured = measurement.measure(
        EnvironmentSpec.of_card(env_id, card),
        load_policy(directory),
        episodes=episodes,
        deterministic=card.demos.deterministic,
        seed=measurement.REFERENCE_SEED,
    )
    measurement.write_measurement(directory, card, measured)
    write_expert_card(env_id, card, directory)
    returns = measured.episodes.returns
    ended = measured.endings(card)["termination_rate"]
    weak = card.expert_in(env_id).why_too_weak(float(returns.mean()), ended)
    note(f"{directory}: return {returns.mean():.2f} ± {returns.std():.2f}")
    if weak is not None:
        note(f"{directory}: too weak for its card: {weak}")
    return {
        "env": env_id,
        "directory": str(directory),
        "env_steps": card.expert_in(env_id).env_steps,
        "mean_return": float(returns.mean()),
        "std_return": float(returns.std()),
        "episodes": len(returns),
        "too_weak": weak,
    }


Expert = Annotated[
    str,
    argument(
        "DIR_OR_REPO", "Folder, zip, bundled expert, or repository owner/name.", completion.experts
    ),
]
EnvId = Annotated[str, option("--env", "Environment id.", "ID", completion.environments)]
Revision = Annotated[
    str | None, option("--revision", "Commit, branch or tag of a repository.", "REV")
]
Trust = Annotated[
    bool, option("--trust", "Unpickle files if necessary: this executes code in the file.")
]


@app.command("convert")
def convert(
    source: Annotated[str, argument("IN", "Zip, folder, or repository owner/name.")],
    target: Annotated[Path, argument("OUT", "Folder to write.")],
    env: Annotated[
        str | None, option("--env", "Environment that the policy must fit [from the zip].", "ID")
    ] = None,
    suite: options.SuiteOfEnv = None,
    revision: Revision = None,
    trust: Trust = False,
    json: options.Json = False,
) -> None:
    """Write an expert's policy without pickle, in the layout of bundled experts.

    Statistics of VecNormalize and a time feature become part of the policy.

    Example: imitbench experts convert downloads/ppo-Pendulum-v1 experts/ppo-Pendulum-v1
    """
    from imitbench.experts import lookup
    from imitbench.experts.conversion import convert_expert
    from imitbench.experts.lookup import locate_expert

    located = locate_expert(source, revision, make_notifier())
    start_torch()
    converted = convert_expert(
        located.path,
        target,
        environment=lookup.find_environment_if_named(env, suite),
        origin=located.origin,
        trust=trust,
    )
    published = converted.published
    if json:
        print_json(
            {
                "directory": str(converted.directory),
                "policy_class": converted.policy_class,
                "includes": converted.folded,
                "published_mean_return": published.mean if published else None,
            }
        )
        return
    folded = "".join(f", with {what}" for what in converted.folded)
    typer.echo(f"{converted.directory}: {converted.policy_class}{folded}")
    if published is not None:
        note(
            f"published mean return {published.mean:.2f}; check it with "
            f"`imitbench experts eval {converted.directory} --env {env or 'ID'}`"
        )


@app.command("eval")
def evaluate(
    expert: Expert,
    env: EnvId,
    suite: options.SuiteOfEnv = None,
    episodes: Annotated[int, option("--episodes", "Number of episodes.", min=1)] = 50,
    deterministic: Annotated[
        bool | None,
        option(
            "--deterministic/--stochastic",
            "Take the most likely action, or sample [as published, else sample].",
        ),
    ] = None,
    seed: Annotated[int, option("--seed", "Seed of the evaluation.", min=0)] = 0,
    revision: Revision = None,
    trust: Trust = False,
    json: options.Json = False,
) -> None:
    """Measure an expert's return, and compare it with the one on its card.

    Warns where the two are more than 2 standard errors apart. An expert of another version of the
    environment, such as sb3/sac-Hopper-v3 on Hopper-v5, is measured if its spaces agree.

    Example: imitbench experts eval ppo-seals-CartPole-v0 --env seals/CartPole-v0
    """
    from imitbench.experts import lookup, measurement
    from imitbench.experts.lookup import locate_expert
    from imitbench.hub.reported_results import read_reported_return
    from imitbench.policies.expert import load_expert_policy
    from imitbench.policies.expert_folder import open_expert_folder
    from imitbench.untrusted import gate

    located = locate_expert(expert, revision, make_notifier())
    start_torch()
    found = open_expert_folder(located.path)
    spec = measurement.with_own_arguments(lookup.find_environment(env, suite), found)
    spaces = measurement.spaces_of(spec)
    policy = gate.checked(
        lambda: load_expert_policy(found, spaces, trust=trust), located.path, trusted=trust
    )
    published = read_reported_return(found.folder)
    if deterministic is None:
        deterministic = bool(published and published.deterministic)
    with measurement.check_arguments_accepted(spec):
        measured = measurement.measure(
            spec, policy, episodes=episodes, deterministic=deterministic, seed=seed
        )
    returns = measured.episodes.returns
    version = measurement.other_version(found, spec.gym_id)
    compared = None
    if published is not None and version is None:
        compared = measurement.compare_with_published(returns, deterministic, published)
    if json:
        print_json(
            {
                "mean_return": float(returns.mean()),
                "std_return": float(returns.std()),
                "episodes": len(returns),
                "deterministic": deterministic,
                "published": _as_json(published, compared),
                **({"other_version": version} if version else {}),
            }
        )
    else:
        acting = "deterministic" if deterministic else "stochastic"
        typer.echo(
            f"return {returns.mean():.2f} ± {returns.std():.2f} "
            f"({len(returns)} episodes, {acting} policy)"
        )
    if version is not None and not json:
        stated = "" if published is None else f" published {published.mean:.2f};"
        note(
            f"trained on {version}, measured on {spec.gym_id}:{stated} returns of versions differ, "
            "so they are not compared"
        )
    if published is not None and compared is not None:
        message = _verdict(published, compared)
        if compared.agrees is False:
            note(f"warning: {message}")
        elif not json:
            note(message)


def _verdict(published: ReportedReturn, compared: MeasurementComparison) -> str:
    spread = "" if published.std is None else f" ± {published.std:.2f}"
    stated = f"published {published.mean:.2f}{spread} ({published.source})"
    if compared.agrees is None:
        option = "--deterministic" if published.deterministic else "--stochastic"
        return f"{stated} is of the other kind of policy; give {option} to compare"
    if compared.distance is None:
        return f"{stated}: {'the same' if compared.agrees else 'differs'}"
    apart = f"{abs(compared.distance):.1f} standard errors apart"
    return f"{stated}: {'agrees' if compared.agrees else 'does not agree'}, {apart}"


def _as_json(
    published: ReportedReturn | None, compared: MeasurementComparison | None
) -> dict[str, Any] | None:
    if published is None:
        return None
    stated = {
        "mean_return": published.mean,
        "std_return": published.std,
        "episodes": published.episodes,
        "deterministic": published.deterministic,
        "file": published.source,
    }
    if compared is None:  # of another version
        return stated
    return {
        **stated,
        "difference": compared.difference,
        "standard_error": compared.standard_error,
        "standard_errors_apart": None if compared.distance is None else abs(compared.distance),
        "agrees": compared.agrees,
    }
