"""Builds the tables of a report as data, which each format lays out.

A new table needs a function here that returns a `Table`, and its name in `extra_tables` for each
section, or in `spanning_tables` for the report: all formats with tables show it then.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from imitbench.cards.suite import ScoreOne
from imitbench.records.runs import ReferenceRow
from imitbench.report import text
from imitbench.report.comparison_runs import external_labels
from imitbench.report.measures import MEANINGS
from imitbench.report.model import (
    AlgorithmResult,
    Cell,
    CellResult,
    Column,
    Kind,
    RegimeComparison,
    Report,
    Section,
    Table,
    make_columns,
)
from imitbench.report.reward_board import reward_table, summary_table
from imitbench.report.success_table import success_table
from imitbench.stats.bootstrap import Interval
from imitbench.stats.rank_changes import RankChanges
from imitbench.store.external_results import ExternalScoreRow

MILLION = 1e6
LIKELY = (
    "IQM, likely",
    "The same policies take their most likely actions. Where scores are of returns, those of the "
    "expert have score 1.",
)
"""Heading of a column, and what it means."""
_UNKNOWN = Cell(text.NOTHING)
_REPEATED_ENVIRONMENT = Column("Environment", "name", rank=1, above=True)
_FAILED = Column("Failed runs", "failures", rank=1, short="Failed")


def section_tables(section: Section, report: Report) -> list[Table]:
    """Returns the tables of a section: all environments, by environment, and those with rows."""
    conditions = text.conditions(section, report)
    return [
        _all_environments(section, conditions),
        _by_environment(section, conditions),
        *section.extra,
        *filter(
            _has_rows,
            (
                summary_table(section.reward_summaries),
                reward_table(section.rewards),
                _measures(section),
                _references(section),
            ),
        ),
    ]


def report_tables(report: Report) -> list[Table]:
    """Returns the tables after the sections."""
    return [*report.extra, *([_failed_runs(report)] if report.failures else [])]


def extra_tables(
    results: Sequence[AlgorithmResult],
    references: Sequence[ReferenceRow],
    imported: Sequence[ExternalScoreRow],
    episodes: int | None,
) -> tuple[Table, ...]:
    """Returns the tables that a section has where there is something to show.

    Args:
        results: Algorithms of the section.
        references: References of the section.
        imported: Runs of other tools under the conditions of the section.
        episodes: Evaluation episodes of each run and way of acting; `None` if runs differ in it.
    """
    kinds = [row.score_one for row in references]
    tables = [_flagged(table, kinds) for table in (_further_aggregates(results), _costs(results))]
    success = success_table(results, episodes)
    return tuple(filter(_has_rows, [success, *tables, _imported_results(imported)]))


def spanning_tables(imported: Sequence[ExternalScoreRow]) -> tuple[Table, ...]:
    """Returns the tables after the sections; those of regimes and races are added to them.

    Args:
        imported: Runs of other tools that fit no section.
    """
    return tuple(filter(_has_rows, [_imported_results(imported)]))


def score_table(section: Section) -> Table:
    """Returns scores by algorithm and environment, the only table in notebooks."""
    headings = ["Algorithm", "Seeds", "IQM score", "Mean score", *section.environments]
    rows = [
        (
            Cell(text.marked_name(result)),
            Cell(text.seeds(result)),
            _interval(result.iqm, result),
            _score(result.mean.point if result.mean else None),
            *(_score(cell.score) for cell in result.cells),
            Cell.count(result.failures),
        )
        for result in section.algorithms
    ]
    return Table(section.title, (*make_columns(headings, 1), _FAILED), tuple(rows))


def short_table(section: Section) -> Table:
    """Returns the table that `imitbench run` prints at its end."""
    rows = [
        (
            Cell(text.marked_name(result)),
            Cell(text.coverage(result)),
            Cell(text.seeds(result)),
            _score(result.mean.point if result.mean else None),
            _interval(result.iqm, result),
            Cell(text.fixed(result.mean_length, 1)),
            Cell(text.share(result.termination_rate)),
            Cell.count(result.failures),
        )
        for result in section.algorithms
    ]
    headings = ("algorithm", "environments", "seeds", "mean score", "IQM", "length", "terminated")
    return Table(
        f"{section.title} ({text.reference_versions(section)})",
        (*make_columns(headings, 1, (0, 3, 4, 2, 0, 6, 5)), Column("failed", "failures", rank=1)),
        tuple(rows),
    )


def _all_environments(section: Section, conditions: str) -> Table:
    likely = any(result.iqm_likely is not None for result in section.algorithms)
    if likely:
        conditions = f"{': '.join(LIKELY)} {conditions}"
    rows = [
        (
            _algorithm(result, result.kind),
            Cell(text.coverage(result), len(result.covered)),
            Cell(text.seeds(result), None if result.kind == "reference" else result.seeds[0]),
            _interval(result.mean, result),
            _interval(result.iqm, result),
            *([_interval(result.iqm_likely, result)] * likely),
            Cell.count(result.failures),
        )
        for result in section.algorithms
    ]
    return Table(
        title="All environments",
        columns=(
            Column("Algorithm", "name"),
            Column("Environments", rank=2),
            Column("Seeds", rank=3),
            Column("Mean score", "interval", rank=4),
            Column("IQM score", "interval"),
            *([Column(LIKELY[0], "interval", rank=1)] * likely),
            _FAILED,
        ),
        rows=tuple(rows),
        caption=f"Seeds are per environment. {conditions}",
        page_caption="",
        print_caption=f"All environments; seeds are per environment. {conditions}",
        label="aggregate",
        floating=True,
    )


def _by_environment(section: Section, conditions: str) -> Table:
    return Table(
        title="By environment",
        columns=(
            _REPEATED_ENVIRONMENT,
            Column("Algorithm", "name"),
            Column("Seeds", rank=3),
            Column("Raw return", rank=1),
            Column("Score"),
            Column("Score, deterministic", rank=6, short="Score, det."),
            Column("Episode length", rank=5, short="Length"),
            Column("Terminated", rank=4),
            replace(_FAILED, rank=2),
        ),
        rows=tuple(
            _result_row(result, result.cells[index])
            for index in range(len(section.environments))
            for result in section.algorithms
        ),
        names=2,
        caption=(
            f"Raw return: mean ± sample standard deviation over seeds. {text.ENDINGS} {conditions}"
        ),
        page_caption="",
        print_caption=(
            "By environment; raw return: mean ± sample standard deviation over seeds; det.: "
            f"deterministic policy. {text.ENDINGS} {conditions}"
        ),
        label="cells",
        grouped=True,
    )


def _result_row(result: AlgorithmResult, cell: CellResult) -> tuple[Cell, ...]:
    return (
        Cell(cell.environment),
        _algorithm(result, cell.kind),
        Cell("reference") if cell.kind == "reference" else Cell.count(cell.seeds),
        Cell(text.raw_spread(cell), cell.raw_mean),
        _score(cell.score),
        _score(cell.score_deterministic),
        Cell(text.fixed(cell.mean_length, 1), cell.mean_length),
        Cell(text.share(cell.termination_rate), cell.termination_rate),
        Cell.count(cell.failures),
    )


def _measures(section: Section) -> Table:
    explained = sorted({row.measure for row in section.measured} & set(MEANINGS))
    sentences = [f"{name}: {MEANINGS[name]}." for name in explained]
    caption = " ".join(["Mean ± sample standard deviation over runs.", *sentences])
    return Table(
        title="Further measurements",
        columns=(
            _REPEATED_ENVIRONMENT,
            Column("Algorithm", "name"),
            Column("Measure", "text"),
            Column("Runs", rank=1),
            Column("Mean"),
        ),
        rows=tuple(
            (
                *map(Cell, (row.environment, row.algorithm, row.measure)),
                Cell.count(row.runs),
                Cell(text.measured_spread(row), row.mean),
            )
            for row in section.measured
        ),
        names=3,
        caption=caption,
        page_caption="",
        print_caption=caption,
        label="measures",
    )


def _references(section: Section) -> Table:
    return Table(
        title="References",
        columns=(
            Column("Environment", "name"),
            Column("Version", "text", rank=1),
            Column("Random (score 0)"),
            Column("Score 1" if text.score_one_flag(section.score_one) else "Expert (score 1)"),
        ),
        rows=tuple(
            (
                Cell(row.env),
                Cell(row.version),
                Cell(text.raw(row.random), row.random),
                Cell(text.score_one_return(row), row.expert),
            )
            for row in section.references
            if row.score_one != "success"
        ),
        print_caption="References: mean raw returns that are scores 0 and 1.",
        label="references",
        floating=True,
    )


def _failed_runs(report: Report) -> Table:
    statement = report.method.failed_runs.statement
    return Table(
        title="Failed runs",
        columns=(
            Column("Suite", "text", rank=1, above=True),
            Column("Environment", "name"),
            Column("Algorithm", "name"),
            Column("Seed", "id", rank=1),
            Column("Phase", "text", rank=4),
            Column("Error", "text", rank=2),
            Column("Message", "text", below=True),
            Column("Run", "code", rank=5),
        ),
        rows=tuple(
            (
                *map(Cell, (row.suite, row.env, row.algo)),
                Cell.count(row.seed),
                *map(Cell, (row.phase, row.error_type, text.message(row.message), row.run_id)),
            )
            for row in report.failures
        ),
        names=3,
        page_caption=(
            f"{statement} Tables count them. The command “imitbench logs” shows what a run wrote."
        ),
        print_caption=f"Failed runs. {statement}",
        label="failures",
    )


def _further_aggregates(results: Sequence[AlgorithmResult]) -> Table:
    rows = [
        (Cell(text.marked_name(one)), _interval(one.median, one), _interval(one.gap, one))
        for one in results
        if one.median is not None
    ]
    return Table(
        title="Further aggregates",
        columns=make_columns(("Algorithm", "Median score", "Optimality gap"), 1),
        rows=tuple(rows),
        caption=(
            "Median: over the mean scores of the environments. Optimality gap: by how much runs "
            "fall short of score 1 on average; the lower the better."
        ),
    )


def _costs(results: Sequence[AlgorithmResult]) -> Table:
    trained = [
        result for result in results if result.role == "method" and result.cost and result.mean
    ]
    headings = (
        "Algorithm", "On the frontier", "Mean score", "Core-hours", "Score per core-hour",
        "Million steps", "Score per million steps", "Demonstrations", "Score per demonstration",
    )  # fmt: skip
    return Table(
        title="Cost",
        columns=make_columns(headings, 2, (0, 1, 0, 2, 3, 4, 5, 6, 7)),
        rows=tuple(_cost_row(result, trained) for result in trained),
        names=2,
        caption=(
            "Means over environments of means over completed runs. Core-hours: training alone, on "
            "one core per run. Steps: of the environment, taken by training. On the frontier: no "
            "other algorithm with runs on all environments scores as much for fewer core-hours."
        ),
    )


def _cost_row(result: AlgorithmResult, others: Sequence[AlgorithmResult]) -> tuple[Cell, ...]:
    cost, score = result.cost, result.mean
    assert cost is not None
    assert score is not None
    # A mean over some of the environments is no comparison: they may be the easy ones.
    dominated = any(_dominates(other, result) for other in others if not other.partial)
    frontier = text.NOTHING if result.partial else "no" if dominated else "yes"
    steps = cost.env_steps / MILLION
    return (
        Cell(text.marked_name(result)),
        Cell(frontier),
        _score(score.point),
        _number(cost.core_hours),
        _ratio(score.point, cost.core_hours),
        _number(steps if steps else None, "none"),
        _ratio(score.point, steps),
        _number(cost.demos, "none"),
        _ratio(score.point, cost.demos),
    )


def _dominates(one: AlgorithmResult, other: AlgorithmResult) -> bool:
    assert one.cost and other.cost
    assert one.mean and other.mean
    ours = (one.mean.point, -one.cost.core_hours)
    theirs = (other.mean.point, -other.cost.core_hours)
    return ours != theirs and all(mine >= its for mine, its in zip(ours, theirs, strict=True))


def regime_tables(comparison: RegimeComparison, level: float) -> list[Table]:
    """Returns the tables of methods in several regimes.

    Args:
        comparison: The methods and regimes.
        level: Confidence level of decisions.

    Returns:
        The scores; and, where two regimes have methods in common, what is known of the order of
        methods, and their ranks.
    """
    found = list(comparison.changes.items())
    pairs = [
        (comparison.regimes[first], comparison.regimes[second], changes)
        for (first, second), changes in found
    ]
    tables = [_by_regime(comparison), _orders(comparison, pairs, level)]
    tables.append(_ranks(comparison, pairs, level))
    return [_flagged(table, comparison.score_one) for table in tables if table.rows]


def _by_regime(comparison: RegimeComparison) -> Table:
    return Table(
        title=f"{comparison.title}, IQM score by regime",
        columns=make_columns(["Algorithm", *comparison.regimes], 1),
        rows=tuple(
            (
                _algorithm(next(filter(None, results)), "run"),
                *(_UNKNOWN if one is None else _covered(one) for one in results),
            )
            for _, results in sorted(comparison.results.items())
        ),
        caption=(
            "Each number is from the section of that regime, over the environments that the "
            "algorithm has there. Each seed draws its own demonstrations where not all are used."
        ),
    )


def _covered(result: AlgorithmResult) -> Cell:
    """Returns the IQM, with the number of environments if it excludes any."""
    cell = _interval(result.iqm, result)
    if not result.partial:
        return cell
    return replace(cell, shown=f"{cell.shown}, {text.environments(result)}")


_Pairs = Sequence[tuple[str, str, RankChanges]]


def _orders(comparison: RegimeComparison, pairs: _Pairs, level: float) -> Table:
    headings = (
        "Regime", "Other regime", "Left out", "Methods", "Environments", "Kendall's tau",
        "p, interaction", "Permutations", "Pairs", "In another order", "Decided", "p, order",
    )  # fmt: skip
    ranks = (0, 0, 9, 5, 4, 1, 3, 8, 7, 6, 2, 0)
    drawn = max((changes.permutations for *_, changes in pairs), default=0)
    return Table(
        title=f"{comparison.title}, order of methods by regime",
        columns=make_columns(headings, 3, ranks),
        rows=tuple(
            (
                Cell(one),
                Cell(other),
                Cell(", ".join(changes.left_out)),
                Cell.count(len(changes.methods)),
                Cell.count(len(changes.environments)),
                _finite(changes.tau),
                _finite(changes.interaction.p_value),
                Cell.count(changes.interaction.permutations),
                Cell.count(changes.pairs),
                Cell.count(len(changes.changes)),
                Cell.count(len(changes.decided(level))),
                _finite(changes.p_value),
            )
            for one, other, changes in pairs
        ),
        names=2,
        caption=(
            "Over the methods and environments that both regimes have; a method is left out where "
            "more environments remain without it. Kendall's tau of the IQM "
            "scores: 1 for the same order, -1 for the opposite one. Interaction: whether "
            "differences between methods depend on the regime, as they also do where all scores "
            "come together; p from permutations of the regimes among the runs of each method, all "
            "of them where these are few. Order: whether a method is better than another in one "
            f"regime and worse in the other, decided at {level:.0%}; p from {drawn:,} permutations "
            "of the runs of each two methods, corrected for all pairs of methods, but not for "
            "several pairs of regimes."
        ),
    )


def _ranks(comparison: RegimeComparison, pairs: _Pairs, level: float) -> Table:
    columns = (
        Column("Regime", "name", above=True),
        Column("Other regime", "name", above=True),
        Column("Algorithm", "name"),
        Column("Overtakes", "text", rank=1),
        Column("Rank", rank=3),
        Column("Rank in the other", rank=2),
        Column("Change"),
    )
    return Table(
        title=f"{comparison.title}, ranks by regime",
        columns=columns,
        rows=tuple(
            (
                Cell(one),
                Cell(other),
                Cell(method.algorithm, algorithm=method.algorithm),
                Cell(", ".join(changes.overtaken_by(method.algorithm, level))),
                *map(Cell.count, method.ranks),
                Cell(f"{method.change:+d}" if method.change else "0", method.change),
            )
            for one, other, changes in pairs
            for method in changes.methods
        ),
        names=3,
        caption=(
            "Ranks by IQM score among the methods and environments that both regimes have. Change: "
            "places gained in the other regime. Overtakes: methods that are better in the first "
            f"regime and worse in the other one, decided at {level:.0%}."
        ),
    )


def _finite(value: float) -> Cell:
    return _number(value if math.isfinite(value) else None)


def _imported_results(rows: Sequence[ExternalScoreRow]) -> Table:
    """Returns the table of other tools' results. No aggregate, rank or comparison uses them."""
    cells: dict[tuple[str, str], list[ExternalScoreRow]] = {}
    for row, label in zip(rows, external_labels(rows), strict=True):
        cells.setdefault((row.env, label), []).append(row)
    headings = (
        "Environment", "Algorithm", "Made with", "References", "Runs", "Raw return", "Score"
    )  # fmt: skip
    return Table(
        title="Imported results",
        columns=make_columns(headings, 4, (0, 0, 3, 4, 2, 1, 0)),
        rows=tuple(_imported_row(*key, cells[key]) for key in sorted(cells)),
        names=4,
        caption=(
            "Results of other tools, as stated by their source; their protocol may differ. "
            "They are not ranked, averaged or compared with own runs. Mean ± sample standard "
            "deviation over runs."
        ),
    )


