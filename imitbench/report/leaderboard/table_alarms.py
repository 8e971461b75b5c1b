"""Finds tables whose numbers say little: saturated ones, and those in which controls score well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from imitbench.report import text
from imitbench.report.leaderboard.model import BoardRow, BoardSection
from imitbench.report.model import StatisticsSettings
from imitbench.report.notes import given_away
from imitbench.stats.significance import mean_interval

MARGIN = 0.05
"""A method is as good as the expert if its mean score is above 1 minus this, with confidence.

About twice the standard error of the mean over 50 episodes of the expert of `seals/Ant-v1`, by its
card (standard deviation 496, 3,115 from random to expert). Smaller shortfalls say little about a
method.
"""
FEWEST = 2
"""Number of methods as good as the expert from which an environment counts as saturated."""


@dataclass(frozen=True)
class TableAlarm:
    """A reason to read a table with care.

    Attributes:
        kind: `saturated`: an environment cannot tell the best methods apart any more; `control`: a
            control that learns nothing scores well.
        environment: Id of the environment; empty for the whole table.
        text: The reason, as a sentence.
    """

    kind: Literal["saturated", "control"]
    environment: str
    text: str


def table_alarms(part: BoardSection, method: StatisticsSettings) -> tuple[TableAlarm, ...]:
    """Returns the alarms of a table at the board's confidence: saturation, then controls."""
    if part.section.score_one - {"expert"}:
        saturated: list[TableAlarm] = []  # without an expert, score 1 is no limit
    else:
        saturated = _saturated(part, method.level)
    controls = [
        TableAlarm(
            "control",
            given.environment,
            f"{row.name}, a control that learns nothing, scores {text.score(given.mean)} "
            f"[{text.score(given.low)}, {text.score(given.high)}] on {given.environment}.",
        )
        for row in part.rows
        if row.kind == "run" and row.result.role == "control"
        for given in given_away(row.result, [run.row for run in row.runs])
    ]
    return (*saturated, *controls)


def _saturated(part: BoardSection, level: float) -> list[TableAlarm]:
    rows = [row for row in part.rows if row.rank is not None and not row.result.uses_reward]
    by_environment = {
        env: [row for row in rows if _as_expert(row, env, level)]
        for env in part.section.environments
    }
    full = {env: names for env, names in by_environment.items() if len(names) >= FEWEST}
    if len(full) == len(by_environment) and len(full) > 1:
        best = [row for row in rows if all(row in names for names in full.values())]
        if len(best) >= FEWEST:
            return [TableAlarm("saturated", "", _said(best, "every environment"))]
    return [TableAlarm("saturated", env, _said(names, env)) for env, names in full.items()]


def _said(rows: Sequence[BoardRow], where: str) -> str:
    names = ", ".join(sorted({row.said for row in rows}))
    return (
        f"Saturated: on {where}, {names} are as good as the expert, to within {MARGIN:g} of the "
        "score. Differences between them say nothing about which is better elsewhere."
    )


def _as_expert(row: BoardRow, env: str, level: float) -> bool:
    """Whether the mean score of a method on an environment is that of the expert, or higher."""
    [cell] = [cell for cell in row.result.cells if cell.environment == env]
    if cell.failures:
        return False
    scores = [run.row.score for run in row.runs if run.row.env == env]
    return bool(scores) and mean_interval(scores, level=level).low > 1.0 - MARGIN
