"""The reference page of suites, generated from their cards."""

from __future__ import annotations

from imitbench.cards.catalog import load_suite, suite_names
from imitbench.cards.demonstrations import Measurement
from imitbench.cards.suite import EnvironmentCard, SuiteCard
from imitbench.experts.listing import list_experts


def suites_page() -> str:
    """Returns Markdown with every bundled suite, its environments, references and budgets."""
    return "\n".join(
        [
            "# Suites",
            "",
            "Generated from the cards `suites/<name>/suite.yaml`; `imitbench suites show NAME`",
            "prints most of it, and the sets for mixtures.",
            "",
            *(_suite(load_suite(name)) for name in suite_names()),
        ]
    )


def _suite(card: SuiteCard) -> str:
    lines = [f"## {card.name}", "", f"**{card.title}.** {card.description}", ""]
    lines += [f"Version of the references: {card.version}."]
    if card.controls:
        lines += [f"Controls: {', '.join(f'`{name}`' for name in card.controls)}."]
    regimes = [f"`{name}` ({regime})" for name, regime in card.all_regimes.items()]
    lines += [f"Regimes: {', '.join(regimes)}; by default `{card.default_regime}`."]
    lines += ["", "| environment | actions | episode | random (0) | expert (1) | demonstrations |"]
    lines += ["| --- | --- | --- | ---: | ---: | ---: |"]
    lines += [_environment(name, each) for name, each in card.environments.items()]
    lines += [
        "",
        "| environment | budget | environment steps | with a replay buffer | batches |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    for name, each in card.environments.items():
        for budget, amounts in each.budgets.items():
            steps = amounts.env_steps, amounts.in_unit("replay_steps"), amounts.batches
            lines.append(f"| `{name}` | {budget} | {' | '.join(f'{each:,}' for each in steps)} |")
    return "\n".join([*lines, *_experts(card), ""])


def _experts(card: SuiteCard) -> list[str]:
    """Returns a table of the trained experts; returns and episodes are of most likely actions."""
    rows = [
        f"| `{row.env}` | {row.env_steps:,} | {row.core_hours} | {_number(row.likely_return, 2)} "
        f"| {_number(row.termination_rate, 3)} | {_number(row.mean_length, 1)} | `{row.command}` |"
        for row in list_experts(card)
        if row.env_steps and row.command
    ]
    head = "| expert | steps | core hours | return | share ended early | length | command |"
    line = "| --- | ---: | ---: | ---: | ---: | ---: | --- |"
    return ["", head, line, *rows] if rows else []


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _environment(name: str, card: EnvironmentCard) -> str:
    references = card.references
    random, expert = (references.random, references.expert) if references else (None, None)
    length = f"{'' if card.horizon == 'fixed' else 'up to '}{card.max_episode_steps} steps"
    return (
        f"| `{name}`{', tests rewards' * card.transfer} "
        f"| {card.action_space.replace('_', ' ')} | {length} | {_return(random)} "
        f"| {_return(expert) if card.expert else 'no expert'} | {card.demos.trajectories} |"
    )


def _return(measured: Measurement | None) -> str:
    return "not measured" if measured is None else f"{measured.mean:.2f} ± {measured.std:.2f}"