def _imported_row(env: str, label: str, rows: Sequence[ExternalScoreRow]) -> tuple[Cell, ...]:
    scales = {row.reference_version or "as stated" for row in rows if row.score is not None}
    return (
        Cell(env),
        Cell(label),
        Cell(", ".join(sorted({row.tool for row in rows}))),
        Cell(", ".join(sorted(scales)) or text.NOTHING),
        Cell.count(len(rows)),
        _spread([row.raw_return for row in rows], raw=True),
        _spread([row.score for row in rows], raw=False),
    )


def _has_rows(table: Table) -> bool:
    return bool(table.rows)


def _flagged(table: Table, kinds: Iterable[ScoreOne]) -> Table:
    """Returns the table, whose caption says whose return is score 1 if it is not an expert's."""
    flag = text.score_one_flag(kinds)
    if flag is None:
        return table
    return replace(table, caption=f"{table.caption} {flag[0].upper()}{flag[1:]}.")


def _algorithm(result: AlgorithmResult, kind: Kind) -> Cell:
    """Returns the name of an algorithm with its marks; `kind` says where its numbers are from."""
    shown, marks = text.marked_name(result), text.marks(result)
    if kind == "reference":
        shown, marks = f"{shown} (reference)", [*marks, "reference"]
    return Cell(shown, algorithm=result.algorithm, marks=tuple(marks))


def _interval(value: Interval | None, result: AlgorithmResult) -> Cell:
    return Cell(text.interval(value, result), value.point if value else None)


def _score(value: float | None) -> Cell:
    return Cell(text.score(value), value)


def _number(value: float | None, absent: str = text.NOTHING) -> Cell:
    """Returns a cell with four significant digits, without an exponent for common magnitudes."""
    if value is None:
        return Cell(absent)
    return Cell(f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}", value)


def _ratio(score: float, cost: float | None) -> Cell:
    return _number(score / cost if cost else None)


def _spread(values: Sequence[float | None], *, raw: bool) -> Cell:
    known = np.array([value for value in values if value is not None])
    if not known.size or known.size < len(values):
        return _UNKNOWN
    mean = float(known.mean())
    digits = text.raw_digits(mean) if raw else text.SCORE_DIGITS
    spread = f" ± {text.fixed(float(known.std(ddof=1)), digits)}" if known.size > 1 else ""
    return Cell(text.fixed(mean, digits) + spread, mean)
