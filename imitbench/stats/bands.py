"""Bootstrap bands: an interval at each point of a curve."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from imitbench.stats.strata import FloatArray

MAX_HELD = 1 << 23
"""Resampled values held at a time, 64 MiB; curves of more are worked off in parts."""

Chunk = TypeVar("Chunk")


@dataclass(frozen=True, eq=False)
class ConfidenceBand:
    """A curve with an interval at each of its points.

    Intervals are pointwise: each covers with `level` at its own point, and the whole curve lies
    inside the band less often than that.

    Attributes:
        at: Where the curve is known, ascending, shape (points,).
        values: Its values there, shape (points,).
        low: Lower ends, shape (points,); NaN where no interval can be computed.
        high: Upper ends, likewise.
        level: Coverage of each, in (0, 1).
    """

    at: FloatArray
    values: FloatArray
    low: FloatArray
    high: FloatArray
    level: float

    @property
    def known(self) -> bool:
        """Whether there are intervals, not the curve alone."""
        return not bool(np.isnan(self.low).any() or np.isnan(self.high).any())


def percentile_band(
    at: FloatArray,
    values: FloatArray,
    draws: Callable[[np.random.Generator], Iterator[Chunk]],
    compute: Callable[[Chunk, slice], FloatArray],
    *,
    replicates: int,
    level: float,
    rng: np.random.Generator,
) -> ConfidenceBand:
    """Bands from percentiles of resampled curves, in memory bounded by `MAX_HELD`.

    Args:
        at: Points of the curve, shape (points,).
        values: The curve of the full sample, shape (points,).
        draws: Yields chunks of resamples, `replicates` in all; called with generators in the
            same state, once per part of the curve, so that parts do not change the outcome.
        compute: From a chunk, the curve at a part of the points, shape (replicates in this chunk,
            points of the part).
        replicates: Number of resamples.
        level: Coverage, in (0, 1).
        rng: One number is drawn, the seed of the resamples.

    Returns:
        The band.
    """
    seed = int(rng.integers(1 << 63))
    low, high = np.empty((2, at.size))
    step = max(1, MAX_HELD // replicates)
    for begin in range(0, at.size, step):
        part = slice(begin, min(begin + step, at.size))
        held: FloatArray = np.empty((part.stop - begin, replicates))
        done = 0
        for chunk in draws(np.random.default_rng(seed)):
            curves = compute(chunk, part)
            held[:, done : done + len(curves)] = curves.T
            done += len(curves)
        low[part], high[part] = np.quantile(held, ((1 - level) / 2, (1 + level) / 2), axis=1)
    return ConfidenceBand(at, values, low, high, level)
