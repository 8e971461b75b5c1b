"""What the board says about a row, in every format alike."""

from __future__ import annotations

from imitbench.report import text
from imitbench.report.leaderboard.model import BoardRow
from imitbench.stats.intervals import Interval

OWN = "own runs"
UNTOLD = "not told"


def submitter_text(row: BoardRow) -> str:
    """Who submitted a row, or where else it comes from."""
    if row.imported is not None:
        return row.imported.said
    return ", ".join(name or OWN for name in row.submitters) or "the suite"


def seeds(row: BoardRow) -> str:
    """Seeds per environment; imported means do not say how many are behind them."""
    return UNTOLD if _is_means(row) else text.seeds(row.result)


def interval(value: Interval | None, row: BoardRow) -> str:
    """A point estimate with its interval; imported means have none."""
    if value is not None and _is_means(row):
        return text.score(value.point)
    return text.interval(value, row.result)


def _is_means(row: BoardRow) -> bool:
    return row.imported is not None and all(run.seed is None for run in row.imported.runs)
