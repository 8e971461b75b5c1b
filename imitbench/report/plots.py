"""Writes the report as figures: intervals, profiles, improvement and learning curves."""

from __future__ import annotations

import io
import math
import re
import textwrap
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from imitbench.errors import InputError, did_you_mean
from imitbench.records.curves import is_return
from imitbench.report import race_tables, text
from imitbench.report.model import (
    PALETTE,
    RegimeComparison,
    Report,
    ReportedRace,
    Section,
    color_numbers,
    shape_of,
)
from imitbench.report.section_comparison import SectionComparison, compare_section
from imitbench.stats.curves import ScoreCurve, common_steps, shared_range
from imitbench.stats.improvement import ImprovementMatrix
from imitbench.store.run_details import MetricCurve, ReportDetails
from imitbench.util.extras import import_extra
from imitbench.util.files import atomic_write_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

Kind: TypeAlias = Literal["png", "svg", "pdf"]
DPI = 160
WIDTH = 7.2
PANEL = 2.3
"""Height of a panel of curves; both are in inches."""
GRAY = "#7a8594"
LONGEST = 40
LEGEND_COLUMNS = 4
_COMPARING = ("intervals", "profiles", "improvement")
_CURVE = "curve-"
_REGIMES = "regimes-"
_RACES = "race-"
_OPEN = (_CURVE, _REGIMES, _RACES)
"""Beginnings of names of figures that depend on the results."""

_STYLE: dict[Any, Any] = {
    # Names from runs are text: a dollar sign does not start a formula.
    "text.parse_math": False,
    "text.usetex": False,
    "axes.unicode_minus": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,  # TrueType: many publishers refuse Type 3
    "svg.hashsalt": "imitbench",
}
_METADATA: dict[Kind, dict[str, str | None]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": "imitbench"},
    "pdf": {"CreationDate": None, "Creator": "imitbench", "Producer": None},
}


@dataclass(frozen=True)
class Plot:
    """A figure to draw.

    Attributes:
        name: The kind of the figure, which is part of the file name.
        caption: Text below it.
        draw: Makes the figure, with a constrained layout.
    """

    name: str
    caption: str
    draw: Callable[[], Figure]


def write_plots(
    report: Report, details: ReportDetails, folder: Path, kind: Kind, only: Sequence[str] = ()
) -> list[Path]:
    """Draws the figures of a report into a folder, which is created if missing.

    For each section: `intervals`, `profiles` and `improvement` where there is something to
    compare, and `curve-…` for each metric of the learning curves, with a panel for each
    environment. For several regimes: `regimes-SUITE`. For each pair of a race:
    `race-METHOD-BASELINE-SUITE`. Names of other files contain
    the suite, or all conditions of a section if the suite has several sections. The same results
    give the same files.

    Args:
        report: The report to draw.
        details: Learning curves of its runs.
        folder: Folder of the files.
        kind: Format of the files.
        only: Shell-style patterns of the names above; only figures that match one are drawn. All
            figures if empty.

    Returns:
        Paths of the files, in the order of the report.

    Raises:
        InputError: matplotlib is not installed, there is nothing to draw, a pattern matches no
            figure, or the folder cannot be written.
    """
    require_matplotlib()
    if not report.sections:
        raise InputError(f"nothing to draw. {text.EMPTY}")
    _check_patterns(only, report, details)
    paths = []

    def write(plot: Plot, title: str, file: str) -> None:
        path = folder / f"{file}.{kind}"
        content = rendered(plot, title, kind)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            atomic_write_bytes(path, content)
        except OSError as error:
            raise InputError(f"--to {folder}: cannot be written ({error.strerror})") from error
        paths.append(path)

    titles = [section.suite for section in report.sections]
    if len(set(titles)) < len(titles):
        titles = [section.title for section in report.sections]
    with styled():
        for section, stem in zip(report.sections, _stems(titles), strict=True):
            names = _names(section, details)
            wanted = dict(zip(names, _stems(names), strict=True))
            wanted = {name: file_stem for name, file_stem in wanted.items() if _matches(name, only)}
            for plot in _plots(section, report, details, wanted):
                write(plot, section.title, f"{stem}-{wanted[plot.name]}")
        others = [plot for plot in _spanning_plots(report) if _matches(plot.name, only)]
        for plot, stem in zip(others, _stems([plot.name for plot in others]), strict=True):
            write(plot, plot.name.replace("-", " ", 1), stem)
    return paths


