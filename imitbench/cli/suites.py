"""`imitbench suites`: lists, shows, measures and pins suites."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from imitbench.cli import completion, options
from imitbench.cli.options import argument, option
from imitbench.cli.output import (
    TextColumn,
    count,
    make_notifier,
    note,
    print_json,
    print_table,
    print_text,
    typed_command,
)
from imitbench.untrusted.messages import error_line
from imitbench.util.torch_startup import start_torch

if TYPE_CHECKING:
    from imitbench.cards.suite import EnvironmentCard, References, SuiteCard

app = typer.Typer(rich_markup_mode=None)
Name = Annotated[str, argument("NAME", "Name of a suite, or its folder.", completion.suites)]


@app.callback(invoke_without_command=True)
def suites(context: typer.Context, json: options.Json = False) -> None:
    """List, show, measure or pin suites; without a command, list them.

    Example: imitbench suites show classic
    """
    from imitbench.cards.catalog import load_suite, suite_names

    if not options.is_alone(context):
        return
    cards = [load_suite(name) for name in suite_names()]
    if json:
        print_json([card.model_dump(mode="json") for card in cards])
    else:
        print_table(
            [
                "suite",
                "environments",
                TextColumn("regimes", rank=1),
                TextColumn("title", below=True),
            ],
            [[card.name, _number(card), ", ".join(card.all_regimes), card.title] for card in cards],
        )


@app.command("show")
def show(name: Name, json: options.Json = False) -> None:
    """Show a suite's environments, demonstrations and references.

    Example: imitbench suites show classic
    """
    from imitbench.cards.plugins import find_suite

    card = find_suite(name)
    if json:
        print_json(card.model_dump(mode="json"))
        return
    title = f"{error_line(card.title)} (references version {card.version})"
    print_text(f"{title}\n{error_line(card.description, 2000)}")
    print_table(
        [
            "environment",
            TextColumn("horizon", rank=3),
            TextColumn("demos", rank=2),
            "random",
            "expert",
            TextColumn("most likely", rank=5),
            TextColumn("default env steps", rank=1),
            TextColumn("batches", rank=4),
        ],
        [
            [
                error_line(env_id),
                f"{environment.horizon} {environment.max_episode_steps}",
                environment.demos.trajectories,
                environment.scale.random if environment.scale else None,
                _score_one(environment),
                _likely(environment.references)[0],
                environment.budgets["default"].env_steps,
                environment.budgets["default"].batches,
            ]
            for env_id, environment in card.environments.items()
        ],
    )
    for env_id, environment in card.environments.items():
        if environment.variant_of is not None:
            print_text(error_line(f"{env_id} is {_variant(environment)}.", 600))
    for env_id in card.environments:
        if tests := card.tested_in(env_id):
            print_text(
                error_line(f"Rewards learned in {env_id} are tested in {', '.join(tests)}.", 600)
            )
    for env_id, environment in card.environments.items():
        if environment.evaluation_id is not None:
            print_text(error_line(f"{env_id} is evaluated on {environment.evaluation_id}."))
    for env_id, environment in card.environments.items():
        if environment.probes is not None:
            print_text(error_line(f"{env_id} probes: {environment.probes}"))
    for env_id, environment in card.environments.items():
        if environment.success is not None:
            print_text(error_line(f"{env_id} success: {environment.success}"))
    if card.controls:
        print_text(f"controls: {', '.join(card.controls)}")
    told = [
        f"{error_line(name)}{' (default)' * (name == card.default_regime)}: {regime}"
        for name, regime in card.all_regimes.items()
    ]
    print_text(f"regimes: {'; '.join(told)}")
    if sets := [
        [
            error_line(env_id),
            error_line(set_name),
            policy_set.policy,
            policy_set.trajectories,
            policy_set.returns.mean if policy_set.returns else None,
            "yes" if policy_set.bundled else "collected at the first run",
        ]
        for env_id, environment in card.environments.items()
        for set_name, policy_set in environment.sets.items()
    ]:
        columns = ["environment", "set for mixtures", "policy", "trajectories", "mean return"]
        print_table([*columns, TextColumn("bundled", rank=1)], sets)


@app.command("measure")
def measure(
    name: Name,
    env: options.Env = [],  # noqa: B006 (typer copies it)
    episodes: Annotated[
        int, option("--episodes", "Number of episodes of each reference.", min=1)
    ] = 1000,
    likely: Annotated[
        bool,
        option("--likely", "Only measure the expert's most likely actions; keep all else."),
    ] = False,
    card_file: Annotated[
        Path | None, option("--card", "Suite card to update [only print].", "FILE")
    ] = None,
    json: options.Json = False,
) -> None:
    """Measure the returns of random actions and of the expert: the scores 0 and 1.

    The expert is measured with sampled and with most likely actions. `--likely` adds the latter to
    a card that lacks it; scores and the card's version stay the same.

    Example: imitbench suites measure classic --card suites/classic/suite.yaml
    """
    from imitbench.bench.environments import check_variants
    from imitbench.cards.catalog import read_card_of_suite, select_environments
    from imitbench.cards.plugins import find_suite
    from imitbench.experts.measurement import (
        measure_likely,
        measure_references,
        update_references,
    )

    start_torch()
    found = {}
    speeds = {}
    suite = find_suite(name)
    environments = select_environments(suite, env)
    if card_file is not None:  # checked first, as measuring takes hours
        read_card_of_suite(card_file, suite.name, environments)
    check_variants(suite, environments)
    for env_id, card in environments.items():
        folder, command = suite.origin.folder, typed_command()
        if likely:
            found[env_id] = measure_likely(env_id, card, folder, episodes=episodes, command=command)
            continue
        found[env_id], speeds[env_id] = measure_references(
            env_id, card, folder, episodes=episodes, command=command
        )
    if card_file is not None:
        update_references(card_file, found, speeds)
        note(f"updated {card_file}")
    if json:
        print_json({env_id: both.model_dump(mode="json") for env_id, both in found.items()})
        return
    print_table(
        [
            "environment",
            "random",
            TextColumn("std", rank=2),
            "expert",
            TextColumn("std", rank=1),
            TextColumn("most likely", rank=4),
            TextColumn("std", rank=4),
            TextColumn("episodes", rank=3),
        ],
        [
            [e, r.random.mean, r.random.std, *_expert(r), *_likely(r), episodes]
            for e, r in found.items()
        ],
    )


def _number(card: SuiteCard) -> int | str:
    """Returns how many environments a suite has, and how many only test learned rewards."""
    tests = len(card.environments) - len(card.ordinary)
    return f"{len(card.ordinary)} and {count(tests, 'test')}" if tests else len(card.ordinary)


def _variant(card: EnvironmentCard) -> str:
    """Returns what a variant changes, in words."""
    given = [f"{name}={value}" for name, value in card.kwargs.items()]
    changes = [*([f"arguments {' '.join(given)}"] if given else []), *map(str, card.wrappers)]
    when = ", in evaluations only" if card.evaluation_only else ""
    return f"{card.variant_of} with {' and '.join(changes) or 'other arguments'}{when}"


def _score_one(card: EnvironmentCard) -> float | str | None:
    """Returns the return of score 1, and whose it is if not an expert's."""
    scale = card.scale
    if scale is None or scale.score_one == "expert":
        return scale and scale.one
    whose = "of the demonstrations" if scale.score_one == "demonstrations" else "on the card"
    return f"{scale.one:.2f} {whose}"


