"""`imitbench experts`: list and train experts, convert and evaluate those of others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from imitbench.cli import expert_files, options
from imitbench.cli.pull import pull_experts
from imitbench.cli.push import push_experts

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="List, train, convert and evaluate experts."
)
app.command("convert")(expert_files.convert)
app.command("eval")(expert_files.evaluate)
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
    from imitbench.cards.catalog import suite_names
    from imitbench.cards.plugins import find_suite
    from imitbench.cli.output import print_json, print_table

    rows = []
    for found in map(find_suite, [suite] if suite else suite_names()):
        for env_id, card in found.environments.items():
            measured = card.references.expert if card.references else None
            rows.append(
                {
                    "suite": found.name,
                    "env": env_id,
                    "repo": card.expert.repo,
                    "env_steps": card.expert.env_steps,
                    "mean_return": measured.mean if measured else None,
                    "std_return": measured.std if measured else None,
                    "episodes": measured.episodes if measured else None,
                }
            )
    if json:
        print_json(rows)
    else:
        print_table(
            ["suite", "environment", "expert", "steps", "return", "std", "episodes"],
            [list(row.values()) for row in rows],
        )


@app.command("train")
def train(
    suite: options.Suite,
    env: options.Env = None,
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="DIR", help="Folder of experts [trained/SUITE/experts]."),
    ] = None,
    episodes: Annotated[int, typer.Option("--episodes", min=1, help="To measure it.")] = 100,
    steps: Annotated[
        int | None, typer.Option("--steps", min=1, help="Training steps [as on the card].")
    ] = None,
    json: options.Json = False,
) -> None:
    """Train a suite's experts by the recipes on its card, and measure them.

    Example: imitbench experts train --suite classic --env 'seals/CartPole-v0'
    """
    from imitbench.cards.catalog import select_environments
    from imitbench.cards.plugins import find_suite
    from imitbench.cli.output import note, print_json
    from imitbench.cli.provenance import typed_command

    suite_card = find_suite(suite)
    environments = select_environments(suite_card, env)

    # Training libraries take seconds to load: only once the request is known to be good.
    from imitbench.bench.spec import environment_spec
    from imitbench.experts import measurement
    from imitbench.experts.expert_card import write_expert_card
    from imitbench.experts.training import train_expert
    from imitbench.policies.storage import load_policy
    from imitbench.util.torch_startup import use_one_thread

    use_one_thread()
    target = to or Path("trained") / suite_card.name / "experts"
    rows = []
    for env_id, card in environments.items():
        planned = card.expert.algo == "exact"
        if steps is not None and not planned:
            card = card.model_copy(
                update={"expert": card.expert.model_copy(update={"env_steps": steps})}
            )
        what = f"training {card.expert.algo} for {card.expert.env_steps:,} steps"
        note(f"{env_id}: {'planning with its model' if planned else what}")
        train_expert(
            env_id,
            card,
            target,
            command=typed_command(),
            progress=lambda step, mean: note(f"  {step:>9,} steps  mean return {mean:.2f}"),
        )
        directory = target / card.expert.repo
        measured = measurement.measure(
            environment_spec(env_id, card),
            load_policy(directory),
            episodes=episodes,
            deterministic=False,
            seed=measurement.REFERENCE_SEED,
        )
        measurement.write_measurement(directory, measured)
        write_expert_card(env_id, card, directory)
        returns = measured.episodes.returns
        note(f"{directory}: return {returns.mean():.2f} ± {returns.std():.2f}")
        rows.append(
            {
                "env": env_id,
                "directory": str(directory),
                "env_steps": card.expert.env_steps,
                "mean_return": float(returns.mean()),
                "std_return": float(returns.std()),
                "episodes": len(returns),
            }
        )
    if json:
        print_json(rows)
