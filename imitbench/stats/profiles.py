"""Computes performance profiles: the share of runs, or environments, above each score."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from imitbench.stats.bootstrap import ConfidenceBand, check_options, percentile_band, resamples
from imitbench.stats.strata import FloatArray, Scores, Strata

ProfileKind: TypeAlias = Literal["runs", "environments"]
"""What a profile counts: single runs, or environments by the mean of their runs."""


def profile(scores: Scores, thresholds: npt.ArrayLike, *, kind: ProfileKind = "runs") -> FloatArray:
    """Returns the share of scores that exceed each threshold.

    Args:
        scores: Scores by environment.
        thresholds: Scores to exceed, shape (thresholds,).
        kind: `runs` is the run-score distribution: the share of runs, environments weighing
            equally for any number of runs. `environments` is the average-score distribution:
            the share of environments whose mean exceeds the threshold, which is a biased
            estimate with few runs, as it depends on their number.

    Returns:
        Shape (..., thresholds), descending from 1 to 0, with the batch shape of `Strata.values`.

    Raises:
        ValueError: Scores are unusable (see `Strata.of`), thresholds are not ascending finite
            numbers, or `kind` is unknown.

    Source: Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of the Statistical
    Precipice", section 4.2; Dolan and More 2002.
    """
    strata, at = Strata.of(scores), _ascending(thresholds)
    if kind == "environments":
        return np.asarray((strata.means()[..., None] > at).mean(axis=-2))
    if kind != "runs":
        raise ValueError(f"kind must be 'runs' or 'environments', not {kind!r}")
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
    kind: ProfileKind = "runs",
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
        kind: What is counted, see `profile`.
        replicates: Number of resamples, within each environment.
        level: Confidence level at each threshold, in (0, 1).
        rng: Source of the resamples.

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
    values = profile(strata, at, kind=kind)
    if max(strata.sizes) == 1:
        unknown = np.full(at.shape, np.nan)
        return ConfidenceBand(at, values, unknown, unknown.copy(), level)
    return percentile_band(
        at,
        values,
        lambda generator: resamples(strata, replicates, generator),
        lambda chunk, part: profile(chunk, at[part], kind=kind),
        replicates=replicates,
        level=level,
        rng=rng,
    )


def _ascending(thresholds: npt.ArrayLike) -> FloatArray:
    at = np.asarray(thresholds, dtype=np.float64)
    if at.ndim != 1 or not at.size or not np.isfinite(at).all() or (np.diff(at) <= 0).any():
        raise ValueError("thresholds: need ascending finite numbers, shape (thresholds,)")
    return at
