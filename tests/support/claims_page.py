"""The tables of claims in the documents: figures of papers beside own results, as Markdown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from imitbench.cards.catalog import algorithm_names
from imitbench.records.bundled_cards import bundled_algorithm, bundled_suite
from imitbench.records.published import PublishedRun
from imitbench.report import text
from imitbench.report.markdown import escape, table
from support.claims import Claim, OwnOutcome, own_outcomes

NOT_RUN = "not run yet"
_HEADER = (
    "#", "Source", "Their task", "Our task", "Their point", "Their return / expert's",
    "Their share", "Their score", "Our share", "Our score", "Our best point", "Failed seeds",
)  # fmt: skip


def render_claims(claims: Sequence[Claim], runs: Iterable[PublishedRun]) -> str:
    """Writes a table and the commands for each algorithm, and the algorithms without a claim.

    Args:
        claims: The claims.
        runs: All published runs.

    Returns:
        GitHub-flavoured Markdown without a newline at the end.
    """
    outcomes = own_outcomes(claims, runs)
    by_algorithm: dict[str, list[tuple[Claim, OwnOutcome | None]]] = defaultdict(list)
    for claim, outcome in zip(claims, outcomes, strict=True):
        by_algorithm[claim.algo].append((claim, outcome))
    papers = len({claim.paper for claim in claims})
    known = sum(outcome is not None for outcome in outcomes)
    blocks = [f"{len(claims)} claims from {papers} sources; {known} have own results beside them."]
    first = 1
    for algo in sorted(by_algorithm):
        rows = by_algorithm[algo]
        blocks += _section(algo, rows, first)
        first += len(rows)
    return "\n\n".join([*blocks, *_without(by_algorithm)])


def _section(algo: str, rows: Sequence[tuple[Claim, OwnOutcome | None]], first: int) -> list[str]:
    card = bundled_algorithm(algo)
    assert card is not None  # the reader of claims checks it
    numbered = list(enumerate(rows, start=first))
    notes: dict[str, list[str]] = defaultdict(list)
    for number, (claim, _) in numbered:
        if claim.note:
            notes[claim.note].append(str(number))
    listed = [f"- {', '.join(each)}: {escape(note)}." for note, each in notes.items()]
    return [
        f"### {escape(card.title)}",
        table(_HEADER, [_row(number, *row) for number, row in numbered], names=5),
        *(["\n".join(listed)] if listed else []),
        _commands(numbered),
    ]


def _row(number: int, claim: Claim, own: OwnOutcome | None) -> tuple[str, ...]:
    ours = (
        (NOT_RUN, "", "", "")
        if own is None
        else (
            text.score(own.share),
            text.score(own.score),
            text.score(own.best_score),
            f"{own.failed} of {own.seeds}",
        )
    )
    return (
        str(number),
        f"[{escape(claim.paper)} {claim.year}]({claim.url}), {escape(claim.figure)}",
        _their_task(claim),
        _own_task(claim),
        claim.point,
        _their_return(claim),
        text.score(claim.share),
        text.score(claim.score),
        *ours,
    )


def _their_task(claim: Claim) -> str:
    parts = [claim.task]
    if claim.demos is not None:
        parts.append(_demonstrations(claim.demos))
    if claim.env_steps is not None:
        parts.append(f"{claim.env_steps:,} steps")
    if claim.seeds is not None:
        parts.append(f"{claim.seeds} seed{'s' * (claim.seeds != 1)}")
    return escape(", ".join(parts))


def _their_return(claim: Claim) -> str:
    """Returns the figure with as many digits as the source states."""
    numbers = (claim.claimed_return, claim.expert_return)
    if numbers == (None, None):
        return text.NOTHING
    return " / ".join(text.NOTHING if each is None else f"{each:.12g}" for each in numbers)


def _own_task(claim: Claim) -> str:
    card, suite = bundled_algorithm(claim.algo), bundled_suite(claim.suite)
    assert card is not None and suite is not None
    parts = [claim.env]
    if claim.n_demos is not None:
        parts.append(_demonstrations(claim.n_demos))
    if claim.regime is not None:
        parts.append(f"regime {claim.regime} ({suite.regime(claim.regime)})")
    unit = "batches" if card.budget_unit == "batches" else "steps"
    amount = suite.environments[claim.env].amount(claim.budget, card.budget_unit)
    parts.append(f"{amount:,} {unit} ({claim.budget})")
    if claim.config != "default":
        parts.append(claim.config)
    return escape(", ".join(parts))


def _demonstrations(count: int | str) -> str:
    return f"{count} demonstration{'s' * (count != 1)}"


def _commands(numbered: Sequence[tuple[int, tuple[Claim, OwnOutcome | None]]]) -> str:
    numbers: dict[str, list[str]] = defaultdict(list)
    for number, (claim, own) in numbered:
        command = (
            claim.command(seeds=own.seeds, pack=own.pack, device=own.device)
            if own
            else claim.command()
        )
        numbers[command].append(str(number))
    lines = [f"{command}  # {', '.join(each)}" for command, each in numbers.items()]
    return "\n".join(["```text", *lines, "```"])


def _without(named: Iterable[str]) -> list[str]:
    """Returns a paragraph on the methods of papers that no claim is about."""
    cards = [card for name in algorithm_names() if (card := bundled_algorithm(name)) is not None]
    others = [card for card in cards if card.role == "method" and card.name not in set(named)]
    if not others:
        return []
    names = ", ".join(f"`{card.name}`" for card in others)
    return ["### Methods without a claim", f"No figure was found as a number for {names}."]
