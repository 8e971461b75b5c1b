"""Draws charts of the HTML report as SVG. The style sheet sets the colors, for both themes."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from imitbench.records.selection import Acting
from imitbench.report import race_tables, text
from imitbench.report.html_markup import Markup, join, named, tag
from imitbench.report.model import (
    RegimeComparison,
    ReportedRace,
    RewardBoardRow,
    shape_of,
)
from imitbench.report.score_axis import AxisScale, marks, zoomed
from imitbench.stats.bootstrap import ConfidenceBand, Interval
from imitbench.stats.sequential import Pair

_WIDTH, _HEIGHT = 640, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 16, 14, 46
_RACE_HEIGHT, _RACE_LEFT = 260, 58
_REGIME_LETTERS, _LINE = 18, 15


def axis(scale: AxisScale) -> Markup:
    """Draws the axis above a column of strips."""
    hidden = tag("span", "IQM and mean score, drawn", class_="hidden")
    return join(hidden, ticks(scale, marks(scale, apart=0.2)))


def ticks(scale: AxisScale, at: Iterable[float]) -> Markup:
    """Draws numbers of an axis above a column of strips."""
    marks = [
        tag("text", format(tick, ".4g"), x=scale.percent(tick), y="14", text_anchor="middle")
        for tick in at
    ]
    return tag("svg", *marks, class_="strip axis", aria_hidden="true")


def strip(
    iqm: Interval | None,
    mean: Interval | None,
    scale: AxisScale,
    name: str | None,
    color: int | None,
) -> Markup:
    """Draws the interval plot of one row, as wide as its table cell.

    Args:
        iqm: Shown as dot and bar.
        mean: Shown as a tick, if given.
        scale: The axis.
        name: Name of the row, for people who do not see the drawing; `None` if the text beside it
            says the same.
        color: Number of the method; `None` for a gray circle.
    """
    zero, one = scale.percent(0.0), scale.percent(1.0)
    lines = [
        tag("line", x1=zero, x2=one, y1="50%", y2="50%", class_="range"),
        *(tag("line", x1=at, x2=at, y1="0", y2="100%", class_="anchor") for at in (zero, one)),
        *(_break(scale.percent(at)) for at in scale.breaks),
    ]
    if iqm is not None and iqm.known:
        ends = {"x1": scale.percent(iqm.low), "x2": scale.percent(iqm.high)}
        lines.append(tag("line", **ends, y1="50%", y2="50%", class_="bar"))
    if mean is not None and math.isfinite(mean.point):
        at = scale.percent(mean.point)
        lines.append(tag("line", x1=at, x2=at, y1="25%", y2="75%", class_="tick"))
    if iqm is not None and math.isfinite(iqm.point):
        lines.append(_dot(scale.percent(iqm.point), color))
    classes = "strip" if color is None else f"strip c{color}"
    if name is None:
        return tag("svg", *lines, class_=classes, aria_hidden="true")
    title = f"{name}: IQM {_spoken(iqm)}, mean {_spoken(mean)}"
    return tag("svg", tag("title", title), *lines, class_=classes, role="img")


_SERIES = {"came along": 0, "re-optimized": 11, "transferred": 22}
"""Policies of the chart of rewards, each with the number of its color and shape."""


def reward_chart(rows: Sequence[RewardBoardRow]) -> Markup:
    """Draws how policies score that came with learned rewards, and that were trained on them.

    Transferred policies were trained on the rewards with other dynamics: a mean over environments,
    from the worst to the best.

    Args:
        rows: Rows of one report section's reward board.
    """
    drawn = _reward_series(rows)
    scale = zoomed(interval for found in drawn.values() for interval in found.values())
    several = len({optimizer for *_, optimizer in drawn}) > 1
    body = []
    for (environment, algorithm, optimizer), found in drawn.items():
        where = f"{environment}{f', by {optimizer.upper()}' * several}"
        name = join(named(algorithm), tag("br"), tag("span", where, class_="ends"))
        shown = _series_strip(f"{algorithm} on {where}", found, scale)
        body.append(tag("tr", tag("th", name, scope="row"), tag("td", shown)))
    over = join(tag("span", "Scores, drawn", class_="hidden"), ticks(scale, marks(scale, 0.2)))
    head = tag("tr", tag("th", "Algorithm", scope="col"), tag("th", over, scope="col"))
    entries = [
        tag("li", named(series, "spotted", f"c{number}")) for series, number in _SERIES.items()
    ]
    what = (
        "Bars: Student's intervals over rewards; of transferred policies, from the worst to the "
        "best environment."
    )
    label = "Scores of policies by learned reward"
    table = tag(
        "table", tag("thead", head), tag("tbody", *body), class_="drawn series", aria_label=label
    )
    return tag(
        "figure",
        tag("ul", *entries, class_="legend policies"),
        tag("div", table, class_="scroll", role="region", aria_label=label, tabindex="0"),
        tag("figcaption", what),
    )


def _reward_series(
    rows: Sequence[RewardBoardRow],
) -> dict[tuple[str, str, str], dict[str, Interval]]:
    """Returns the intervals of each series, by environment, algorithm and optimizer."""
    drawn: dict[tuple[str, str, str], dict[str, Interval]] = {}
    moved: dict[tuple[str, str, str], list[float]] = {}
    came, fresh, transferred = _SERIES
    for row in rows:
        key = row.environment, row.algorithm, row.optimizer
        if row.tested_in is not None:
            if "reoptimized" in row.scores:
                moved.setdefault(key, []).append(row.scores["reoptimized"].point)
            continue
        own = drawn.setdefault(key, {})
        for series, policies in ((came, "learner"), (fresh, "reoptimized")):
            if policies in row.scores:
                own.setdefault(series, row.scores[policies])
    for key, points in moved.items():
        mean = float(np.mean(points))
        drawn.setdefault(key, {})[transferred] = Interval(mean, min(points), max(points), 1.0)
    return drawn


def _series_strip(name: str, found: Mapping[str, Interval], scale: AxisScale) -> Markup:
    """Draws intervals below each other on one axis."""
    lines = [
        tag("line", x1=scale.percent(at), x2=scale.percent(at), y1="0", y2="100%", class_="anchor")
        for at in (0.0, 1.0)
    ]
    lines += [_break(scale.percent(at)) for at in scale.breaks]
    for index, (series, number) in enumerate(_SERIES.items()):
        interval = found.get(series)
        if interval is None or not math.isfinite(interval.point):
            continue
        height = f"{100 * (index + 1) // (len(_SERIES) + 1)}%"
        parts = []
        if interval.known:
            ends = {"x1": scale.percent(interval.low), "x2": scale.percent(interval.high)}
            parts.append(tag("line", **ends, y1=height, y2=height, class_="bar"))
        parts.append(_dot(scale.percent(interval.point), number, height))
        lines.append(tag("g", *parts, class_=f"c{number}"))
    spoken = "; ".join(f"{series} {_spoken(found.get(series))}" for series in _SERIES)
    return tag("svg", tag("title", f"{name}: {spoken}"), *lines, class_="strip tall", role="img")


def _break(at: str, height: str = "50%") -> Markup:
    """Draws the sign of a change of scale, at a position in percent."""
    return tag("svg", tag("path", d="M-4 4L0-4M0 4L4-4", class_="break"), x=at, y=height)


_OUTLINES = {"triangle": "M0-5.5L5 4H-5Z", "cross": "M-2-5H2V-2H5V2H2V5H-2V2H-5V-2H-2Z"}
"""Paths of shapes that are no basic ones of SVG."""


def _dot(at: str, color: int | None, height: str = "50%") -> Markup:
    """Draws the point of a strip, at a position in percent, in the shape of its method."""
    shape = "circle" if color is None else shape_of(color)
    if shape == "circle":
        return tag("circle", cx=at, cy=height, r="4.5", class_="dot")
    if path := _OUTLINES.get(shape):
        drawn = tag("path", d=path, class_="dot")
    else:
        turned = "rotate(45)" if shape == "diamond" else None
        drawn = tag("rect", x="-4", y="-4", width="8", height="8", transform=turned, class_="dot")
    return tag("svg", drawn, x=at, y=height)


def _spoken(interval: Interval | None) -> str:
    if interval is None:
        return text.NOTHING
    point = text.score(interval.point)
    if not interval.known:
        return point
    return f"{point}, from {text.score(interval.low)} to {text.score(interval.high)}"


def profile_chart(profiles: Mapping[str, ConfidenceBand], colors: Mapping[str, int]) -> Markup:
    """Draws performance profiles with their bands."""
    at = next(iter(profiles.values())).at
    scale = AxisScale(float(at[0]), float(at[-1]))

    def x(score: float) -> float:
        return _LEFT + scale.share(score) * (_WIDTH - _LEFT - _RIGHT)

    def y(share: float) -> float:
        return _TOP + (1 - share) * (_HEIGHT - _TOP - _BOTTOM)

    parts = [*_grid(scale, x, y)]
    for name, band in profiles.items():
        if band.known:
            points = [*zip(at, band.high, strict=True), *zip(at[::-1], band.low[::-1], strict=True)]
            path = _points((x(s), y(v)) for s, v in points)
            parts.append(tag("polygon", points=path, class_=f"band c{colors[name]}"))
    for name, band in profiles.items():
        path = _points((x(s), y(v)) for s, v in zip(at, band.values, strict=True))
        title = tag("title", name)
        parts.append(tag("polyline", title, points=path, class_=f"curve c{colors[name]}"))
    shares = "; ".join(
        f"{name}: {_above(band, 0.5)} above 0.5, {_above(band, 0.9)} above 0.9"
        for name, band in profiles.items()
    )
    return _chart("Performance profiles", f"Share of runs. {shares}.", parts, _HEIGHT, "chart")


def _above(band: ConfidenceBand, score: float) -> str:
    return f"{np.interp(score, band.at, band.values):.0%}"


def _points(pairs: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in pairs)


def _grid(
    scale: AxisScale, x: Callable[[float], float], y: Callable[[float], float]
) -> list[Markup]:
    """Returns grid lines, numbers and labels of both axes."""
    left, right, bottom = x(scale.low), x(scale.high), y(0.0)
    parts = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(tag("line", x1=left, x2=right, y1=y(share), y2=y(share), class_="grid"))
        number = format(share, ".2f")
        parts.append(tag("text", number, x=left - 8, y=y(share) + 4, text_anchor="end"))
    for tick in scale.ticks():
        number = format(tick, ".4g")
        parts.append(tag("text", number, x=x(tick), y=bottom + 18, text_anchor="middle"))
    middle = (left + right) / 2
    parts.append(tag("text", "score τ", x=middle, y=bottom + 38, text_anchor="middle"))
    return parts


def legend(names: Iterable[str], colors: Mapping[str, int]) -> Markup:
    """Returns the legend: the color of each algorithm."""
    entries = [tag("li", named(name, "spotted", f"c{colors[name]}")) for name in names]
    return tag("ul", *entries, class_="legend")


def regime_chart(comparison: RegimeComparison, colors: Mapping[str, int]) -> Markup:
    """Draws the IQM of each method by regime, with its interval.

    Lines join regimes in which a method has results on the same environments.

    Args:
        comparison: Methods and regimes.
        colors: Number of each method, see `method_colors`.
    """
    names = [textwrap.wrap(regime, _REGIME_LETTERS) for regime in comparison.regimes]
    height = _HEIGHT + _LINE * (max(map(len, names)) - 1)
    scale = zoomed(one.iqm for own in comparison.results.values() for one in own if one)
    bottom = _HEIGHT - _BOTTOM
    step = (_WIDTH - _LEFT - _RIGHT) / len(names)

    def y(score: float) -> float:
        return bottom - scale.share(score) * (bottom - _TOP)

    parts = []
    for tick in marks(scale, apart=0.07):
        right = {"x1": _LEFT, "x2": _WIDTH - _RIGHT, "y1": y(tick), "y2": y(tick)}
        parts.append(tag("line", **right, class_="anchor" if tick in (0, 1) else "grid"))
        number = format(tick, ".4g")
        parts.append(tag("text", number, x=_LEFT - 8, y=y(tick) + 4, text_anchor="end"))
    parts += [_break(str(_LEFT), f"{y(at):.1f}") for at in scale.breaks]
    for column, lines in enumerate(names):
        for below, line in enumerate(lines):
            at = {"x": _LEFT + (column + 0.5) * step, "y": bottom + 18 + _LINE * below}
            parts.append(tag("text", line, **at, text_anchor="middle"))
    for order, name in enumerate(comparison.results, start=1):
        # Methods stand side by side, so that no interval hides another one.
        share = order / (len(comparison.results) + 1)
        xs = [_LEFT + (column + 0.2 + 0.6 * share) * step for column in range(len(names))]
        drawn = _regime_series(comparison, name, xs, y, colors.get(name))
        parts.append(tag("g", *drawn, class_=f"c{colors[name]}" if name in colors else None))
    spoken = "; ".join(
        f"{name}: "
        + ", ".join(
            f"{regime} {_spoken(one.iqm)}"
            for regime, one in zip(comparison.regimes, results, strict=True)
            if one is not None
        )
        for name, results in comparison.results.items()
    )
    label = f"IQM score by regime, {comparison.title}"
    chart = _chart(label, f"{spoken}.", parts, height, "chart")
    what = (
        "Dots and bars: IQM and its interval, by the number of demonstrations and what methods get "
        "of them. Lines join results on the same environments. Where the axis has the sign //, it "
        "is squeezed beyond."
    )
    return tag(
        "figure",
        legend([name for name in comparison.results if name in colors], colors),
        tag("div", chart, class_="scroll", tabindex="0", role="region", aria_label=label),
        tag("figcaption", what),
    )


def _regime_series(
    comparison: RegimeComparison,
    name: str,
    xs: Sequence[float],
    y: Callable[[float], float],
    color: int | None,
) -> list[Markup]:
    """Draws one method: lines between neighboring regimes, intervals, and dots with hints."""
    results = comparison.results[name]
    points = {
        index: (x, y(one.iqm.point))
        for index, (x, one) in enumerate(zip(xs, results, strict=True))
        if one is not None and one.iqm is not None
    }
    parts = [
        tag("polyline", points=_points([points[one], points[other]]), class_="curve")
        for one, other in comparison.joined(name)
    ]
    dots = []
    for index, (x, height) in points.items():
        one = results[index]
        assert one is not None
        assert one.iqm is not None
        if one.iqm.known:
            ends = {"y1": y(one.iqm.low), "y2": y(one.iqm.high)}
            parts.append(tag("line", x1=x, x2=x, **ends, class_="bar"))
        where = f"{comparison.regimes[index]}: {_spoken(one.iqm)}, {text.environments(one)}"
        hint = tag("title", f"{name}, {where}")
        dots.append(tag("g", hint, _dot(f"{x:.1f}", color, f"{height:.1f}")))
    return [*parts, *dots]


def race_charts(race: ReportedRace) -> Markup:
    """Draws each comparison of a race: difference, repeated interval, boundary and decision."""
    return join(
        *(
            _race_chart(race, pair, env, acting)
            for pair, env in race.found.outcomes
            for acting in race.design.ways
        )
    )


def _race_chart(race: ReportedRace, pair: Pair, environment: str | None, acting: Acting) -> Markup:
    design = race.design
    looks = race_tables.looks_of(race.found, pair, environment, acting)
    outcome = race_tables.verdict_word(race.found, pair, environment, acting)
    where = race_tables.view_name(design, environment, acting)
    title = f"{pair[0]} against {pair[1]}, {where}: {outcome}"
    if not looks:
        return tag("h3", title)
    ends = [
        design.margin,
        *(end for look in looks for end in (look.difference, look.low, look.high)),
    ]
    limit = max(abs(end) for end in ends if math.isfinite(end))
    top = 1.08 * limit

    def x(seeds: float) -> float:
        return _RACE_LEFT + seeds / (design.max_seeds + 1) * (_WIDTH - _RACE_LEFT - _RIGHT)

    def y(difference: float) -> float:
        return _TOP + (top - difference) / (2 * top) * (_RACE_HEIGHT - _TOP - _BOTTOM)

    left, right = x(0), x(design.max_seeds + 1)
    band = f"{left},{y(design.margin):.1f} {right},{y(design.margin):.1f} "
    band += f"{right},{y(-design.margin):.1f} {left},{y(-design.margin):.1f}"
    parts = [tag("polygon", points=band, class_="band c0")]
    parts += [
        tag("line", x1=left, x2=right, y1=y(value), y2=y(value), class_="grid")
        for value in (-limit, -design.margin, 0.0, design.margin, limit)
    ]
    parts += [
        tag("text", format(value, "+.2f"), x=left - 8, y=y(value) + 4, text_anchor="end")
        for value in (-limit, 0.0, limit)
    ]
    below = _RACE_HEIGHT - _BOTTOM + 18
    for look in looks:
        seeds = race_tables.seeds_at(look, design)
        at = x(seeds)
        if math.isfinite(look.low):
            parts.append(tag("line", x1=at, x2=at, y1=y(look.low), y2=y(look.high), class_="bar"))
        parts.append(tag("text", str(seeds), x=at, y=below, text_anchor="middle"))
        parts.append(tag("circle", cx=at, cy=y(look.difference), r="4.5", class_="dot"))
    for sign in (-1, 1):
        bound = _points(
            (x(race_tables.seeds_at(look, design)), y(sign * race_tables.half_width(look)))
            for look in looks
            if math.isfinite(look.low)
        )
        parts.append(tag("polyline", points=bound, class_="curve", stroke_dasharray="3 3"))
    middle = (left + right) / 2
    parts.append(tag("text", "seeds", x=middle, y=_RACE_HEIGHT - 8, text_anchor="middle"))
    differences = "; ".join(
        f"{race_tables.seeds_at(look, design)} seeds: {race_tables.difference_text(look)}"
        for look in looks
    )
    description = f"Difference with its repeated interval. {differences}."
    return join(tag("h3", title), _chart(title, description, parts, _RACE_HEIGHT, "chart c0"))


def _chart(
    title: str, description: str, parts: Iterable[Markup], height: int, classes: str
) -> Markup:
    head = tag("title", title), tag("desc", description)
    box = f"0 0 {_WIDTH} {height}"
    return tag("svg", *head, *parts, viewBox=box, role="img", class_=classes)
