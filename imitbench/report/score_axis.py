"""Axes of scores; that of drawn intervals is stretched where these are near each other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from imitbench.stats.bootstrap import Interval

_EDGE = 0.17
"""Share of the axis for what lies beyond each end of the zoomed part."""
_MOST = 0.6
"""Share of all scores that the zoomed part may cover; an axis that shows more has no breaks."""
_NEAR = 1.0
"""Distance of 0 or 1 from the compared intervals, in widths of these, up to which it is shown."""
_MARGIN = 0.06
_LEAST = 0.02


@dataclass(frozen=True)
class AxisScale:
    """The range of scores on an axis, from its left to its right end."""

    low: float
    high: float

    @property
    def breaks(self) -> tuple[float, ...]:
        """Scores where the scale changes; none on this axis."""
        return ()

    def share(self, score: float) -> float:
        """Returns the position of a score on the axis, from 0 to 1; clipped at the ends."""
        return min(1.0, max(0.0, (score - self.low) / (self.high - self.low)))

    def percent(self, score: float) -> str:
        """Returns the position of a score in percent, for SVG of variable width."""
        return f"{100 * self.share(score):.2f}%"

    def ticks(self) -> list[float]:
        """Returns round numbers on the axis, at most six."""
        raw = (self.high - self.low) / 5
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(power * unit for unit in (1, 2, 5, 10) if power * unit >= raw)
        first = math.ceil(self.low / step)
        return [round(k * step, 10) for k in range(first, math.floor(self.high / step) + 1)]


@dataclass(frozen=True)
class ZoomedScale(AxisScale):
    """An axis of which a part is stretched; what is beyond it, on either side, is squeezed.

    Attributes:
        zone_low: Score at the left end of the stretched part.
        zone_high: Score at its right end.
    """

    zone_low: float
    zone_high: float

    @property
    def breaks(self) -> tuple[float, ...]:
        """Scores where the scale changes, at most two."""
        ends = (self.zone_low, self.low), (self.zone_high, self.high)
        return tuple(end for end, limit in ends if end != limit)

    def share(self, score: float) -> float:
        """Returns the position of a score on the axis, from 0 to 1; clipped at the ends."""
        left = _EDGE if self.zone_low in self.breaks else 0.0
        right = 1.0 - _EDGE if self.zone_high in self.breaks else 1.0
        scores = (self.low, self.zone_low, self.zone_high, self.high)
        return float(np.interp(score, scores, (0.0, left, right, 1.0)))

    def ticks(self) -> list[float]:
        """Returns round numbers of the stretched part, at most six."""
        return AxisScale(self.zone_low, self.zone_high).ticks()


def marks(scale: AxisScale, apart: float = 0.13) -> list[float]:
    """Returns the numbers to write on an axis: 0, 1, and round ones that are not near others.

    Args:
        scale: The axis.
        apart: Least distance of two numbers, as a share of the axis.
    """
    kept = [0.0, 1.0]
    for tick in scale.ticks():
        if all(abs(scale.share(tick) - scale.share(other)) >= apart for other in kept):
            kept.append(tick)
    return sorted(kept)


def zoomed(
    compared: Iterable[Interval | None], others: Iterable[Interval | None] = ()
) -> AxisScale:
    """Returns an axis with 0, 1 and all intervals, stretched where most of the compared ones are.

    Compared intervals far from the rest, beyond Tukey's fences, do not widen the stretched part.

    Args:
        compared: Intervals of the rows that a reader compares.
        others: Intervals of other rows, such as controls.

    Source: Tukey (1977), "Exploratory Data Analysis".
    """
    ends = _ends(compared)
    known = [0.0, 1.0, *ends, *_ends(others)]
    margin = _MARGIN * (max(known) - min(known))
    low, high = min(known) - margin, max(known) + margin
    if not ends:
        return AxisScale(low, high)
    first, third = np.quantile(ends, [0.25, 0.75])
    reach = 1.5 * (third - first)
    inside = [end for end in ends if first - reach <= end <= third + reach]
    left, right = min(inside), max(inside)
    width = max(right - left, _LEAST)
    if right < 1.0 <= right + _NEAR * width:
        right = 1.0
    if left - _NEAR * width <= 0.0 < left:
        left = 0.0
    width = max(right - left, _LEAST)
    left, right = max(low, left - _MARGIN * width), min(high, right + _MARGIN * width)
    if right - left > _MOST * (high - low):
        return AxisScale(low, high)
    if left - low <= margin:
        left = low
    if high - right <= margin:
        right = high
    return ZoomedScale(low, high, left, right)


def _ends(intervals: Iterable[Interval | None]) -> Sequence[float]:
    given = [interval for interval in intervals if interval is not None]
    ends = [end for interval in given for end in (interval.point, interval.low, interval.high)]
    return [end for end in ends if math.isfinite(end)]
