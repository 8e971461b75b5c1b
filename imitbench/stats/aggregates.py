"""Aggregates the scores of an algorithm on a suite to one number.

All aggregates weight environments equally, for any number of runs: an environment with five
seeds counts as much as one with three. No run is dropped to make counts equal. Where all
environments have the same number of runs, the values are those of rliable.

Each function takes `Scores` and returns float64 of the batch shape of `Strata.values`: shape ()
for plain scores, shape (replicates,) for a batch of resamples. Any function of that form is a
`Statistic` and can be bootstrapped.

Source: Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of the Statistical
Precipice", section 4.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from imitbench.stats.strata import FloatArray, Scores, Strata

Statistic: TypeAlias = Callable[[Strata], FloatArray]
"""Maps strata with values of shape (..., runs) to float64 of shape (...)."""


def mean(scores: Scores) -> FloatArray:
    """Returns the mean over environments of the mean over runs.

    Args:
        scores: Scores by environment.

    Returns:
        Shape (...), float64.

    Source: `aggregate_mean` of Agarwal et al. 2021.
    """
    return np.asarray(Strata.of(scores).means().mean(axis=-1))


def median(scores: Scores) -> FloatArray:
    """Returns the median over environments of the mean over runs.

    Args:
        scores: Scores by environment.

    Returns:
        Shape (...), float64.

    Source: `aggregate_median` of Agarwal et al. 2021.
    """
    return np.asarray(np.median(Strata.of(scores).means(), axis=-1))


def interquartile_mean(scores: Scores) -> FloatArray:
    """Returns the mean of the middle half of all runs of all environments together (IQM).

    With equal run counts and N runs in total, floor(N / 4) runs are cut from each end, exactly as
    `scipy.stats.trim_mean(scores, 0.25, axis=None)` does.

    Ragged data: the value is that of the smallest data set with equal counts that repeats every
    run of an environment equally often. With n_e runs in environment e and L the least common
    multiple of all n_e, each run counts L / n_e times, and floor(L * environments / 4) counts
    are cut from each end; a run at the cut may be kept in part.

    Args:
        scores: Scores by environment.

    Returns:
        Shape (...), float64.

    Source: `aggregate_iqm` of Agarwal et al. 2021; the weighting is added here.
    """
    strata = Strata.of(scores)
    if len(set(strata.sizes)) == 1:
        runs = strata.values.shape[-1]
        cut = runs // 4
        # A full sort is vectorised in NumPy; a partition of short rows is ten times slower.
        return np.asarray(np.sort(strata.values, axis=-1)[..., cut : runs - cut].mean(axis=-1))
    return _weighted_interquartile_mean(strata)


def optimality_gap(scores: Scores, *, target: float = 1.0) -> FloatArray:
    """Returns the mean shortfall of runs below a target; lower is better.

    Scores above the target do not compensate for shortfalls of other runs.

    Args:
        scores: Scores by environment.
        target: Score that counts as solved; 1 is the expert's.

    Returns:
        Shape (...), float64; 0 where all runs reach the target.

    Source: `aggregate_optimality_gap` of Agarwal et al. 2021.
    """
    strata = Strata.of(scores)
    capped = Strata(np.minimum(strata.values, target), strata.sizes)
    return np.asarray(target - capped.means().mean(axis=-1))


def _weighted_interquartile_mean(strata: Strata) -> FloatArray:
    """Computes the IQM of ragged data; also correct, but slower, for equal counts."""
    environments = len(strata.sizes)
    multiple = math.lcm(*strata.sizes)
    # Each environment has weight 1, which avoids large integers.
    cut = (multiple * environments // 4) / multiple
    # Cumulative weights in ascending order of scores, then the part between the cuts.
    scores, upper = strata.ascending()
    np.cumsum(upper, axis=-1, out=upper)
    np.clip(upper, cut, environments - cut, out=upper)
    kept = np.empty_like(upper)
    np.subtract(upper[..., :1], cut, out=kept[..., :1])
    np.subtract(upper[..., 1:], upper[..., :-1], out=kept[..., 1:])
    total = np.einsum("...i,...i->...", kept, scores)
    return np.asarray(total / (upper[..., -1] - cut))
