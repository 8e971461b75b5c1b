"""One number for an algorithm on a suite.

All aggregates weight environments equally, however many runs each has: an environment with five
seeds counts as much as one with three. No run is ever left out to make counts even. Where all
environments have the same number of runs, the values are those of rliable.

Each takes `Scores` and returns float64 of the batch shape of `Strata.values`: shape () for plain
scores, shape (replicates,) for a batch of resamples. Any function of that form is a `Statistic`
and can be bootstrapped.

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
    """Mean over environments of the mean over runs.

    Ragged data: each environment enters with its own mean, so all weigh the same.

    Args:
        scores: Scores by environment.

    Returns:
        Shape (...), float64.

    Source: `aggregate_mean` of Agarwal et al. 2021.
    """
    return np.asarray(Strata.of(scores).means().mean(axis=-1))


def median(scores: Scores) -> FloatArray:
    """Median over environments of the mean over runs.

    Ragged data: each environment enters with its own mean, so all weigh the same.

    Args:
        scores: Scores by environment.

    Returns:
        Shape (...), float64.

    Source: `aggregate_median` of Agarwal et al. 2021.
    """
    return np.asarray(np.median(Strata.of(scores).means(), axis=-1))


def interquartile_mean(scores: Scores) -> FloatArray:
    """Mean of the middle half of all runs of all environments together (IQM).

    With equal run counts and N runs in all, floor(N / 4) runs are cut from each end, exactly as
    `scipy.stats.trim_mean(scores, 0.25, axis=None)` does.

    Ragged data: the value is that of the smallest data set with equal counts that repeats every
    run of an environment equally often. With n_e runs in environment e and L the least common
    multiple of all n_e, each run counts L / n_e times, and floor(L * environments / 4) counts
    are cut from each end; a run at the cut may be kept in part.

    Args:
        scores: Scores by environment.

    Returns:
        Shape (...), float64.

    Source: `aggregate_iqm` of Agarwal et al. 2021; the weighting is ours.
    """
    strata = Strata.of(scores)
    if len(set(strata.sizes)) == 1:
        runs = strata.values.shape[-1]
        cut = runs // 4
        # A full sort is vectorised in NumPy; a partition of short rows is ten times slower.
        return np.asarray(np.sort(strata.values, axis=-1)[..., cut : runs - cut].mean(axis=-1))
    return _weighted_interquartile_mean(strata)


def optimality_gap(scores: Scores, *, target: float = 1.0) -> FloatArray:
    """By how much runs fall short of a target on average; the lower the better.

    What a run scores beyond the target does not make up for what others fall short.

    Ragged data: the mean over environments of each one's mean shortfall, so all weigh the same.

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
    """The ragged case of `interquartile_mean`; correct, if slower, for equal counts too."""
    environments = len(strata.sizes)
    multiple = math.lcm(*strata.sizes)
    # In units in which an environment weighs 1, so that no large integers arise.
    cut = (multiple * environments // 4) / multiple
    # Weight up to and including each run in ascending order, then only what lies between the cuts.
    scores, upper = strata.ascending()
    np.cumsum(upper, axis=-1, out=upper)
    np.clip(upper, cut, environments - cut, out=upper)
    kept = np.empty_like(upper)
    np.subtract(upper[..., :1], cut, out=kept[..., :1])
    np.subtract(upper[..., 1:], upper[..., :-1], out=kept[..., 1:])
    total = np.einsum("...i,...i->...", kept, scores)
    return np.asarray(total / (upper[..., -1] - cut))
