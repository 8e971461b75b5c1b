"""Draws single figures of the report with matplotlib. Only importers of this module load it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Literal

import numpy as np

from imitbench.records.curves import is_return
from imitbench.report import race_tables, text
from imitbench.report.model import PALETTE, Report, ReportedRace, Section, color_numbers, shape_of
from imitbench.report.section_comparison import SectionComparison
from imitbench.stats.curves import ScoreCurve, common_steps, shared_range
from imitbench.stats.improvement import ImprovementMatrix
from imitbench.store.run_details import MetricCurve, ReportDetails

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

GRAY = "#7a8594"
LONGEST = 40
LEGEND_COLUMNS = 4
PANEL = 2.3
"""Height of a panel of curves, in inches."""


_Dashes = Literal["solid"] | tuple[int, tuple[float, ...]]
_MARKERS = {"circle": "o", "square": "s", "diamond": "D", "triangle": "^"}
_LINES: dict[str, _Dashes] = {
    "circle": "solid",
    "square": (0, (6, 2)),
    "diamond": (0, (1, 1.5)),
    "triangle": (0, (7, 2, 1, 2)),
}


@dataclass(frozen=True)
class Look:
    """How figures show an algorithm.

    Attributes:
        color: Color, as `#rrggbb`.
        shape: One of `imitbench.report.model.SHAPES`.
    """

    color: str = GRAY
    shape: str = "circle"

    @property
    def marker(self) -> str:
        """Marker of points."""
        return _MARKERS[self.shape]

    @property
    def line(self) -> _Dashes:
        """Style of lines."""
        return _LINES[self.shape]


PLAIN = Look()
"""Look of anchors, references and controls."""


def algorithm_looks(report: Report) -> dict[str, Look]:
    """Returns how each algorithm is shown, as in the HTML report; others are `PLAIN`."""
    return {
        name: Look(PALETTE[number % len(PALETTE)], shape_of(number))
        for name, number in color_numbers(report).items()
    }


def intervals(section: Section, looks: Mapping[str, Look], width: float) -> Figure:
    """Draws the IQM with its interval, and the mean, of each algorithm; all are on the axis."""
    shown = section.algorithms
    figure, axes = _figure(width, 0.3 * len(shown) + 0.7)
    for place, result in enumerate(shown):
        look = looks.get(result.algorithm, PLAIN)
        color = look.color
        if result.iqm is None:
            axes.text(0.0, place, " no result", color=GRAY, fontsize=8, va="center")
            continue
        if result.iqm.known:
            ends = (result.iqm.low, result.iqm.high)
            axes.plot(ends, (place, place), color=color, linewidth=4, alpha=0.5)
        if result.mean is not None:
            axes.plot(result.mean.point, place, "|", color=color, markersize=11)
        axes.plot(result.iqm.point, place, look.marker, color=color, markeredgecolor="white")
    for anchor in (0.0, 1.0):
        axes.axvline(anchor, color="0.75", linestyle=(0, (3, 3)), linewidth=0.8, zorder=0)
    axes.set_yticks(range(len(shown)), [_name(text.label(result)) for result in shown])
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.set_xlabel("score")
    return figure


def profiles(comparison: SectionComparison, looks: Mapping[str, Look], width: float) -> Figure:
    """Draws performance profiles with their bands."""
    figure, axes = _figure(width, 3.2)
    handles = []
    for name, band in comparison.profiles.items():
        look = looks[name]
        if band.known:
            axes.fill_between(band.at, band.low, band.high, color=look.color, alpha=0.15, lw=0)
        handles += axes.plot(
            band.at, band.values, color=look.color, linewidth=1.8, linestyle=look.line
        )
    axes.set(xlabel="score τ", ylabel="share of runs above τ", ylim=(-0.02, 1.02))
    _legend(figure, handles, list(comparison.profiles))
    return figure


def improvement(matrix: ImprovementMatrix, width: float) -> Figure:
    """Draws the probability of improvement of each pair, the more probable winner first."""
    pairs = []
    for first, second in combinations(matrix.algorithms, 2):
        pair = matrix.of(first, second)
        pairs.append(pair if not pair.probability.point < 0.5 else pair.reversed())
    pairs = [pair for pair in pairs if math.isfinite(pair.probability.point)]
    figure, axes = _figure(width, 0.3 * len(pairs) + 0.7)
    for place, pair in enumerate(pairs):
        seen = pair.probability
        if seen.known:
            axes.plot((seen.low, seen.high), (place, place), color=PALETTE[0], lw=4, alpha=0.5)
        axes.plot(seen.point, place, "o", color=PALETTE[0], markeredgecolor="white")
    axes.axvline(0.5, color="0.6", linestyle=(0, (3, 3)), linewidth=0.8, zorder=0)
    axes.set_yticks(
        range(len(pairs)), [f"{_name(pair.first)} > {_name(pair.second)}" for pair in pairs]
    )
    axes.set_ylim(max(1, len(pairs)) - 0.5, -0.5)
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel("probability of improvement")
    return figure


def curves(
    section: Section, details: ReportDetails, metric: str, looks: Mapping[str, Look], width: float
) -> Figure:
    """Draws one metric during training, with a panel for each environment that has it."""
    found: dict[str, dict[str, list[MetricCurve]]] = {}
    for row in section.runs:
        curve = details.curves.get(row.run_id, {}).get(metric)
        if curve is not None:
            found.setdefault(row.env, {}).setdefault(row.algo, []).append(curve)
    columns = min(3, len(found))
    rows = -(-len(found) // columns)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, PANEL * rows + 0.5), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    handles = {}
    for axes, (environment, algorithms) in zip(grid, sorted(found.items()), strict=False):
        for name, members in algorithms.items():
            handles[name] = _curves(axes, members, looks.get(name, PLAIN))
        if is_return(metric):
            handles.update(_reference_lines(axes, section, environment))
        axes.set_title(_name(environment), fontsize=8.5)
        axes.tick_params(labelsize=7.5)
        axes.set_xlabel("training step", fontsize=8)
    for axes in grid[len(found) :]:
        axes.set_axis_off()
    grid[0].set_ylabel(_name(metric), fontsize=8)
    _legend(figure, list(handles.values()), list(handles))
    return figure


def race(reported: ReportedRace, pair: tuple[str, str], width: float) -> Figure:
    """Draws the looks at a pair, with a panel for each comparison: overall, and environments."""
    from matplotlib.figure import Figure

    design, found = reported.design, reported.found
    places = [environment for name, environment in found.outcomes if name == pair]
    columns = min(3, len(places))
    rows = -(-len(places) // columns)
    figure = Figure(figsize=(width, PANEL * rows + 0.5), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, place in zip(grid, places, strict=False):
        looks = race_tables.looks_of(found, pair, place)
        seeds = [race_tables.seeds_at(look, design) for look in looks]
        axes.axhspan(-design.margin, design.margin, color=GRAY, alpha=0.15, lw=0)
        axes.axhline(0.0, color="0.6", linewidth=0.8, zorder=0)
        for sign in (-1, 1):
            bound = [sign * race_tables.half_width(look) for look in looks]
            axes.plot(seeds, bound, color="0.35", linestyle=(0, (3, 3)), linewidth=0.8)
        for at, look in zip(seeds, looks, strict=True):
            axes.plot((at, at), (look.low, look.high), color=PALETTE[0], linewidth=4, alpha=0.5)
        axes.plot(seeds, [look.difference for look in looks], "o-", color=PALETTE[0], lw=1)
        axes.set_xlim(0, design.max_seeds + 1)
        told = race_tables.outcome_text(found, pair, place)
        axes.set_title(f"{_name(place or 'overall')}: {told}", fontsize=8.5)
        axes.set_xlabel("seeds", fontsize=8)
        axes.tick_params(labelsize=7.5)
    for axes in grid[len(places) :]:
        axes.set_axis_off()
    grid[0].set_ylabel("difference of scores", fontsize=8)
    return figure


def _reference_lines(axes: Axes, section: Section, environment: str) -> dict[str, Line2D]:
    """Draws the returns of the scores 0 and 1, if the runs have one version of them."""
    found = {
        (row.random, row.expert, row.score_one)
        for row in section.references
        if row.env == environment
    }
    if len(found) != 1:
        return {}
    [(random, expert, kind)] = found
    top = text.score_one_owner([kind])
    return {
        "random": axes.axhline(random, color=GRAY, linestyle=(0, (1, 2)), linewidth=1.0, zorder=0),
        top: axes.axhline(expert, color=GRAY, linestyle=(0, (4, 2)), linewidth=1.0, zorder=0),
    }


def _curves(axes: Axes, members: Sequence[MetricCurve], look: Look) -> Line2D:
    """Draws the runs of one algorithm and their mean; returns the line for the legend."""
    runs = []
    for curve in members:
        steps, values = np.array(curve.steps, float), np.array(curve.values, float)
        usable = np.isfinite(values) & np.concatenate([[True], np.diff(steps) > 0])
        if usable.any():
            runs.append(ScoreCurve(steps[usable], values[usable]))
    known = len(runs) > 1 and shared_range({"": runs})[0] <= shared_range({"": runs})[1]
    for run in runs:
        width, alpha = (0.7, 0.35) if known else (1.6, 1.0)
        axes.plot(run.steps, run.scores, color=look.color, linewidth=width, alpha=alpha)
    at = common_steps({"": runs}, count=101) if known else np.array([])
    mean = [np.interp(at, run.steps, run.scores) for run in runs] if known else [at]
    (handle,) = axes.plot(
        at, np.mean(mean, axis=0), color=look.color, linewidth=1.8, linestyle=look.line
    )
    return handle


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def _legend(figure: Figure, handles: Sequence[Line2D], names: Sequence[str]) -> None:
    """Adds a legend at the lower left; the code that adds the caption makes room for both."""
    labels = [_name(name) for name in names]
    figure.legend(
        handles, labels, loc="lower left", ncols=LEGEND_COLUMNS, frameon=False, fontsize=7.5
    )


def _name(value: str) -> str:
    """Shortens a name for an axis. Guards a leading underscore, which matplotlib's legend skips."""
    line = text.one_line(value)
    line = line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
    return f"\u200b{line}" if line.startswith("_") else line
