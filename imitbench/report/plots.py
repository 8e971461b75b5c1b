"""Writes the report as figures: intervals, profiles, improvement and learning curves."""

from __future__ import annotations

import io
import re
import textwrap
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from imitbench.errors import InputError, did_you_mean
from imitbench.report import figures, text
from imitbench.report.model import Report, Section
from imitbench.report.section_comparison import compare_section
from imitbench.store.run_details import ReportDetails
from imitbench.util.extras import import_extra
from imitbench.util.files import atomic_write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Kind: TypeAlias = Literal["png", "svg", "pdf"]
DPI = 160
WIDTH = 7.2
"""Inches."""
_COMPARING = ("intervals", "profiles", "improvement")
_CURVE = "curve-"

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
class _Plot:
    """A figure to draw.

    Attributes:
        name: Kind of the figure, which is part of the file name.
        caption: Explanation of the numbers.
        draw: Function that draws the figure.
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
    environment. For each pair of a race: `race-METHOD-BASELINE-SUITE`. Names of other files contain
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

    def write(plot: _Plot, title: str, file: str) -> None:
        path = folder / f"{file}.{kind}"
        content = _rendered(plot, title, kind)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            atomic_write_bytes(path, content)
        except OSError as error:
            raise InputError(f"--to {folder}: cannot be written ({error.strerror})") from error
        paths.append(path)

    with _styled():
        suites = [section.suite for section in report.sections]
        stems = _stems(
            suites
            if len(set(suites)) == len(suites)
            else [section.title for section in report.sections]
        )
        for section, stem in zip(report.sections, stems, strict=True):
            names = _names(section, details)
            wanted = dict(zip(names, _stems(names), strict=True))
            wanted = {name: each for name, each in wanted.items() if _matches(name, only)}
            for plot in _plots(section, report, details, wanted):
                write(plot, section.title, f"{stem}-{wanted[plot.name]}")
        races = [plot for plot in _race_plots(report) if _matches(plot.name, only)]
        for plot, stem in zip(races, _stems([plot.name for plot in races]), strict=True):
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
        may_be_curve = start.startswith(_CURVE) or _CURVE.startswith(start)
        if not may_be_curve and not any(fnmatchcase(name, pattern) for name in _COMPARING):
            raise _no_such_figure(pattern, [*_COMPARING, f"{_CURVE}*"])


def _no_such_figure(pattern: str, known: Iterable[str]) -> InputError:
    return InputError(f"--figure {pattern}: no such figure; {did_you_mean(pattern, known)}")


@contextmanager
def _styled() -> Iterator[None]:
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
    known = dict.fromkeys(name for each in report.sections for name in _names(each, details))
    known |= dict.fromkeys(plot.name for plot in _race_plots(report))
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            raise _no_such_figure(pattern, known)


def _plots(
    section: Section, report: Report, details: ReportDetails, wanted: Collection[str]
) -> Iterator[_Plot]:
    """Yields the figures of a section that are wanted, by name, and have something to show."""
    looks = figures.algorithm_looks(report)
    conditions = text.conditions(section, report)
    bars = f"Dot and bar: IQM and its interval; tick: mean. Seeds: {text.all_seeds(section)}. "
    if "intervals" in wanted:
        yield _Plot(
            "intervals", bars + conditions, lambda: figures.intervals(section, looks, WIDTH)
        )
    comparing = "profiles" in wanted or "improvement" in wanted
    comparison = compare_section(section, report.method) if comparing else None
    if "profiles" in wanted and comparison is not None and comparison.profiles:
        over = len(comparison.environments)
        said = f"Share of runs above each score, over {over} common environments, with bands. "
        yield _Plot(
            "profiles",
            f"{said}Seeds: {text.all_seeds(section)}. {conditions}",
            lambda: figures.profiles(comparison, looks, WIDTH),
        )
    if "improvement" in wanted and comparison is not None and comparison.improvement is not None:
        matrix = comparison.improvement
        said = "Probability that a run of the first scores above one of the second, ties half. "
        yield _Plot(
            "improvement",
            f"{said}Seeds: {text.all_seeds(section)}. {conditions}",
            lambda: figures.improvement(matrix, WIDTH),
        )
    for name in _names(section, details):
        if name not in wanted or not name.startswith(_CURVE):
            continue
        metric = name.removeprefix(_CURVE)
        yield _Plot(
            name,
            f"Thin lines: single runs; thick lines: their mean. Seeds: {text.all_seeds(section)}.",
            partial(figures.curves, section, details, metric, looks, WIDTH),
        )


def _race_plots(report: Report) -> Iterator[_Plot]:
    """Yields a figure for each pair of each race."""
    for reported in report.races:
        for pair in reported.design.pairs:
            yield _Plot(
                f"race-{pair[0]}-{pair[1]}-{reported.design.suite}",
                "Dot and bar: difference of mean scores, method less baseline, with its repeated "
                "interval, which stays valid under repeated looks. Dashed: about the difference "
                "that decides at a look. Gray: the margin of equivalence, "
                f"±{reported.design.margin:g}.",
                partial(figures.race, reported, pair, WIDTH),
            )


def _rendered(plot: _Plot, title: str, kind: Kind) -> bytes:
    """Draws a figure with its title above, and its legend and its caption below."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = plot.draw()
    width, height = figure.get_size_inches()
    lines = textwrap.wrap(text.one_line(plot.caption), int(width * 17))
    caption = 0.16 * len(lines) + 0.12
    entries = sum(len(legend.get_texts()) for legend in figure.legends)
    below = caption + 0.2 * -(-entries // figures.LEGEND_COLUMNS)
    total = height + below + 0.3
    figure.set_size_inches(width, total)
    layout = figure.get_layout_engine()
    assert isinstance(layout, ConstrainedLayoutEngine)
    layout.set(rect=(0, below / total, 1, 1 - (below + 0.3) / total))
    for legend in figure.legends:
        legend.set_bbox_to_anchor((0.0, (caption - 0.05) / total))
    figure.text(0.012, 1 - 0.22 / total, _line(title), fontsize=10, fontweight="bold")
    figure.text(0.012, 0.08 / total, "\n".join(lines), fontsize=7, color="0.35", va="bottom")
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=DPI, metadata=_METADATA[kind])
    return buffer.getvalue()


def _line(title: str) -> str:
    return textwrap.shorten(text.one_line(title), 110, placeholder="…")
