"""Builds additional tables: more aggregates, costs, numbers of demonstrations, imports."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from imitbench.cards.suite import ScoreOne
from imitbench.records.runs import ScoreRow
from imitbench.report import text
from imitbench.report.comparison_runs import external_labels
from imitbench.report.model import AlgorithmResult, ExtraCell, ExtraTable, RunCost, Section
from imitbench.stats.bootstrap import Interval
from imitbench.store.comparability import Conditions
from imitbench.store.external_results import ExternalScoreRow

SECONDS_PER_HOUR = 3600.0
MILLION = 1e6


def cost_of(rows: Sequence[ScoreRow]) -> RunCost | None:
    """Returns the mean cost of one algorithm's completed runs; `None` without completed runs."""
    by_environment: dict[str, list[tuple[float, float, float]]] = {}
    for row in rows:
        demos = math.nan if row.n_demos is None else float(row.n_demos)
        costs = (row.train_s / SECONDS_PER_HOUR, float(row.env_steps), demos)
        by_environment.setdefault(row.env, []).append(costs)
    if not by_environment:
        return None
    means = [np.mean(by_environment[env], axis=0) for env in sorted(by_environment)]
    hours, steps, demos = (float(value) for value in np.mean(means, axis=0))
    return RunCost(hours, steps, None if math.isnan(demos) else demos)


def aggregates(results: Sequence[AlgorithmResult]) -> ExtraTable:
    """Returns the table of medians and optimality gaps."""
    return ExtraTable(
        title="Further aggregates",
        columns=("Algorithm", "Median score", "Optimality gap"),
        names=1,
        rows=tuple(
            (
                ExtraCell(text.label(result)),
                _interval(result.median, result),
                _interval(result.gap, result),
            )
            for result in results
            if result.median is not None
        ),
        caption=(
            "Median: over the mean scores of the environments. Optimality gap: by how much runs "
            "fall short of score 1 on average; the lower the better."
        ),
    )


def costs(results: Sequence[AlgorithmResult]) -> ExtraTable:
    """Returns the table of the costs of algorithms, and their scores per cost."""
    trained = [each for each in results if each.cost is not None and each.mean is not None]
    trained = [each for each in trained if each.role == "method"]
    return ExtraTable(
        title="Cost",
        columns=(
            "Algorithm",
            "On the frontier",
            "Mean score",
            "Core-hours",
            "Score per core-hour",
            "Million steps",
            "Score per million steps",
            "Demonstrations",
            "Score per demonstration",
        ),
        names=2,
        rows=tuple(_cost_row(result, trained) for result in trained),
        caption=(
            "Means over environments of means over completed runs. Core-hours: training alone, on "
            "one core per run. Steps: of the environment, taken by training. On the frontier: no "
            "other algorithm scores as much for fewer core-hours."
        ),
        ranks=(0, 1, 0, 2, 3, 4, 5, 6, 7),
    )


def _cost_row(result: AlgorithmResult, others: Sequence[AlgorithmResult]) -> tuple[ExtraCell, ...]:
    cost, score = result.cost, result.mean
    assert cost is not None
    assert score is not None
    beaten = any(_dominates(other, result) for other in others)
    steps = cost.env_steps / MILLION
    return (
        ExtraCell(text.label(result)),
        ExtraCell("no" if beaten else "yes"),
        ExtraCell(text.score(score.point), score.point),
        _number(cost.core_hours),
        _per(score.point, cost.core_hours),
        _number(steps if steps else None, "none"),
        _per(score.point, steps),
        _number(cost.demos, "none"),
        _per(score.point, cost.demos),
    )


def _dominates(one: AlgorithmResult, other: AlgorithmResult) -> bool:
    assert one.cost and other.cost
    assert one.mean and other.mean
    ours = (one.mean.point, -one.cost.core_hours)
    theirs = (other.mean.point, -other.cost.core_hours)
    return ours != theirs and all(mine >= its for mine, its in zip(ours, theirs, strict=True))


def _per(score: float, cost: float | None) -> ExtraCell:
    return _number(score / cost if cost else None)


def _number(value: float | None, absent: str = text.NOTHING) -> ExtraCell:
    """Returns a cell with four significant digits, without an exponent for common magnitudes."""
    if value is None:
        return ExtraCell(absent, math.nan)
    shown = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return ExtraCell(shown, value)


def _interval(value: Interval | None, result: AlgorithmResult) -> ExtraCell:
    return ExtraCell(text.interval(value, result), value.point if value else math.nan)


