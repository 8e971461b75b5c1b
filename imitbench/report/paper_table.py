"""Writes a LaTeX table for papers: algorithms by environments, with the best in bold."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from imitbench.report import text
from imitbench.report.latex import escape, floating, number, table_row, tabular
from imitbench.report.model import AlgorithmResult, Report, Section, StatisticsSettings
from imitbench.report.race_tables import verdict_table
from imitbench.report.tables import reference_errors
from imitbench.stats.aggregates import mean
from imitbench.stats.bootstrap import Interval, stratified_bootstraps
from imitbench.stats.coverage import count_failures

PREAMBLE = r"""% Tables of imitbench, to be put in by \input. They need \usepackage{booktabs} and
% \usepackage[T1]{fontenc} in the preamble."""
_ALL = "IQM"
_MISSING = "--"


def render_paper_table(report: Report, *, captions: bool = True) -> str:
    """Writes a table for each section of a report, and one for each registered race.

    A column has the mean scores on an environment, with their bootstrap intervals; the last column
    has the IQM over all environments. In each column, the best method is bold, and so are methods
    whose value is within its interval. References, controls and anchors are never bold; neither
    are values of methods that lack an environment in the column of the IQM.

    Args:
        report: The report to write.
        captions: Whether each table floats and has a caption and a label; otherwise it is only a
            `tabular`.
    """
    blocks = [PREAMBLE]
    if not report.sections:
        blocks.append(escape(text.EMPTY))
    tables = [
        (_caption(section, report), f"paper-{index}", _tabular(section, report))
        for index, section in enumerate(report.sections, start=1)
    ]
    for index, race in enumerate(report.races, start=1):
        table = verdict_table(race.design, race.found)
        tables.append((f"{table.title}. {table.caption}", f"race-{index}", tabular(table)))
    for caption, label, lines in tables:
        blocks.append(floating(caption, label, lines) if captions else "\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def _caption(section: Section, report: Report) -> str:
    return (
        f"{section.title}. Mean score, with its interval, of the runs on each environment, and "
        f"interquartile mean (IQM) over all of them. Bold: the best method, and methods whose "
        f"value is within its interval. Seeds: {text.all_seeds(section)}. "
        f"{text.conditions(section, report)}"
    )


def _tabular(section: Section, report: Report) -> list[str]:
    results = section.algorithms
    columns = [
        {one.algorithm: _interval(one, env, section, report.method) for one in results}
        for env in section.environments
    ]
    columns.append({result.algorithm: result.iqm for result in results})
    methods = [result for result in results if result.role == "method"]
    bold = [_best(column, methods) for column in columns[:-1]]
    bold.append(_best(columns[-1], [result for result in methods if not result.partial]))
    header = ["Algorithm", *map(escape, section.environments), _ALL]
    groups = [methods, [result for result in results if result.role != "method"]]
    lines = [
        rf"\begin{{tabular}}{{{'l' + 'r' * (len(header) - 1)}}}",
        r"\toprule",
        table_row(header),
    ]
    for group in filter(None, groups):
        lines.append(r"\midrule")
        for result in group:
            entries = [
                _entry(column.get(result.algorithm), result.algorithm in best)
                for column, best in zip(columns, bold, strict=True)
            ]
            lines.append(table_row([escape(text.marked_name(result)), *entries]))
    return [*lines, r"\bottomrule", r"\end{tabular}"]


def _interval(
    result: AlgorithmResult, env: str, section: Section, method: StatisticsSettings
) -> Interval | None:
    """Returns the mean score of an algorithm on an environment, with its interval."""
    cell = next(cell for cell in result.cells if cell.environment == env)
    runs = [row.score for row in section.runs if (row.env, row.algo) == (env, result.algorithm)]
    if cell.kind == "reference" and cell.score is not None:
        return Interval(cell.score, math.nan, math.nan, method.level)
    found = count_failures(
        {env: runs} if runs else {}, Counter({env: cell.failures}), method.failed_runs
    )
    if env not in found or not np.isfinite(found[env]).all():
        return None
    return stratified_bootstraps(
        found,
        {"mean": mean},
        replicates=method.replicates,
        level=method.level,
        rng=np.random.default_rng(method.seed),
        errors=reference_errors(section.references, "sampled", method.seed),
    )["mean"]


def _best(column: Mapping[str, Interval | None], methods: Sequence[AlgorithmResult]) -> set[str]:
    """Returns the best method in a column, and those whose value is within its interval."""
    known = {one.algorithm: found for one in methods if (found := column[one.algorithm])}
    if not known:
        return set()
    name = max(known, key=lambda method: known[method].point)
    best = known[name]
    within = {
        name for name, found in known.items() if best.known and best.low <= found.point <= best.high
    }
    return {name} | within


def _entry(found: Interval | None, bold: bool) -> str:
    if found is None:
        return _MISSING
    point = number(text.score(found.point))
    shown = rf"\textbf{{{point}}}" if bold else point
    if not found.known:
        return shown
    ends = ", ".join(number(text.score(end)) for end in (found.low, found.high))
    return rf"{shown} {{\scriptsize [{ends}]}}"
