"""Tables of claims: figures of papers beside own results, and what the comparison says."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from imitbench.published.claim_outcomes import (
    CLAIM_VERDICTS,
    LEVEL,
    MARGIN,
    ComparedClaim,
    OwnOutcome,
)
from imitbench.published.claims import Claim
from imitbench.records.bundled_cards import bundled_algorithm, bundled_suite
from imitbench.report import text
from imitbench.report.model import Cell, Column, Table
from imitbench.stats.bootstrap import Interval

COLUMNS = (
    Column("#", "id"),
    Column("Source", "name"),
    Column("Their task", "text"),
    Column("Our task", "text", rank=3),
    Column("Their point", "text", rank=6),
    Column("Verdict", "text"),
    Column("Their return / expert's", rank=7),
    Column("Their share"),
    Column("Their score", rank=4),
    Column("Our share", "interval"),
    Column("Our score", "interval", rank=5),
    Column("Our best point", rank=8),
    Column("Failed seeds", rank=2),
)

RULE = (
    f"Reproduced: the {LEVEL:.0%} interval of our share lies within {MARGIN:g} of the paper's; not "
    "reproduced: it lies wholly outside; undecided: neither. Scores decide where a share is "
    "unknown. Not comparable: another task, expert, budget or number of demonstrations, or the "
    "best point of a curve."
)


def claims_tables(compared: Sequence[ComparedClaim]) -> dict[str, Table]:
    """Returns a table of the claims about each algorithm, by its name."""
    by_algorithm: dict[str, list[ComparedClaim]] = defaultdict(list)
    for comparison in compared:
        by_algorithm[comparison.claim.algo].append(comparison)
    return {
        algo: Table(_title(algo), COLUMNS, tuple(_row(comparison) for comparison in rows), names=6)
        for algo, rows in sorted(by_algorithm.items())
    }


def claims_summary(compared: Sequence[ComparedClaim]) -> str:
    """Returns a sentence on how many claims there are, and what came out."""
    papers = len({comparison.claim.paper for comparison in compared})
    found = Counter(comparison.verdict for comparison in compared)
    parts = [f"{found[verdict]} {verdict}" for verdict in CLAIM_VERDICTS if found[verdict]]
    sources = f"{papers} source{'s' * (papers != 1)}"
    return f"{len(compared)} claims from {sources}: {', '.join(parts)}."


def verdict_text(comparison: ComparedClaim) -> str:
    """Returns a verdict with its reason."""
    return (
        f"{comparison.verdict} ({comparison.reason})" if comparison.reason else comparison.verdict
    )


def interval_text(value: Interval | None) -> str:
    """Returns a mean with its interval; without one for a single seed."""
    if value is None:
        return text.NOTHING
    ends = f" [{text.score(value.low)}, {text.score(value.high)}]" if value.known else ""
    return f"{text.score(value.point)}{ends}"


def _title(algo: str) -> str:
    card = bundled_algorithm(algo)
    assert card is not None  # the reader of claims checks it
    return card.title


def _row(comparison: ComparedClaim) -> tuple[Cell, ...]:
    claim = comparison.claim
    return (
        Cell(str(comparison.number), comparison.number),
        Cell(f"{claim.paper} {claim.year}, {claim.figure}", href=claim.url),
        Cell(_their_task(claim)),
        Cell(_own_task(claim)),
        Cell(claim.point),
        Cell(verdict_text(comparison)),
        Cell(_their_return(claim), claim.claimed_return),
        Cell(text.score(claim.share), claim.share),
        Cell(text.score(claim.score), claim.score),
        *_own_cells(comparison.own),
    )


def _own_cells(own: OwnOutcome | None) -> tuple[Cell, ...]:
    if own is None:
        return (Cell(""),) * 4
    return (
        Cell(interval_text(own.share), None if own.share is None else own.share.point),
        Cell(interval_text(own.score), own.score.point),
        Cell(text.score(own.best_score), own.best_score),
        Cell(f"{own.failed} of {own.seeds}", own.failed),
    )


def _their_task(claim: Claim) -> str:
    parts = [claim.task]
    if claim.demos is not None:
        parts.append(_demonstrations(claim.demos))
    if claim.env_steps is not None:
        parts.append(f"{claim.env_steps:,} steps")
    if claim.seeds is not None:
        parts.append(f"{claim.seeds} seed{'s' * (claim.seeds != 1)}")
    return ", ".join(parts)


def _their_return(claim: Claim) -> str:
    """Returns the figure with as many digits as the source states."""
    numbers = (claim.claimed_return, claim.expert_return)
    if numbers == (None, None):
        return text.NOTHING
    return " / ".join(text.NOTHING if number is None else f"{number:.12g}" for number in numbers)


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
    return ", ".join(parts)


def _demonstrations(count: int | str) -> str:
    return f"{count} demonstration{'s' * (count != 1)}"
