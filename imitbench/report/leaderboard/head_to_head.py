"""Writes a page for each suite on which readers choose methods and compare them.

Everything is computed here; the page's script only chooses and draws. The data are bounded: pairs
have a few numbers for each environment, and curves are means over seeds at few steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any
from urllib.parse import urlencode

import numpy as np

from imitbench.cards.algorithm import STEP_UNITS
from imitbench.published.board_file import compared_names
from imitbench.report import text
from imitbench.report.html_data import json_element
from imitbench.report.html_markup import Markup, block, fact, tag
from imitbench.report.leaderboard import model, page
from imitbench.report.leaderboard.model import Board, BoardRow, BoardRun, BoardSection
from imitbench.report.leaderboard.standings import is_scored, scores_of
from imitbench.report.model import StatisticsSettings
from imitbench.report.tables import conditions_order
from imitbench.stats.bootstrap import ConfidenceBand, Interval
from imitbench.stats.coverage import Table
from imitbench.stats.curves import ScoreCurve, common_steps, mean_curve, shared_range
from imitbench.stats.decided_pairs import Pair
from imitbench.stats.improvement import improvement_matrix
from imitbench.stats.profiles import performance_profile
from imitbench.stats.significance import welch_margins
from imitbench.stats.strata import FloatArray
from imitbench.util.name_lists import at_commas

SCRIPTS = (
    "theme.js", "elements.js", "tables.js", "views.js", "charts.js", "xy_chart.js",
    "head_to_head_views.js", "head_to_head.js",
)  # fmt: skip
STYLES = (*page.STYLES, "head_to_head.css")

DIGITS = 4
"""Significant digits of the numbers in the page."""

THRESHOLDS = 61
STEPS = 41
_WIDEST = (-0.5, 1.5)
_REPLICATES, _FEWER = 2_000, 500
_MANY_PAIRS = 1_000
_CODES = {"better": 1, "worse": -1, "undecided": 0}

COSTS = ("hours", "steps")
"""Costs of a run: hours of training on one core, and environment steps."""


def head_page(suite: str) -> str:
    """Returns the path in the site of the page on which a suite's methods are compared."""
    return f"head-to-head/{model.slug(suite)}.html"


def head_link(part: BoardSection, *names: str) -> str:
    """Returns the address, from the site's first page, of a comparison of results in a table."""
    view = [("runs", part.shared or "all runs"), *(("m", name) for name in names)]
    return f"{head_page(part.section.suite)}#{urlencode(view)}"


def render_head_to_head(board: Board, suite: str) -> str:
    """Writes the page of comparisons of a suite."""
    parts = board.of_suite(suite)
    rows = [row for part in parts for row in compared_rows(part).values()]
    facts = [
        fact(len({row.name for row in rows if row.result.role == "method"}), "method"),
        fact(len(parts), "table"),
        tag("li", tag("a", f"all results of {suite}", href=f"../{model.suite_page(suite)}")),
    ]
    main = [
        tag("noscript", tag("p", "Choosing methods needs this page's own script.", class_="lead")),
        _choice(),
        *_views(board, parts),
        json_element(payload(board, suite), digits=DIGITS),
    ]
    return page.render(
        board,
        head_page(suite),
        f"Head to head: {suite}",
        main,
        facts=facts,
        scripts=SCRIPTS,
        styles=STYLES,
    )


def _choice() -> Markup:
    runs = tag("select", data_choice="runs")
    field = tag("input", type="search", data_choice="filter", placeholder="name or submitter")
    controls = tag(
        "div",
        tag("label", "Runs ", runs),
        tag("label", "Find ", field),
        tag("button", "Best three", type="button", data_choice="best"),
        tag("button", "None", type="button", data_choice="none"),
        tag("output", aria_live="polite"),
        class_="filters",
    )
    picks = tag("fieldset", tag("legend", "Methods to compare"), class_="picks")
    caption = tag(
        "p", "The choice is part of the address, so a comparison can be cited.", class_="said"
    )
    return tag(
        "section", tag("h2", "Choose", id="choice-title"), controls, picks, caption,
        id="choice", aria_labelledby="choice-title", class_="block", hidden=True,
    )  # fmt: skip


