"""Computes bootstrap intervals, which show the uncertainty of aggregates over runs."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from imitbench.stats.aggregates import Statistic
from imitbench.stats.strata import FloatArray, Resamples, Scores, Strata, matched

_Drawn: TypeAlias = tuple[FloatArray, FloatArray]

CHUNK_ELEMENTS = 1 << 14
"""Number of scores drawn at a time: 128 KiB per buffer, so temporaries fit into the cache."""


@dataclass(frozen=True)
class Interval:
    """A point estimate with its percentile bootstrap interval.

    Attributes:
        point: Statistic of the full sample.
        low: Lower end at `level`; NaN where no interval can be computed.
        high: Upper end at `level`; NaN where no interval can be computed.
        level: Confidence level, in (0, 1).
        method: Method that computed the ends, for documents.
    """

    point: float
    low: float
    high: float
    level: float = 0.95
    method: Literal["percentile"] = "percentile"

    @property
    def known(self) -> bool:
        """Whether there is an interval."""
        return not (math.isnan(self.low) or math.isnan(self.high))


def no_interval(point: float, level: float) -> Interval:
    """Returns a point without an interval."""
    return Interval(point, math.nan, math.nan, level)


def percentile_interval(point: float, estimates: FloatArray, level: float) -> Interval:
    """Returns the interval of resampled values.

    Args:
        point: Statistic of the full sample.
        estimates: Values of resamples, shape (replicates,).
        level: Confidence level, in (0, 1).

    Source: Efron 1979, "Bootstrap Methods: Another Look at the Jackknife".
    """
    low, high = np.quantile(estimates, ((1 - level) / 2, (1 + level) / 2))
    return Interval(point, float(low), float(high), level)


@dataclass(frozen=True)
class ReferenceErrors:
    """Standard errors of the returns that are scores 0 and 1, as scores.

    Algorithms that share references also share their errors: the same seed gives the same draws on
    an environment, whatever else is drawn.

    Attributes:
        by_environment: Name, standard error of the return of score 0, and that of score 1, each
            divided by the difference of these returns; an environment that is not listed has none.
        seed: Seed of the draws.
    """

    by_environment: tuple[tuple[str, float, float], ...]
    seed: int = 0

    @lru_cache(maxsize=4)  # noqa: B019 (small, and shared by all algorithms of a table)
    def draws(self, environments: tuple[str, ...], replicates: int) -> _Drawn:
        """Draws normal errors of the references.

        Args:
            environments: Names of environments.
            replicates: Number of draws.

        Returns:
            The score of the true return of score 0, and how many times smaller than stated the
            difference of the two returns is, each of shape (replicates, environments), not to be
            changed.
        """
        known = {name: errors for name, *errors in self.by_environment}
        zero = np.zeros((replicates, len(environments)))
        scale = np.ones((replicates, len(environments)))
        for index, name in enumerate(environments):
            if name in known:
                rng = np.random.default_rng([self.seed, zlib.crc32(name.encode())])
                low, high = rng.standard_normal((2, replicates)) * np.array(known[name])[:, None]
                zero[:, index] = low
                # Returns that are too close to tell apart give no usable scale.
                scale[:, index] = 1 / np.maximum(1 + high - low, _LEAST_SCALE)
        return zero, scale


_LEAST_SCALE = 0.1


def stratified_bootstraps(
    scores: Scores,
    statistics: Mapping[str, Statistic],
    *,
    replicates: int = 50_000,
    level: float = 0.95,
    rng: np.random.Generator,
    errors: ReferenceErrors | None = None,
) -> dict[str, Interval]:
    """Resamples runs within each environment and recomputes statistics.

    Args:
        scores: Scores by environment; run counts may differ.
        statistics: Statistics by name, such as `imitbench.stats.aggregates.interquartile_mean`.
        replicates: Number of resamples, the same for all statistics.
        level: Confidence level of the intervals, in (0, 1).
        rng: Source of the resamples.
        errors: Errors of the references, of which each resample has its own draw. They widen
            intervals, and do not change points. Needs scores by name of the environment.

    Returns:
        By name, the statistic and the interval of its resampled values. If every environment has a
        single run, nothing can be resampled: `low` and `high` are NaN. If only some have one,
        those add no spread, and the interval is too narrow. If all scores of each environment are
        equal, and the references have no errors, both ends are the point: the runs show no spread,
        but the true spread may be larger.

    Raises:
        ValueError: `scores` are unusable (see `Strata.of`), `replicates` is not positive, or
            `level` is not inside (0, 1).

    Source: Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of the Statistical
    Precipice", section 4.1; percentile interval of Efron 1979.
    """
    check_options(replicates, level)
    strata = Strata.of(scores)
    points = {name: float(statistic(strata)) for name, statistic in statistics.items()}
    if max(strata.sizes) == 1:
        return {name: no_interval(point, level) for name, point in points.items()}
    drawn = _drawn(errors, scores, replicates)
    estimates = resampled(strata, statistics, replicates, rng, drawn)
    return {name: percentile_interval(points[name], estimates[name], level) for name in statistics}


def _drawn(errors: ReferenceErrors | None, scores: Scores, replicates: int) -> _Drawn | None:
    """Returns the errors of references in each resample, by environment in the order of strata."""
    if errors is None or not errors.by_environment:
        return None
    if not isinstance(scores, Mapping):
        raise ValueError("scores: errors of references need the names of environments")
    return errors.draws(tuple(sorted(scores)), replicates)


def bootstrap_differences(
    first: Scores,
    second: Scores,
    statistics: Mapping[str, Statistic],
    *,
    replicates: int = 50_000,
    level: float = 0.95,
    rng: np.random.Generator,
    errors: ReferenceErrors | None = None,
) -> dict[str, Interval]:
    """Bootstraps the differences of two algorithms' statistics; resamples runs independently.

    Args:
        first: Scores of one algorithm by environment.
        second: Scores of the other. Both need the same environments for a meaningful difference;
            see `imitbench.stats.coverage.compared_coverage`. Run counts may differ.
        statistics: Statistics by name.
        replicates: Number of resamples.
        level: Confidence level of the intervals, in (0, 1).
        rng: Source of the resamples: those of `first` are all drawn before those of `second`.
        errors: Errors of the references, as for `stratified_bootstraps`; both algorithms share
            each draw.

    Returns:
        An interval per name of statistic(first) - statistic(second): positive where the first
        is higher. Unknown if neither algorithm has two runs in any environment; too narrow if
        only one has.

    Raises:
        ValueError: As `stratified_bootstraps` does, or environments differ.

    Source: as `stratified_bootstraps`.
    """
    check_options(replicates, level)
    one, other = matched(first, second)
    points = {
        name: float(statistic(one)) - float(statistic(other))
        for name, statistic in statistics.items()
    }
    if max(one.sizes + other.sizes) == 1:
        return {name: no_interval(point, level) for name, point in points.items()}
    drawn = _drawn(errors, first, replicates)
    ours = resampled(one, statistics, replicates, rng, drawn)
    theirs = resampled(other, statistics, replicates, rng, drawn)
    return {
        name: percentile_interval(points[name], ours[name] - theirs[name], level)
        for name in statistics
    }


def check_options(replicates: int, level: float) -> None:
    """Checks the options of a bootstrap.

    Raises:
        ValueError: An option is out of range; the message names it.
    """
    if replicates < 1:
        raise ValueError(f"replicates must be at least 1, not {replicates}")
    if not 0 < level < 1:
        raise ValueError(f"level must be inside (0, 1), not {level}")


def resampled(
    strata: Strata,
    statistics: Mapping[str, Statistic],
    replicates: int,
    rng: np.random.Generator,
    drawn: _Drawn | None = None,
) -> dict[str, FloatArray]:
    """Computes statistics of resamples, drawn chunk by chunk.

    Args:
        strata: One sample, values of shape (runs,).
        statistics: Statistics by name.
        replicates: Number of resamples.
        rng: See `resamples`.
        drawn: What `ReferenceErrors.draws` returns for the environments of the strata.

    Returns:
        By name, shape (replicates,): the i-th numbers of all come from the same resample.
    """
    estimates = {name: np.empty(replicates) for name in statistics}
    done = 0
    for chunk in resamples(strata, replicates, rng):
        after = done + len(chunk.values)
        sample: Strata = chunk
        if drawn is not None:
            sample = _moved(chunk, drawn[0][done:after], drawn[1][done:after])
        for name, statistic in statistics.items():
            estimates[name][done:after] = statistic(sample)
        done = after
    return estimates


def _moved(chunk: Strata, zero: FloatArray, scale: FloatArray) -> Strata:
    """Returns scores with other references, in the buffer of the chunk.

    Args:
        chunk: Resamples, which lose their order.
        zero: See `ReferenceErrors.draws`, shape (replicates in this chunk, environments).
        scale: As `zero`.
    """
    rows, environments = zero.shape
    if len(set(chunk.sizes)) == 1:
        columns = [chunk.values.reshape(rows, environments, -1)]
        moves = [(zero[:, :, None], scale[:, :, None])]
    else:
        columns = chunk.columns()
        moves = [(zero[:, [at]], scale[:, [at]]) for at in range(environments)]
    for column, (low, factor) in zip(columns, moves, strict=True):
        column -= low
        column *= factor
    return Strata(chunk.values, chunk.sizes)


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
        replicates: Total number of resamples.
        rng: Source of one uniform number per run and replicate, in the order of replicates, so
            the resamples do not depend on the size of the chunks.
        chunk_elements: Number of scores drawn at a time, which bounds memory; each chunk has at
            least one replicate.

    Yields:
        Batches with values of shape (replicates in this chunk, runs). They share one buffer:
        each is valid until the next is requested.

    Source: the stratified bootstrap of Agarwal et al. 2021, section 4.1.
    """
    order = np.argsort(strata.values)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    sample = strata.values[order], strata.weights[order]
    for index, values in resampled_indices(strata.sizes, replicates, rng, chunk_elements):
        np.take(strata.values, index, out=values, mode="clip")
        drawn = rank.take(index, mode="clip")
        yield Resamples(values, strata.sizes, drawn, sample)


