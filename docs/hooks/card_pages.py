"""Pages generated from the cards of algorithms and suites."""

from __future__ import annotations

from imitbench.cards.algorithm import AlgorithmCard
from imitbench.cards.catalog import algorithm_names, load_algorithm, load_suite, suite_names
from imitbench.cards.suite import EnvironmentCard, Measurement, SuiteCard

ROLES = {
    "method": "",
    "reference": "A reference: it trains on the true reward and shows what methods could reach.",
    "control": "A control: it uses no demonstrations, and shows what an environment gives away.",
    "anchor": "A reference policy: it defines the score 0 or 1.",
}


def algorithms_page() -> str:
    """Returns Markdown with every bundled algorithm and its hyper-parameters."""
    cards = sorted(
        map(load_algorithm, algorithm_names()), key=lambda card: list(ROLES).index(card.role)
    )
    return "\n".join(
        [
            "# Algorithms",
            "",
            "Generated from the cards `algorithms/<name>/card.yaml`; `imitbench algos NAME` prints",
            "the same. `--set NAME=VALUE` changes a hyper-parameter.",
            "",
            *map(_algorithm, cards),
        ]
    )


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


def _algorithm(card: AlgorithmCard) -> str:
    lines = [
        f"## {card.name}",
        "",
        f"**{card.title}.** {card.summary} {ROLES[card.role]}".strip(),
        "",
    ]
    if card.paper is not None:
        paper = card.paper
        lines += [f"[{paper.title}]({paper.url}), {paper.authors}, {paper.year}.", ""]
    lines += [
        f"- Needs: {', '.join(_needs(card))}",
        f"- Action spaces: {', '.join(card.needs.action_spaces)}",
    ]
    lines += [
        f"- Budget unit: {card.budget_unit}",
        f"- Implementation: `{card.implementation}`",
        "",
    ]
    if card.hyperparameters:
        lines += ["| hyper-parameter | type | default | accepted | meaning |"]
        lines += ["| --- | --- | --- | --- | --- |"]
    for name, value in card.hyperparameters.items():
        bounds = [f"at least {value.min:g}"] if value.min is not None else []
        bounds += [f"at most {value.max:g}"] if value.max is not None else []
        accepted = ", ".join(value.choices or bounds)
        kind = f"{value.type} or null" if value.optional else value.type
        lines.append(
            f"| `{name}` | {kind} | `{value.default}` | {accepted} | {_cell(value.help)} |"
        )
    return "\n".join([*lines, ""])


def _needs(card: AlgorithmCard) -> list[str]:
    needs = {
        "demonstrations": card.needs.demos,
        "the expert itself": card.needs.expert,
        "the true reward": card.needs.true_reward,
        "a tabular environment": card.needs.tabular,
        "episodes of one length": card.needs.fixed_horizon,
    }
    return [name for name, needed in needs.items() if needed] or ["nothing"]


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
        f"| `{name}` | {card.action_space.replace('_', ' ')} | {length} | {_return(random)} "
        f"| {_return(expert)} | {card.demos.trajectories} |"
    )


def _return(measured: Measurement | None) -> str:
    return "not measured" if measured is None else f"{measured.mean:.2f} ± {measured.std:.2f}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