def _views(board: Board, parts: list[BoardSection]) -> list[Markup]:
    """Returns the elements for the drawings, with what a reader must know about each."""
    method = board.method
    level = f"{method.level:.0%}"
    most = max((len(compared_rows(part)) for part in parts), default=0)
    drawn = _replicates(most, method)
    views = [
        (
            "verdicts",
            "Verdicts",
            f"Row against column, by the rule of “imitbench compare” for one pair at {level}: the "
            "tests of means and of typical runs and the interval of the interquartile mean must "
            "agree, with failed runs counted and without, for sampled actions and for most likely "
            "ones (where the expert is measured in both ways). Below the verdict, the difference "
            "of the interquartile means with its interval, by sampled actions and then by most "
            "likely ones.",
        ),
        (
            "improvement",
            "Probability of improvement",
            "Probability that a run of the row scores above a run of the column, ties counting "
            "half, averaged over the environments that both have. "
            f"{level} percentile intervals of {drawn:,} resamples.",
        ),
        (
            "profile",
            "Performance profile",
            "Share of runs that score above τ; environments weigh equally. Bands are pointwise. "
            "Methods without runs on every environment are left out.",
        ),
        (
            "curves",
            "Learning curves",
            "Mean score of training episodes over the seeds whose learning curves are published, "
            f"with pointwise {level} t intervals. Training episodes explore, so a curve may end "
            "below the final score. Curves are of returns: where success is the score, none is "
            "shown.",
        ),
        (
            "environments",
            "Differences by environment",
            f"Difference of mean scores, with Welch's {level} interval for one difference. Of many "
            "intervals that exclude 0, some do so by chance; the verdict stands above.",
        ),
        (
            "regimes",
            "Score by regime",
            "Interquartile mean at the budget that is chosen above, by the demonstrations that "
            "methods learned from, as far as they are published.",
        ),
        (
            "cost",
            "Score by cost",
            "Interquartile mean and mean cost of one run, at every published budget. Gray points "
            "are methods that are not chosen. The line joins the frontier: ranked methods that no "
            "other one beats at their cost or less.",
        ),
    ]
    blocks = [
        block(
            name,
            title,
            tag("div", class_="view", data_view=name),
            tag("p", caption, class_="said"),
        )
        for name, title, caption in views
    ]
    return [tag("div", *blocks, class_="views"), _scale(parts, method)]


def _scale(parts: list[BoardSection], method: StatisticsSettings) -> Markup:
    """Returns what the scores 0 and 1 are; drawings take their names from it."""
    kinds = {kind for part in parts for kind in part.section.score_one}
    zero, one = "random", text.score_one_owner(kinds)
    said = f"Score 0 is the random reference, score 1 the {one}."
    if kinds == {"success"}:
        zero, said = "no success", "Scores are shares of successful episodes."
    said = f"{said} {method.failed_runs.statement}"
    return tag("p", said, class_="said", id="scale", data_zero=zero, data_one=one)


def payload(board: Board, suite: str) -> dict[str, Any]:
    """Returns the data of a suite's page.

    Returns:
        Texts, numbers (some NaN) and lists; tables in the order of the suite's page.
    """
    parts = board.of_suite(suite)
    tables = [_table(part, board.method) for part in parts]
    given = {replace(part.section.conditions, budget=None) for part in parts}
    conditions = sorted(given, key=conditions_order)
    return {
        "suite": suite,
        "level": board.method.level,
        "tables": tables,
        "frontiers": list(_frontiers(parts, tables)),
        "regimes": list(
            dict.fromkeys(condition.regime for condition in conditions if condition.regime)
        ),
    }


def _replicates(count: int, method: StatisticsSettings) -> int:
    """Returns the number of resamples of probabilities of improvement among `count` rows."""
    most = _REPLICATES if math.comb(count, 2) <= _MANY_PAIRS else _FEWER
    return min(most, method.replicates)


def compared_rows(part: BoardSection) -> dict[str, BoardRow]:
    """Returns the rows of a table that can be compared, by the names of their results."""
    return {row.result.algorithm: row for row in part.rows if is_scored(row)}


def _table(part: BoardSection, method: StatisticsSettings) -> dict[str, Any]:
    rows = compared_rows(part)
    own = [row for row in part.rows if row.kind == "run"]
    names = compared_names([(row.name, model.submitter_text(row)) for row in own])
    typed = dict(zip((row.result.algorithm for row in own), names, strict=True))
    environments = part.section.environments
    scores = {name: scores_of(row, method.failed_runs) for name, row in rows.items()}
    at = _thresholds(scores)
    return {
        "title": part.shared or "all runs",
        "regime": part.section.conditions.regime or None,
        "group": _group(part),
        "environments": list(environments),
        "thresholds": [float(at[0]), float(at[-1]), at.size],
        "entries": [
            {**_entry(row, scores[name], at, part, method), "typed": _typed(typed[name])}
            for name, row in rows.items()
        ],
        "pairs": _pairs(part, scores, method),
    }