def require_matplotlib() -> None:
    """Checks that matplotlib is installed.

    Raises:
        InputError: It is not installed.
    """
    import_extra("matplotlib", "plots", "drawing plots")


def check_figures(patterns: Sequence[str]) -> None:
    """Checks names of figures before the report is computed, which may take minutes.

    Args:
        patterns: See `write_plots`. Which curves there are is known only with the report.

    Raises:
        InputError: A pattern matches no figure that a report can have.
    """
    for pattern in patterns:
        start = re.split(r"[*?[]", pattern, maxsplit=1)[0]
        may_be = any(start.startswith(kind) or kind.startswith(start) for kind in _OPEN)
        if not may_be and not any(fnmatchcase(name, pattern) for name in _COMPARING):
            raise _no_such_figure(pattern, [*_COMPARING, *(f"{kind}*" for kind in _OPEN)])


def _no_such_figure(pattern: str, known: Iterable[str]) -> InputError:
    return InputError(f"--figure {pattern}: no such figure; {did_you_mean(pattern, known)}")


@contextmanager
def styled() -> Iterator[None]:
    """Context in which figures have the style of this package."""
    import matplotlib as mpl

    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        # Letters that the font lacks are drawn as boxes; a warning for each would flood stderr.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def _stems(titles: list[str]) -> list[str]:
    """Returns file names of letters, digits and hyphens; duplicates are numbered."""
    counts: dict[str, int] = {}
    stems = []
    for title in titles:
        stem = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:80] or "report"
        counts[stem] = counts.get(stem, 0) + 1
        stems.append(stem if counts[stem] == 1 else f"{stem}-{counts[stem]}")
    return stems


def _names(section: Section, details: ReportDetails) -> list[str]:
    """Returns the names of the figures that a section may have."""
    metrics = {metric for row in section.runs for metric in details.curves.get(row.run_id, {})}
    return [*_COMPARING, *(f"{_CURVE}{metric}" for metric in sorted(metrics))]


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def _check_patterns(patterns: Sequence[str], report: Report, details: ReportDetails) -> None:
    known = dict.fromkeys(name for section in report.sections for name in _names(section, details))
    known |= dict.fromkeys(plot.name for plot in _spanning_plots(report))
    for pattern in patterns:
        if any(fnmatchcase(name, pattern) for name in known):
            continue
        if pattern.startswith(_REGIMES) and not report.regimes:
            raise InputError(
                f"--figure {pattern}: compares regimes that share all else, of which these results "
                "have only one; draw intervals, or name further folders with --out"
            )
        if pattern.startswith(_RACES) and not report.races:
            raise InputError(
                f"--figure {pattern}: draws races, of which these results have none; draw "
                "intervals, or name other folders with --out"
            )
        raise _no_such_figure(pattern, known)


def _plots(
    section: Section, report: Report, details: ReportDetails, wanted: Collection[str]
) -> Iterator[Plot]:
    """Yields the figures of a section that are wanted, by name, and have something to show."""
    styles = algorithm_styles(report)
    seeds = f"Seeds: {text.all_seeds(section)}."
    made = f"{seeds} {text.conditions(section, report)}"
    if "intervals" in wanted:
        caption = f"Dot and bar: IQM and its interval; tick: mean. {made}"
        yield Plot("intervals", caption, partial(_intervals, section, styles))
    comparing = "profiles" in wanted or "improvement" in wanted
    comparison = compare_section(section, report.method) if comparing else None
    if "profiles" in wanted and comparison is not None and comparison.profiles:
        over = len(comparison.environments)
        caption = f"Share of runs above each score, over {over} common environments, with bands."
        yield Plot("profiles", f"{caption} {made}", partial(_profiles, comparison, styles))
    if "improvement" in wanted and comparison is not None and comparison.improvement is not None:
        caption = "Probability that a run of the first scores above one of the second, ties half."
        draw = partial(_improvement, comparison.improvement)
        yield Plot("improvement", f"{caption} {made}", draw)
    for name in _names(section, details):
        if name in wanted and name.startswith(_CURVE):
            metric = name.removeprefix(_CURVE)
            caption = f"Thin lines: single runs; thick lines: their mean. {seeds}"
            yield Plot(name, caption, partial(_all_curves, section, details, metric, styles))