def flagged(table: ExtraTable, kinds: Iterable[ScoreOne]) -> ExtraTable:
    """Returns the table, whose caption says whose return is score 1 if it is not an expert's."""
    flag = text.score_one_flag(kinds)
    if flag is None:
        return table
    return replace(table, caption=f"{table.caption} {flag[0].upper()}{flag[1:]}.")


def demo_count_tables(sections: Sequence[Section]) -> list[ExtraTable]:
    """Returns tables of scores by number of demonstrations, where there are several numbers."""
    families: dict[Conditions, list[Section]] = {}
    for section in sections:
        if section.conditions.n_demos is not None:
            families.setdefault(replace(section.conditions, n_demos=None), []).append(section)
    return [
        flagged(_response(members), [kind for each in members for kind in each.score_one])
        for members in families.values()
        if len(members) > 1
    ]


def _response(sections: Sequence[Section]) -> ExtraTable:
    shown: dict[str, list[ExtraCell]] = {}
    for place, section in enumerate(sections):
        for result in section.algorithms:
            taught = result.cost is not None and result.cost.demos is not None
            if result.role == "method" and taught:
                row = shown.setdefault(text.label(result), [])
                row += [ExtraCell(text.NOTHING, math.nan)] * (place - len(row))
                row.append(_interval(result.iqm, result))
    for row in shown.values():
        row += [ExtraCell(text.NOTHING, math.nan)] * (len(sections) - len(row))
    first = sections[0].conditions
    counts = tuple(str(section.conditions.n_demos) for section in sections)
    return ExtraTable(
        title=f"{first.suite}: IQM score by number of demonstrations",
        columns=("Algorithm", *counts),
        names=1,
        rows=tuple((ExtraCell(name), *row) for name, row in sorted(shown.items())),
        caption=(
            f"Budget {first.budget}, source {first.source}; each number is from the "
            "section of that many demonstrations. Each seed draws its own subset."
        ),
    )


def imports(
    rows: Sequence[ExternalScoreRow], sections: Sequence[Section]
) -> tuple[list[list[ExternalScoreRow]], list[ExternalScoreRow]]:
    """Assigns imported runs to the sections in which they may be shown.

    Args:
        rows: Imported runs.
        sections: Sections of the report.

    Returns:
        The runs of each section, and the runs that fit no section.
    """
    beside: list[list[ExternalScoreRow]] = [[] for _ in sections]
    rest = []
    for row in rows:
        own = Conditions.of(row)
        fitting = [place for place, each in enumerate(sections) if own.compatible(each.conditions)]
        for place in fitting:
            beside[place].append(row)
        if not fitting:
            rest.append(row)
    return beside, rest


def imported(rows: Sequence[ExternalScoreRow]) -> ExtraTable:
    """Returns the table of other tools' results. No aggregate, rank or comparison uses them."""
    cells: dict[tuple[str, str], list[ExternalScoreRow]] = {}
    for row, label in zip(rows, external_labels(rows), strict=True):
        cells.setdefault((row.env, label), []).append(row)
    return ExtraTable(
        title="Imported results",
        columns=(
            "Environment", "Algorithm", "Made with", "References", "Runs", "Raw return", "Score"
        ),
        names=4,
        rows=tuple(_import_row(*key, cells[key]) for key in sorted(cells)),
        caption=(
            "Results of other tools, as stated by their source; their protocol may differ. "
            "They are not ranked, averaged or compared with own runs. Mean ± sample standard "
            "deviation over runs."
        ),
        ranks=(0, 0, 3, 4, 2, 1, 0),
    )  # fmt: skip


def _import_row(env: str, label: str, rows: Sequence[ExternalScoreRow]) -> tuple[ExtraCell, ...]:
    scales = {row.reference_version or "as stated" for row in rows if row.score is not None}
    return (
        ExtraCell(env),
        ExtraCell(label),
        ExtraCell(", ".join(sorted({row.tool for row in rows}))),
        ExtraCell(", ".join(sorted(scales)) or text.NOTHING),
        ExtraCell(str(len(rows)), float(len(rows))),
        _spread([row.raw_return for row in rows], raw=True),
        _spread([row.score for row in rows], raw=False),
    )


def _spread(values: Sequence[float | None], *, raw: bool) -> ExtraCell:
    known = np.array([value for value in values if value is not None])
    if not known.size or known.size < len(values):
        return ExtraCell(text.NOTHING, math.nan)
    mean = float(known.mean())
    digits = text.raw_digits(mean) if raw else text.SCORE_DIGITS
    spread = f" ± {text.fixed(float(known.std(ddof=1)), digits)}" if known.size > 1 else ""
    return ExtraCell(text.fixed(mean, digits) + spread, mean)
