"""Bootstrap intervals: how sure an aggregate is, given the runs at hand."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from imitbench.stats.aggregates import Statistic
from imitbench.stats.strata import FloatArray, Resamples, Scores, Strata

CHUNK_ELEMENTS = 1 << 14
"""Scores drawn at a time: 128 KiB per buffer, so that all temporaries stay in the cache."""


@dataclass(frozen=True)
class Interval:
    """A point estimate with its percentile-bootstrap interval.

    Attributes:
        point: Statistic of the full sample.
        low: Lower end at `level`; NaN where no interval can be computed.
        high: Upper end at `level`; NaN likewise.
        level: Coverage, in (0, 1).
    """

    point: float
    low: float
    high: float
    level: float = 0.95

    @property
    def known(self) -> bool:
        """Whether there is an interval, not the point alone."""
        return not (math.isnan(self.low) or math.isnan(self.high))


def stratified_bootstrap(
    scores: Scores,
    statistic: Statistic,
    *,
    replicates: int = 50_000,
    level: float = 0.95,
    rng: np.random.Generator,
) -> Interval:
    """Resamples runs within each environment and recomputes a statistic.

    Args:
        scores: Scores by environment; run counts may differ.
        statistic: For example `imitbench.stats.aggregates.interquartile_mean`.
        replicates: Number of resamples.
        level: Coverage of the interval, in (0, 1).
        rng: Source of the resamples.

    Returns:
        The statistic and the central percentile interval of its resampled values. Where every
        environment has a single run nothing can be resampled: `low` and `high` are NaN. Where
        only some have one, those add no spread, and the interval is too narrow.

    Raises:
        ValueError: `scores` are unusable (see `Strata.of`), `replicates` is not positive or
            `level` is not inside (0, 1).

    Source: Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of the Statistical
    Precipice", section 4.1; percentile interval of Efron 1979.
    """
    intervals = stratified_bootstraps(
        scores, {"statistic": statistic}, replicates=replicates, level=level, rng=rng
    )
    return intervals["statistic"]


def stratified_bootstraps(
    scores: Scores,
    statistics: Mapping[str, Statistic],
    *,
    replicates: int = 50_000,
    level: float = 0.95,
    rng: np.random.Generator,
) -> dict[str, Interval]:
    """Bootstraps several statistics on the same resamples, which are drawn once.

    Args:
        scores: Scores by environment; run counts may differ.
        statistics: Statistics by name.
        replicates: Number of resamples.
        level: Coverage of the intervals, in (0, 1).
        rng: Source of the resamples.

    Returns:
        An interval per name, each equal to what `stratified_bootstrap` returns.

    Raises:
        ValueError: As `stratified_bootstrap` does.

    Source: as `stratified_bootstrap`.
    """
    if replicates < 1:
        raise ValueError(f"replicates must be at least 1, not {replicates}")
    if not 0 < level < 1:
        raise ValueError(f"level must lie inside (0, 1), not {level}")
    strata = Strata.of(scores)
    points = {name: float(statistic(strata)) for name, statistic in statistics.items()}
    if max(strata.sizes) == 1:
        return {name: Interval(point, math.nan, math.nan, level) for name, point in points.items()}
    estimates = {name: np.empty(replicates) for name in statistics}
    done = 0
    for chunk in resamples(strata, replicates, rng):
        after = done + len(chunk.values)
        for name, statistic in statistics.items():
            estimates[name][done:after] = statistic(chunk)
        done = after
    ends = ((1 - level) / 2, (1 + level) / 2)
    lows_highs = {name: np.quantile(values, ends) for name, values in estimates.items()}
    return {
        name: Interval(point, float(lows_highs[name][0]), float(lows_highs[name][1]), level)
        for name, point in points.items()
    }


def resamples(
    strata: Strata,
    replicates: int,
    rng: np.random.Generator,
    *,
    chunk_elements: int = CHUNK_ELEMENTS,
) -> Iterator[Resamples]:
    """Draws runs with replacement within each environment.

    Args:
        strata: One sample, values of shape (runs,).
        replicates: Number of resamples in all.
        rng: One uniform number is drawn per run and replicate, replicate after replicate, so
            the resamples do not depend on the size of the chunks.
        chunk_elements: Scores drawn at a time, which bounds memory; at least one replicate is.

    Yields:
        Batches with values of shape (replicates in this chunk, runs). They share one buffer:
        each is valid until the next is asked for.

    Source: the stratified bootstrap of Agarwal et al. 2021, section 4.1.
    """
    runs = strata.values.size
    rows = min(replicates, max(1, chunk_elements // runs))
    sizes = np.repeat(np.asarray(strata.sizes, dtype=np.float64), strata.sizes)
    starts = np.repeat(strata.starts, strata.sizes)
    order = np.argsort(strata.values)
    rank = np.empty_like(order)
    rank[order] = np.arange(runs)
    sample = strata.values[order], strata.weights[order]
    uniform: FloatArray = np.empty((rows, runs))
    indices, drawn = np.empty((2, rows, runs), dtype=np.intp)
    for first in range(0, replicates, rows):
        count = min(rows, replicates - first)
        draw, index = uniform[:count], indices[:count]
        rng.random(out=draw)
        draw *= sizes  # rounds to below n_e for every n_e, as uniform numbers end at 1 - 2**-53
        np.copyto(index, draw, casting="unsafe")
        index += starts
        np.take(strata.values, index, out=draw, mode="clip")
        np.take(rank, index, out=drawn[:count], mode="clip")
        yield Resamples(draw, strata.sizes, drawn[:count], sample)