def resampled_indices(
    sizes: tuple[int, ...], replicates: int, rng: np.random.Generator, chunk_elements: int
) -> Iterator[tuple[npt.NDArray[np.intp], FloatArray]]:
    """Draws the indices of resampled runs; arguments as for `resamples`, which draws the same.

    Yields:
        Indices of shape (replicates in this chunk, runs), each inside its own stratum, and a
        scratch buffer of this shape; valid until the next are requested.
    """
    runs = sum(sizes)
    rows = min(replicates, max(1, chunk_elements // runs))
    counts = np.repeat(np.asarray(sizes, dtype=np.float64), sizes)
    starts = np.repeat(np.cumsum((0, *sizes[:-1])), sizes)
    uniform: FloatArray = np.empty((rows, runs))
    indices = np.empty((rows, runs), dtype=np.intp)
    for first in range(0, replicates, rows):
        count = min(rows, replicates - first)
        draw, index = uniform[:count], indices[:count]
        rng.random(out=draw)
        draw *= counts  # rounds to below n_e for every n_e, as uniform numbers end at 1 - 2**-53
        np.copyto(index, draw, casting="unsafe")
        index += starts
        yield index, draw


@dataclass(frozen=True, eq=False)
class ConfidenceBand:
    """A curve with an interval at each of its points.

    Intervals are pointwise: each has the coverage `level` at its own point. The whole curve is
    inside the band less often.

    Attributes:
        at: Points of the curve, ascending, shape (points,).
        values: Values of the curve at these points, shape (points,).
        low: Lower ends, shape (points,); NaN where no interval can be computed.
        high: Upper ends, shape (points,); NaN where no interval can be computed.
        level: Confidence level of each interval, in (0, 1).
    """

    at: FloatArray
    values: FloatArray
    low: FloatArray
    high: FloatArray
    level: float

    @property
    def known(self) -> bool:
        """Whether all points have intervals."""
        return not bool(np.isnan(self.low).any() or np.isnan(self.high).any())