def _spanning_plots(report: Report) -> Iterator[Plot]:
    """Yields a figure for each comparison of regimes, and for each pair of each race."""
    styles = algorithm_styles(report)
    for comparison in report.regimes:
        caption = (
            "Dots and bars: IQM and its interval, by the number of demonstrations and what methods "
            f"get of them. Lines join results on the same environments. {comparison.title}."
        )
        name = f"{_REGIMES}{comparison.conditions.suite}"
        yield Plot(name, caption, partial(_regimes, comparison, styles))
    for reported in report.races:
        for pair in reported.design.pairs:
            yield Plot(
                f"{_RACES}{pair[0]}-{pair[1]}-{reported.design.suite}",
                "Dot and bar: difference of mean scores, method less baseline, with its repeated "
                "interval, which stays valid under repeated looks. Dashed: about the difference "
                "that decides at a look. Gray: the margin of equivalence, "
                f"±{reported.design.margin:g}.",
                partial(_race, reported, pair),
            )


def rendered(plot: Plot, title: str, kind: Kind) -> bytes:
    """Draws a figure with its title above, and its legend and its caption below.

    Args:
        plot: The figure and its caption.
        title: The title, which is cut where it is too long.
        kind: Format of the file.

    Returns:
        The content of the file. `styled` must be open.
    """
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = plot.draw()
    width, height = figure.get_size_inches()
    lines = textwrap.wrap(text.one_line(plot.caption), int(width * 17))
    caption = 0.16 * len(lines) + 0.12
    entries = sum(len(legend.get_texts()) for legend in figure.legends)
    below = caption + 0.2 * -(-entries // LEGEND_COLUMNS)
    total = height + below + 0.3
    figure.set_size_inches(width, total)
    layout = figure.get_layout_engine()
    assert isinstance(layout, ConstrainedLayoutEngine)
    layout.set(rect=(0, below / total, 1, 1 - (below + 0.3) / total))
    for legend in figure.legends:
        legend.set_bbox_to_anchor((0.0, (caption - 0.05) / total))
    figure.text(0.012, 1 - 0.22 / total, _line(title), fontsize=10, fontweight="bold")
    figure.text(0.012, 0.08 / total, "\n".join(lines), fontsize=7, color="0.35", va="bottom")
    return file_content(figure, kind)


def file_content(figure: Figure, kind: Kind) -> bytes:
    """Returns a figure as a file; equal figures give equal files.

    Args:
        figure: Drawn in the context of `styled`, which must still be open.
        kind: Format of the file.
    """
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=DPI, metadata=_METADATA[kind])
    return buffer.getvalue()


def _line(title: str) -> str:
    return textwrap.shorten(text.one_line(title), 110, placeholder="…")


_Dashes = Literal["solid"] | tuple[int, tuple[float, ...]]
_MARKERS = {"circle": "o", "square": "s", "diamond": "D", "triangle": "^", "cross": "P"}
_LINES: dict[str, _Dashes] = {
    "circle": "solid",
    "square": (0, (6, 2)),
    "diamond": (0, (1, 1.5)),
    "triangle": (0, (7, 2, 1, 2)),
    "cross": (0, (4, 1.5, 1, 1.5, 1, 1.5)),
}


@dataclass(frozen=True)
class Style:
    """How figures show an algorithm; the shape is one of `imitbench.report.model.SHAPES`."""

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


PLAIN = Style()
"""Style of anchors, references and controls."""


def algorithm_styles(report: Report) -> dict[str, Style]:
    """Returns how each algorithm is shown, as in the HTML report; others are `PLAIN`."""
    return {
        name: Style(PALETTE[number % len(PALETTE)], shape_of(number))
        for name, number in color_numbers(report).items()
    }


