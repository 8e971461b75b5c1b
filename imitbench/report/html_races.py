"""Draws the looks of races for the HTML report."""

from __future__ import annotations

import math

from imitbench.report import race_tables
from imitbench.report.html_markup import Markup, join, tag
from imitbench.report.model import ReportedRace
from imitbench.stats.sequential import Look

_WIDTH, _HEIGHT = 640, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 16, 14, 46


def race_charts(race: ReportedRace) -> Markup:
    """Returns a chart per comparison: effect, repeated interval, boundary and decision."""
    return join(*(_chart(race, pair, place) for pair, place in race.found.outcomes))


def _chart(race: ReportedRace, pair: tuple[str, str], place: str | None) -> Markup:
    design = race.design
    looks = race_tables.looks_of(race.found, pair, place)
    outcome = race_tables.outcome_text(race.found, pair, place)
    title = f"{pair[0]} against {pair[1]}, {place or 'overall'}: {outcome}"
    if not looks:
        return tag("h3", title)
    ends = [design.margin, *(end for look in looks for end in _ends(look))]
    top = 1.08 * max(abs(end) for end in ends)

    def x(seeds: float) -> float:
        return _LEFT + seeds / (design.max_seeds + 1) * (_WIDTH - _LEFT - _RIGHT)

    def y(difference: float) -> float:
        return _TOP + (top - difference) / (2 * top) * (_HEIGHT - _TOP - _BOTTOM)

    left, right = x(0), x(design.max_seeds + 1)
    band = f"{left},{y(design.margin):.1f} {right},{y(design.margin):.1f} "
    band += f"{right},{y(-design.margin):.1f} {left},{y(-design.margin):.1f}"
    parts = [tag("polygon", points=band, class_="band c0")]
    parts += [
        tag("line", x1=left, x2=right, y1=y(value), y2=y(value), class_="grid")
        for value in (-top / 1.08, -design.margin, 0.0, design.margin, top / 1.08)
    ]
    for value in (-top / 1.08, 0.0, top / 1.08):
        number = format(value, "+.2f")
        parts.append(tag("text", number, x=left - 8, y=y(value) + 4, text_anchor="end"))
    points = []
    for look in looks:
        at = x(race_tables.seeds_at(look, design))
        if math.isfinite(look.low):
            parts.append(tag("line", x1=at, x2=at, y1=y(look.low), y2=y(look.high), class_="bar"))
        number = str(race_tables.seeds_at(look, design))
        parts.append(tag("text", number, x=at, y=_HEIGHT - _BOTTOM + 18, text_anchor="middle"))
        parts.append(tag("circle", cx=at, cy=y(look.difference), r="4.5", class_="dot"))
        points.append((at, look))
    for sign in (-1, 1):
        bound = " ".join(
            f"{at:.1f},{y(sign * race_tables.half_width(look)):.1f}"
            for at, look in points
            if math.isfinite(look.low)
        )
        parts.append(tag("polyline", points=bound, class_="curve", stroke_dasharray="3 3"))
    middle = (left + right) / 2
    parts.append(tag("text", "seeds", x=middle, y=_HEIGHT - 8, text_anchor="middle"))
    said = "; ".join(
        f"{race_tables.seeds_at(look, design)} seeds: {race_tables.difference_text(look)}"
        for look in looks
    )
    box = f"0 0 {_WIDTH} {_HEIGHT}"
    drawn = tag(
        "svg",
        tag("title", title),
        tag("desc", f"Difference with its repeated interval. {said}."),
        *parts,
        viewBox=box,
        role="img",
        class_="chart c0",
    )
    return join(tag("h3", title), drawn)


def _ends(look: Look) -> list[float]:
    known = [end for end in (look.low, look.high) if math.isfinite(end)]
    return [look.difference, *known]