def _typed(name: str) -> str | None:
    """Returns the name as commands take it; `None` if they take it for several, at its commas."""
    return name if len(at_commas(name)) == 1 else None


def _group(part: BoardSection) -> str:
    """Names the tables whose scores may stand together: same source, version and references."""
    versions = sorted({row.version for row in part.section.references})
    return "|".join([part.section.conditions.source or "", part.version, *versions])


def _entry(
    row: BoardRow,
    scores: Mapping[str, FloatArray],
    at: FloatArray,
    part: BoardSection,
    method: StatisticsSettings,
) -> dict[str, Any]:
    cost = row.result.cost
    counts = [spec.demos.count for spec in row.specs if spec.demos is not None]
    complete = all(env in scores for env in part.section.environments)
    return {
        "key": row.result.algorithm,
        "name": row.name,
        "who": model.submitter_text(row),
        "color": row.color,
        "role": row.result.role,
        "sound": row.rank is not None,
        "tier": model.tier_text(row),
        "page": row.page and f"{row.page}#{row.anchor}",
        "iqm": _interval(row.result.iqm),
        "runs": sum(own.size for own in scores.values()),
        "failed": row.result.failures,
        "cells": [_cell(scores.get(env), method.level) for env in part.section.environments],
        "demos": sum(counts) / len(counts) if counts else None,
        "budget": part.section.conditions.budget,
        "hours": cost.core_hours if cost else None,
        "steps": cost.env_steps if cost else None,
        "profile": _profile(scores, at, method) if complete else None,
        "curves": _curves(row, part, method.level),
    }


def _interval(value: Interval | None) -> list[float]:
    return [value.point, value.low, value.high] if value is not None else [math.nan] * 3


def _cell(scores: FloatArray | None, level: float) -> list[float] | None:
    """Returns mean and half-width of its t interval; `None` without runs."""
    if scores is None:
        return None
    margin = welch_margins(_spread(scores)[None], np.array([scores.size]), level=level)
    return [float(scores.mean()), float(margin)]


def _spread(scores: FloatArray) -> FloatArray:
    return np.asarray(scores.var(ddof=1) if scores.size > 1 and np.ptp(scores) else 0.0)


def _thresholds(table: Table) -> FloatArray:
    known = [0.0, 1.0, *(float(s) for cells in table.values() for own in cells.values()
                         for s in np.asarray(own))]  # fmt: skip
    low, high = max(_WIDEST[0], min(known)), min(_WIDEST[1], max(known))
    return np.linspace(low, high, THRESHOLDS)


def _profile(
    scores: Mapping[str, FloatArray], at: FloatArray, method: StatisticsSettings
) -> list[list[float]]:
    band = performance_profile(
        scores,
        at,
        replicates=min(_REPLICATES, method.replicates),
        level=method.level,
        rng=np.random.default_rng(method.seed),
    )
    return _band(band)


def _band(band: ConfidenceBand) -> list[list[float]]:
    lines = [band.values, band.low, band.high] if band.known else [band.values]
    return [line.tolist() for line in lines]


def _pairs(
    part: BoardSection, table: Mapping[str, Mapping[str, FloatArray]], method: StatisticsSettings
) -> list[Any]:
    """Returns an entry for each pair of rows, in the order of their combinations.

    Each has the decision about the first, missing runs, number of common environments, interval of
    the difference of the IQMs, probability of improvement, decision (`None` if it is unknown) and
    interval of the difference by most likely actions, and margins by environment; it is 0 without
    a common environment. The other numbers are by sampled actions.
    """
    if len(table) < 2:
        return []
    matrix = improvement_matrix(
        table,
        replicates=_replicates(len(table), method),
        level=method.level,
        rng=np.random.default_rng(method.seed),
    )
    improvement = {(pair.first, pair.second): pair.probability for pair in matrix.pairs}
    margins = _margins(part.section.environments, table, method.level)
    found: list[Any] = []
    for pair in combinations(table, 2):
        outcome, quiet = part.pairs.get(pair), part.likely_pairs.get(pair)
        if outcome is None:
            found.append(0)
            continue
        found.append(
            [
                _CODES[outcome.decision],
                outcome.lacking,
                len(outcome.environments),
                *_interval(outcome.iqm),
                *_interval(improvement[pair]),
                None if quiet is None else _CODES[quiet.decision],
                *_interval(None if quiet is None else quiet.iqm),
                margins[pair],
            ]
        )
    return found