def _intervals(section: Section, styles: Mapping[str, Style]) -> Figure:
    """Draws the IQM with its interval, and the mean, of each algorithm; all are on the axis."""
    shown = section.algorithms
    figure, axes = _figure(0.3 * len(shown) + 0.7)
    for y, result in enumerate(shown):
        style = styles.get(result.algorithm, PLAIN)
        color = style.color
        if result.iqm is None:
            axes.text(0.0, y, " no result", color=GRAY, fontsize=8, va="center")
            continue
        if result.iqm.known:
            ends = (result.iqm.low, result.iqm.high)
            axes.plot(ends, (y, y), color=color, linewidth=4, alpha=0.5)
        if result.mean is not None:
            axes.plot(result.mean.point, y, "|", color=color, markersize=11)
        axes.plot(result.iqm.point, y, style.marker, color=color, markeredgecolor="white")
    for anchor in (0.0, 1.0):
        axes.axvline(anchor, color="0.75", linestyle=(0, (3, 3)), linewidth=0.8, zorder=0)
    axes.set_yticks(range(len(shown)), [_name(text.marked_name(result)) for result in shown])
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.set_xlabel("score")
    return figure


def _regimes(comparison: RegimeComparison, styles: Mapping[str, Style]) -> Figure:
    """Draws the IQM of each method by regime; methods stand side by side."""
    figure, axes = _figure(3.2)
    handles = []
    for order, (name, results) in enumerate(comparison.results.items(), start=1):
        style = styles.get(name, PLAIN)
        shift = 0.6 * order / (len(comparison.results) + 1) - 0.3
        points = {index: one.iqm for index, one in enumerate(results) if one and one.iqm}
        for index, iqm in points.items():
            if iqm.known:
                at = (index + shift, index + shift)
                axes.plot(at, (iqm.low, iqm.high), color=style.color, linewidth=4, alpha=0.5)
        for pair in comparison.joined(name):
            ends = [points[index].point for index in pair]
            xs = [index + shift for index in pair]
            axes.plot(xs, ends, color=style.color, linewidth=1.5, linestyle=style.line)
        handles += axes.plot(
            [index + shift for index in points],
            [iqm.point for iqm in points.values()],
            style.marker,
            color=style.color,
            markeredgecolor="white",
        )
    names = ["\n".join(textwrap.wrap(_name(regime), 18)) for regime in comparison.regimes]
    axes.set_xticks(range(len(names)), names)
    axes.set_ylabel("IQM score")
    _legend(figure, handles, list(comparison.results))
    return figure


def _profiles(comparison: SectionComparison, styles: Mapping[str, Style]) -> Figure:
    """Draws performance profiles with their bands."""
    figure, axes = _figure(3.2)
    handles = []
    for name, band in comparison.profiles.items():
        style = styles[name]
        if band.known:
            axes.fill_between(band.at, band.low, band.high, color=style.color, alpha=0.15, lw=0)
        handles += axes.plot(
            band.at, band.values, color=style.color, linewidth=1.8, linestyle=style.line
        )
    axes.set(xlabel="score τ", ylabel="share of runs above τ", ylim=(-0.02, 1.02))
    _legend(figure, handles, list(comparison.profiles))
    return figure


def _improvement(matrix: ImprovementMatrix) -> Figure:
    """Draws the probability of improvement of each pair, the more probable winner first."""
    pairs = []
    for first, second in combinations(matrix.algorithms, 2):
        pair = matrix.of(first, second)
        pairs.append(pair if not pair.probability.point < 0.5 else pair.reversed())
    pairs = [pair for pair in pairs if math.isfinite(pair.probability.point)]
    figure, axes = _figure(0.3 * len(pairs) + 0.7)
    for y, pair in enumerate(pairs):
        seen = pair.probability
        if seen.known:
            axes.plot((seen.low, seen.high), (y, y), color=PALETTE[0], lw=4, alpha=0.5)
        axes.plot(seen.point, y, "o", color=PALETTE[0], markeredgecolor="white")
    axes.axvline(0.5, color="0.6", linestyle=(0, (3, 3)), linewidth=0.8, zorder=0)
    axes.set_yticks(
        range(len(pairs)), [f"{_name(pair.first)} > {_name(pair.second)}" for pair in pairs]
    )
    axes.set_ylim(max(1, len(pairs)) - 0.5, -0.5)
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel("probability of improvement")
    return figure


