"""Compares the methods of a board's tables that differ in their demonstrations only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from imitbench.report import html_tables
from imitbench.report.html_charts import regime_chart
from imitbench.report.html_markup import Markup, block, tag
from imitbench.report.leaderboard.model import Board, BoardRow, BoardSection
from imitbench.report.leaderboard.standings import is_scored, scores_of, standing
from imitbench.report.model import RegimeComparison, StatisticsSettings
from imitbench.report.regimes import RegimeResults, compare_regimes
from imitbench.report.report_tables import regime_tables
from imitbench.store.comparability import Conditions


def board_regimes(
    parts: Sequence[BoardSection], method: StatisticsSettings
) -> tuple[RegimeComparison, ...]:
    """Compares regimes, of tables with the same suite, budget, source and references.

    A method with other values than its defaults is a method of its own. Of several submitters'
    rows in a table, that with the best tier counts, or else the highest IQM.

    Args:
        parts: All tables.
        method: Settings of the statistics.
    """
    families: dict[tuple[Conditions, str], list[BoardSection]] = {}
    for part in parts:
        conditions = part.section.conditions
        if conditions.regime:
            families.setdefault((conditions.across_regimes, part.version), []).append(part)
    found = []
    for (conditions, version), members in families.items():
        regimes = [_of_table(part, method) for part in members]
        comparison = compare_regimes(conditions, regimes, method, version)
        if comparison is not None:
            kinds = frozenset(kind for part in members for kind in part.section.score_one)
            found.append(replace(comparison, score_one=kinds))
    return tuple(found)


def _of_table(part: BoardSection, method: StatisticsSettings) -> RegimeResults:
    rows: dict[str, BoardRow] = {}
    for row in sorted(part.rows, key=standing):
        if _is_compared(row):
            rows.setdefault(row.said, row)
    return RegimeResults(
        part.section.conditions.regime,
        {name: replace(row.result, algorithm=name) for name, row in rows.items()},
        {name: scores_of(row, method.failed_runs) for name, row in rows.items()},
    )


def _is_compared(row: BoardRow) -> bool:
    sound = row.checked and not row.refuted and not row.superseded_by
    learns = any(spec.demos is not None for spec in row.specs)
    return row.result.role == "method" and sound and learns and is_scored(row)


def regime_blocks(board: Board, suite: str) -> list[Markup]:
    """Returns a block for each comparison of a suite's regimes: the figure and the tables."""
    colors = {
        row.row.said: row.row.color
        for row in board.rows
        if row.part.section.suite == suite and row.row.color is not None
    }
    shown = [one for one in board.regimes if one.conditions.suite == suite]
    blocks = []
    for number, comparison in enumerate(shown):
        parts = [regime_chart(comparison, colors)]
        for table in regime_tables(comparison, board.method.level):
            title = tag("summary", table.title.removeprefix(f"{comparison.title}, "))
            drawn = html_tables.laid_out(table, colors)
            parts.append(tag("details", title, drawn, class_="variants"))
        heading = f"Score by regime: {comparison.title}"
        blocks.append(block(f"regimes-{number + 1}", heading, *parts))
    return blocks
