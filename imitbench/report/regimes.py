"""Compares methods in several regimes of demonstrations: their scores, and how ranks change."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

from imitbench.report.model import (
    AlgorithmResult,
    RegimeComparison,
    Report,
    Section,
    StatisticsSettings,
)
from imitbench.report.report_tables import regime_tables
from imitbench.report.section_comparison import section_scores
from imitbench.stats.coverage import Table
from imitbench.stats.rank_changes import RankChanges, rank_changes
from imitbench.store.comparability import Conditions


@dataclass(frozen=True)
class RegimeResults:
    """The methods of one regime that learn from demonstrations, by name.

    Attributes:
        name: Name of the regime.
        results: Results with finite scores.
        scores: Scores of the same methods by environment, failed runs counted.
    """

    name: str
    results: Mapping[str, AlgorithmResult]
    scores: Table


def compare_regimes(
    conditions: Conditions,
    regimes: Sequence[RegimeResults],
    method: StatisticsSettings,
    version: str = "",
) -> RegimeComparison | None:
    """Compares methods in regimes that share all else.

    Args:
        conditions: What they share.
        regimes: At least one regime, in the order in which they are shown.
        method: Settings of the statistics; the seed is that of the permutations.
        version: See `RegimeComparison`.

    Returns:
        The comparison; `None` if fewer than two regimes have methods.
    """
    known = [regime for regime in regimes if regime.results]
    if len(known) < 2:
        return None
    names = sorted({name for regime in known for name in regime.results})
    changes = {
        (first, second): rank_changes(known[first].scores, known[second].scores, seed=method.seed)
        for first, second in combinations(range(len(known)), 2)
    }
    return RegimeComparison(
        conditions,
        tuple(regime.name for regime in known),
        {name: tuple(regime.results.get(name) for regime in known) for name in names},
        {pair: found for pair, found in changes.items() if found is not None},
        version,
    )


def with_regimes(report: Report) -> Report:
    """Returns a report with the comparison of its regimes, and the tables of it."""
    families: dict[Conditions, list[Section]] = {}
    for section in report.sections:
        if section.conditions.regime:
            families.setdefault(section.conditions.across_regimes, []).append(section)
    found = []
    for conditions, members in families.items():
        regimes = [_of_section(section, report.method) for section in members]
        comparison = compare_regimes(conditions, regimes, report.method)
        if comparison is not None:
            kinds = frozenset(kind for section in members for kind in section.score_one)
            found.append(replace(comparison, score_one=kinds))
    tables = [table for one in found for table in regime_tables(one, report.method.level)]
    return replace(report, regimes=tuple(found), extra=(*tables, *report.extra))


def _of_section(section: Section, method: StatisticsSettings) -> RegimeResults:
    results = {
        result.algorithm: result
        for result in section.algorithms
        if result.role == "method" and result.kind == "run" and result.iqm is not None
        if result.cost is not None and result.cost.demos is not None
    }
    scores = section_scores(section, method, results, section.acting[0])
    return RegimeResults(section.conditions.regime, results, scores)


def regime_document(comparison: RegimeComparison, level: float) -> dict[str, Any]:
    """Returns a comparison for JSON.

    Args:
        comparison: The comparison.
        level: Confidence level of decisions.

    Returns:
        Texts and numbers, some of which are NaN. `scores` has the IQM of each method by regime, and
        `changes` an entry for each pair of regimes.
    """
    shared = {name: getattr(comparison.conditions, name) for name in ("suite", "budget", "source")}
    return {
        **shared,
        "version": comparison.version or None,
        "regimes": list(comparison.regimes),
        "scores": [
            {"algorithm": name, "regime": regime, **_score(result)}
            for name, results in comparison.results.items()
            for regime, result in zip(comparison.regimes, results, strict=True)
            if result is not None
        ],
        "changes": [
            {
                "regime": comparison.regimes[first],
                "other_regime": comparison.regimes[second],
                **_changes(found, level),
            }
            for (first, second), found in comparison.changes.items()
        ],
    }


def _score(result: AlgorithmResult) -> dict[str, Any]:
    iqm = result.iqm
    assert iqm is not None
    return {
        "score_iqm": iqm.point,
        "score_iqm_low": iqm.low,
        "score_iqm_high": iqm.high,
        "environments": [cell.environment for cell in result.covered],
    }


def _changes(found: RankChanges, level: float) -> dict[str, Any]:
    return {
        "environments": list(found.environments),
        "left_out": list(found.left_out),
        "tau": found.tau,
        "interaction": asdict(found.interaction),
        "p_value": found.p_value,
        "permutations": found.permutations,
        "ranks": [
            {
                "algorithm": one.algorithm,
                "score_iqm": one.scores[0],
                "other_score_iqm": one.scores[1],
                "rank": one.ranks[0],
                "other_rank": one.ranks[1],
                "overtakes": list(found.overtaken_by(one.algorithm, level)),
            }
            for one in found.methods
        ],
        "pairs_in_another_order": [
            {**asdict(change), "p_value": change.p_value} for change in found.changes
        ],
    }


def change_rows(comparison: RegimeComparison) -> list[dict[str, str | int | float | None]]:
    """Returns the rows of `imitbench.report.data_formats.render_csv` on rank changes."""
    shared = {name: getattr(comparison.conditions, name) for name in ("suite", "budget", "source")}
    rows: list[dict[str, str | int | float | None]] = []
    for (first, second), found in comparison.changes.items():
        both = {
            **shared,
            "regime": comparison.regimes[first],
            "other_regime": comparison.regimes[second],
            "environments_covered": len(found.environments),
        }
        tau = found.tau if math.isfinite(found.tau) else None
        interaction = found.interaction.p_value
        rows.append(
            {
                **both,
                "row": "regimes",
                "kendall_tau": tau,
                "p_value": found.p_value,
                "p_interaction": interaction if math.isfinite(interaction) else None,
            }
        )
        rows += [
            {
                **both,
                "row": "rank",
                "algorithm": one.algorithm,
                "rank": one.ranks[0],
                "other_rank": one.ranks[1],
            }
            for one in found.methods
        ]
        rows += [
            {
                **both,
                "row": "order",
                "algorithm": change.behind,
                "baseline": change.ahead,
                "difference": -change.differences[0],
                "other_difference": -change.differences[1],
                "p_value": change.p_value,
            }
            for change in found.changes
        ]
    return rows
