"""The reference page of suites, generated from their cards."""

from __future__ import annotations

from imitbench.cards.catalog import load_suite, suite_names
from imitbench.cards.demonstrations import Measurement
from imitbench.cards.suite import EnvironmentCard, SuiteCard


def suites_page() -> str:
    """Returns Markdown with every bundled suite, its environments, references and budgets."""
    return "\n".join(
        [
            "# Suites",
            "",
            "Generated from the cards `suites/<name>/suite.yaml`; `imitbench suites show NAME`",
            "prints the same.",
            "",
            *(_suite(load_suite(name)) for name in suite_names()),
        ]
    )


def _suite(card: SuiteCard) -> str:
    lines = [f"## {card.name}", "", f"**{card.title}.** {card.description}", ""]
    lines += [f"Version of the references: {card.version}."]
    if card.controls:
        lines += [f"Controls: {', '.join(f'`{name}`' for name in card.controls)}."]
    lines += ["", "| environment | actions | episode | random (0) | expert (1) | demonstrations |"]
    lines += ["| --- | --- | --- | ---: | ---: | ---: |"]
    lines += [_environment(name, each) for name, each in card.environments.items()]
    lines += [
        "",
        "| environment | budget | environment steps | batches |",
        "| --- | --- | ---: | ---: |",
    ]
    for name, each in card.environments.items():
        for budget, amounts in each.budgets.items():
            lines.append(f"| `{name}` | {budget} | {amounts.env_steps:,} | {amounts.batches:,} |")
    return "\n".join([*lines, ""])


def _environment(name: str, card: EnvironmentCard) -> str:
    references = card.references
    random, expert = (references.random, references.expert) if references else (None, None)
    length = f"{'' if card.horizon == 'fixed' else 'up to '}{card.max_episode_steps} steps"
    return (
        f"| `{name}`{', tests rewards' * card.transfer} "
        f"| {card.action_space.replace('_', ' ')} | {length} | {_return(random)} "
        f"| {_return(expert)} | {card.demos.trajectories} |"
    )


def _return(measured: Measurement | None) -> str:
    return "not measured" if measured is None else f"{measured.mean:.2f} ± {measured.std:.2f}"
