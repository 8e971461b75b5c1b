"""Computes performance profiles: the share of runs above each score."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from imitbench.stats.bootstrap import ConfidenceBand, check_options, resamples
from imitbench.stats.strata import FloatArray, Scores, Strata

MAX_HELD = 1 << 23
"""Maximum number of resampled values in memory, 64 MiB; longer curves are split into parts."""


def profile(scores: Scores, thresholds: npt.ArrayLike) -> FloatArray:
    """Returns the share of runs that exceed each threshold; environments weigh equally.

    Args:
        scores: Scores by environment.
        thresholds: Scores to exceed, shape (thresholds,).

    Returns:
        Shape (..., thresholds), descending from 1 to 0, with the batch shape of `Strata.values`.

    Raises:
        ValueError: Scores are unusable (see `Strata.of`), or thresholds are not ascending finite
            numbers.

    Source: the run-score distribution of Agarwal et al. 2021, "Deep Reinforcement Learning at the
    Edge of the Statistical Precipice", section 4.2; Dolan and More 2002.
    """
    strata, at = Strata.of(scores), _ascending(thresholds)
    ordered, weights = strata.ascending()
    if ordered.ndim > 1:  # each sample has its own order
        above = (strata.values[..., None] > at) * strata.weights[:, None]
        return np.asarray(above.sum(axis=-2) / len(strata.sizes))
    # All samples have the same order: the scores up to a threshold are a prefix.
    upto = np.zeros((*weights.shape[:-1], weights.shape[-1] + 1))
    np.cumsum(weights, axis=-1, out=upto[..., 1:])
    reached = upto[..., np.searchsorted(ordered, at, side="right")]
    return np.asarray(np.clip(1 - reached / len(strata.sizes), 0.0, 1.0))


def performance_profile(
    scores: Scores,
    thresholds: npt.ArrayLike,
    *,
    replicates: int = 50_000,
    level: float = 0.95,
    rng: np.random.Generator,
) -> ConfidenceBand:
    """Computes a performance profile with a pointwise bootstrap band.

    Profiles of several algorithms are comparable only over the same environments; see
    `imitbench.stats.coverage.compared_coverage`.

    Args:
        scores: Scores by environment; run counts may differ.
        thresholds: Scores to exceed, ascending, shape (thresholds,).
        replicates: Number of resamples, within each environment.
        level: Confidence level at each threshold, in (0, 1).
        rng: Source of one number, the seed of the resamples.

    Returns:
        The band, with thresholds as `at` and shares as `values`. Ends are NaN if every
        environment has a single run. Outside the range of scores the band has no width, as
        resamples contain no other scores.

    Raises:
        ValueError: As `profile`, or `replicates` is not positive, or `level` not inside (0, 1).

    Source: as `profile`; the band by percentiles, Efron 1979.
    """
    check_options(replicates, level)
    strata, at = Strata.of(scores), _ascending(thresholds)
    values = profile(strata, at)
    if max(strata.sizes) == 1:
        unknown = np.full(at.shape, np.nan)
        return ConfidenceBand(at, values, unknown, unknown.copy(), level)
    seed = int(rng.integers(1 << 63))  # the same for each part, so that parts change nothing
    low, high = np.empty((2, at.size))
    step = max(1, MAX_HELD // replicates)
    for begin in range(0, at.size, step):
        part = slice(begin, min(begin + step, at.size))
        held: FloatArray = np.empty((part.stop - begin, replicates))
        done = 0
        for chunk in resamples(strata, replicates, np.random.default_rng(seed)):
            curves = profile(chunk, at[part])
            held[:, done : done + len(curves)] = curves.T
            done += len(curves)
        low[part], high[part] = np.quantile(held, ((1 - level) / 2, (1 + level) / 2), axis=1)
    return ConfidenceBand(at, values, low, high, level)


def _ascending(thresholds: npt.ArrayLike) -> FloatArray:
    at = np.asarray(thresholds, dtype=np.float64)
    if at.ndim != 1 or not at.size or not np.isfinite(at).all() or (np.diff(at) <= 0).any():
        raise ValueError("thresholds: need ascending finite numbers, shape (thresholds,)")
    return at
