"""`imitbench suites`: list, show and measure suites."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from imitbench.cli import options

app = typer.Typer(rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def suites(context: typer.Context, json: options.Json = False) -> None:
    """List the suites; or show or measure one.

    Example: imitbench suites show classic
    """
    from imitbench.cards.catalog import load_suite, suite_names
    from imitbench.cli.output import print_json, print_table

    if context.invoked_subcommand is not None:
        return
    cards = [load_suite(name) for name in suite_names()]
    if json:
        print_json([card.model_dump(mode="json") for card in cards])
    else:
        print_table(
            ["suite", "environments", "title"],
            [[card.name, len(card.environments), card.title] for card in cards],
        )


@app.command("show")
def show(name: Annotated[str, typer.Argument(help="Suite.")], json: options.Json = False) -> None:
    """Show a suite's environments, demonstrations and references.

    Example: imitbench suites show classic
    """
    from imitbench.cards.catalog import load_suite
    from imitbench.cli.output import print_json, print_table

    card = load_suite(name)
    if json:
        print_json(card.model_dump(mode="json"))
        return
    typer.echo(f"{card.title} (references version {card.version})\n{card.description}")
    print_table(
        ["environment", "horizon", "demos", "random", "expert", "default env steps", "batches"],
        [
            [
                env_id,
                f"{each.horizon} {each.max_episode_steps}",
                each.demos.trajectories,
                each.references.random.mean if each.references else None,
                each.references.expert.mean if each.references else None,
                each.budgets["default"].env_steps,
                each.budgets["default"].batches,
            ]
            for env_id, each in card.environments.items()
        ],
    )


@app.command("measure")
def measure(
    name: Annotated[str, typer.Argument(help="Suite.")],
    env: options.Env = None,
    episodes: Annotated[int, typer.Option("--episodes", min=1, help="For each reference.")] = 100,
    card_file: Annotated[
        Path | None,
        typer.Option("--card", metavar="FILE", help="Suite card to update [print only]."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Measure the returns of random actions and of the expert: the scores 0 and 1.

    Example: imitbench suites measure classic --card suites/classic/suite.yaml
    """
    from imitbench.cards.catalog import load_suite, select_environments, suite_directory
    from imitbench.cli.output import note, print_json, print_table
    from imitbench.cli.provenance import typed_command
    from imitbench.experts.measurement import measure_references
    from imitbench.experts.suite_file import update_references
    from imitbench.util.torch_startup import use_one_thread

    use_one_thread()
    found = {}
    speeds = {}
    for env_id, card in select_environments(load_suite(name), env).items():
        found[env_id], speeds[env_id] = measure_references(
            env_id, card, suite_directory(name), episodes=episodes, command=typed_command()
        )
    if card_file is not None:
        update_references(card_file, found, speeds)
        note(f"updated {card_file}")
    if json:
        print_json({env_id: both.model_dump(mode="json") for env_id, both in found.items()})
        return
    print_table(
        ["environment", "random", "std", "expert", "std", "episodes"],
        [
            [e, r.random.mean, r.random.std, r.expert.mean, r.expert.std, r.random.episodes]
            for e, r in found.items()
        ],
    )