def _expert(found: References) -> tuple[float | str | None, float | None]:
    """Returns mean and spread of the expert or, marked, of the demonstrators."""
    if found.expert is not None:
        return found.expert.mean, found.expert.std
    if found.demonstrations is not None:
        return f"{found.demonstrations.mean:.2f} of the demonstrations", found.demonstrations.std
    return None, None


def _likely(found: References | None) -> tuple[float | None, float | None]:
    """Returns mean and spread of the expert's most likely actions."""
    likely = found and found.expert_likely
    return (likely.mean, likely.std) if likely else (None, None)


@app.command("pin")
def pin(
    name: Annotated[
        str | None, argument("NAME", "Name of a suite [all].", completion.suites)
    ] = None,
    card_file: Annotated[
        Path | None, option("--card", "Suite card to update [the suite's own].", "FILE")
    ] = None,
    newest: Annotated[
        bool, option("--newest", "Also update commits that are pinned already.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Look up the commits of a suite's hub repositories, and write them into its card.

    Example: imitbench suites pin classic --card suites/classic/suite.yaml
    """
    from imitbench.cards.catalog import read_card_of_suite, suite_directory, suite_names
    from imitbench.hub.suite_sources import resolve_commits, suite_sources, write_commits

    if card_file is not None:
        cards = [card_file]
    else:
        cards = [
            suite_directory(suite) / "suite.yaml" for suite in ([name] if name else suite_names())
        ]
    rows = []
    for path in cards:
        card = read_card_of_suite(path, name)
        sources = suite_sources(card.environments)
        wanted = [source for source in sources if newest or source.hub.revision is None]
        found = resolve_commits(wanted, notify=make_notifier())
        if found:
            write_commits(path, found)
            note(f"updated {path}")
        commits = dict(found)
        rows += [
            {
                "suite": card.name,
                "env": source.env_id,
                "kind": source.kind,
                "repo": source.hub.repo,
                "revision": commits.get(source, source.hub.revision),
                "changed": commits.get(source, source.hub.revision) != source.hub.revision,
            }
            for source in sources
        ]
    if json:
        print_json(rows)
    else:
        print_table(
            [
                TextColumn("suite", rank=1, above=True),
                TextColumn("environment", rank=2),
                TextColumn("kind", rank=1),
                "repository",
                "commit",
                "changed",
            ],
            [list({**row, "changed": "yes" if row["changed"] else "no"}.values()) for row in rows],
        )