def _all_curves(
    section: Section, details: ReportDetails, metric: str, styles: Mapping[str, Style]
) -> Figure:
    """Draws one metric during training, with a panel for each environment that has it."""
    found: dict[str, dict[str, list[MetricCurve]]] = {}
    for row in section.runs:
        curve = details.curves.get(row.run_id, {}).get(metric)
        if curve is not None:
            found.setdefault(row.env, {}).setdefault(row.algo, []).append(curve)
    figure, panels = _panels(len(found))
    handles = {}
    for axes, (environment, algorithms) in zip(panels, sorted(found.items()), strict=True):
        for name, members in algorithms.items():
            handles[name] = _curves(axes, members, styles.get(name, PLAIN))
        if is_return(metric):
            handles.update(_reference_lines(axes, section, environment))
        axes.set_title(_name(environment), fontsize=8.5)
        axes.tick_params(labelsize=7.5)
        axes.set_xlabel("training step", fontsize=8)
    panels[0].set_ylabel(_name(metric), fontsize=8)
    _legend(figure, list(handles.values()), list(handles))
    return figure


def _race(reported: ReportedRace, pair: tuple[str, str]) -> Figure:
    """Draws the looks at a pair, with a panel for each comparison: overall, and environments."""
    design, found = reported.design, reported.found
    environments = [environment for name, environment in found.outcomes if name == pair]
    views = list(product(environments, design.ways))
    figure, panels = _panels(len(views))
    for axes, (environment, acting) in zip(panels, views, strict=True):
        looks = race_tables.looks_of(found, pair, environment, acting)
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
        outcome = race_tables.verdict_word(found, pair, environment, acting)
        where = _name(race_tables.view_name(design, environment, acting))
        axes.set_title(f"{where}: {outcome}", fontsize=8.5)
        axes.set_xlabel("seeds", fontsize=8)
        axes.tick_params(labelsize=7.5)
    panels[0].set_ylabel("difference of scores", fontsize=8)
    return figure


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    """Returns a figure with panels in up to three columns."""
    from matplotlib.figure import Figure

    columns = min(3, count)
    rows = -(-count // columns)
    figure = Figure(figsize=(WIDTH, PANEL * rows + 0.5), layout="constrained")
    grid = list(figure.subplots(rows, columns, squeeze=False).ravel())
    for axes in grid[count:]:
        axes.set_axis_off()
    return figure, grid[:count]


def _reference_lines(axes: Axes, section: Section, environment: str) -> dict[str, Line2D]:
    """Draws the returns of the scores 0 and 1, if the runs have one version of them.

    Where success is the score, these are shares of episodes, and no returns.
    """
    found = {
        (row.random, row.expert, row.score_one)
        for row in section.references
        if row.env == environment
    }
    if len(found) != 1:
        return {}
    [(random, expert, kind)] = found
    if kind == "success":
        return {}
    top = text.score_one_owner([kind])
    return {
        "random": axes.axhline(random, color=GRAY, linestyle=(0, (1, 2)), linewidth=1.0, zorder=0),
        top: axes.axhline(expert, color=GRAY, linestyle=(0, (4, 2)), linewidth=1.0, zorder=0),
    }


def _curves(axes: Axes, members: Sequence[MetricCurve], style: Style) -> Line2D:
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
        axes.plot(run.steps, run.scores, color=style.color, linewidth=width, alpha=alpha)
    at = common_steps({"": runs}, count=101) if known else np.array([])
    mean = [np.interp(at, run.steps, run.scores) for run in runs] if known else [at]
    (handle,) = axes.plot(
        at, np.mean(mean, axis=0), color=style.color, linewidth=1.8, linestyle=style.line
    )
    return handle


def _figure(height: float) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
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