def _margins(
    environments: Sequence[str], table: Mapping[str, Mapping[str, FloatArray]], level: float
) -> dict[Pair, list[float]]:
    """Returns half-widths of the intervals of differences of means, by environment."""
    pairs = list(combinations(table, 2))
    nothing = np.zeros(0)
    cells = {name: [own.get(env, nothing) for env in environments] for name, own in table.items()}
    spread = {name: np.array([_spread(own) for own in cell]) for name, cell in cells.items()}
    sizes = {name: np.array([own.size for own in cell]) for name, cell in cells.items()}
    found = welch_margins(
        np.stack([np.stack([spread[first], spread[second]], axis=-1) for first, second in pairs]),
        np.stack([np.stack([sizes[first], sizes[second]], axis=-1) for first, second in pairs]),
        level=level,
    )
    return dict(zip(pairs, found.tolist(), strict=True))


def _curves(row: BoardRow, part: BoardSection, level: float) -> dict[str, Any] | None:
    """Returns mean scores during training: over all environments, and by environment."""
    by_env: dict[str, list[tuple[ScoreCurve, float]]] = {}
    for run in row.runs:
        curve = score_curve(run)
        if curve is not None:
            amount = float(run.run.spec.budget.amount)
            by_env.setdefault(run.row.env, []).append((curve, amount))
    if not by_env:
        return None
    units = {spec.budget.unit for spec in row.specs}
    whole = None
    if set(by_env) == {cell.environment for cell in row.result.covered}:
        shares = {
            env: [ScoreCurve(curve.steps / amount, curve.scores) for curve, amount in own]
            for env, own in by_env.items()
        }
        whole = _mean_curve(shares, level)
    by_index = {
        str(index): _mean_curve({env: [curve for curve, _ in by_env[env]]}, level)
        for index, env in enumerate(part.section.environments)
        if env in by_env
    }
    return {"counts": units <= set(STEP_UNITS), "whole": whole, "by": by_index}


def score_curve(run: BoardRun) -> ScoreCurve | None:
    """Returns a run's scores during training; `None` without a published curve of returns.

    Curves have no shares of successes, so `None` where these are the scores, too.
    """
    curve, result = run.run.curve, run.run.result
    if curve is None or result is None or not curve.has_returns:
        return None
    if result.references.score_one == "success":
        return None
    scores = np.array([result.references.score(value) for value in curve.values.tolist()])
    return ScoreCurve(curve.steps.astype(np.float64), scores) if np.isfinite(scores).all() else None


def _mean_curve(curves: Mapping[str, Sequence[ScoreCurve]], level: float) -> list[Any] | None:
    """Returns first and last step, numbers of runs, and the band; `None` without shared steps."""
    first, last = shared_range(curves)
    if first > last:
        return None
    band = mean_curve(curves, common_steps(curves, count=STEPS), level=level)
    return [first, last, sum(len(own) for own in curves.values()), *_band(band)]


def _frontiers(
    parts: Sequence[BoardSection], tables: Sequence[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yields the methods that no other one beats at their cost or less, for tables of one scale.

    Only ranked rows count. Each frontier is a list of (table, entry) by ascending cost.
    """
    groups = dict.fromkeys(_group(part) for part in parts)
    for group in groups:
        entries = [
            (number, index, entry)
            for number, table in enumerate(tables)
            if table["group"] == group
            for index, entry in enumerate(table["entries"])
            if entry["sound"] and entry["role"] == "method"
        ]
        yield {"group": group, **{cost: _frontier(entries, cost) for cost in COSTS}}


def _frontier(entries: Sequence[tuple[int, int, dict[str, Any]]], cost: str) -> list[list[int]]:
    known = [point for point in entries if point[2][cost] is not None]
    known.sort(key=lambda point: (point[2][cost], -point[2]["iqm"][0], point[0], point[1]))
    best, found = -math.inf, []
    for number, index, entry in known:
        if entry["iqm"][0] > best:
            best = entry["iqm"][0]
            found.append([number, index])
    return found
