"""Computes bootstrap intervals from resampled values: by percentiles, or corrected (BCa)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal, TypeAlias

import numpy as np

from imitbench.stats.aggregates import Statistic
from imitbench.stats.strata import FloatArray, Strata

IntervalMethod: TypeAlias = Literal["percentile", "bca"]
"""Method that computes the ends of an interval."""

_NORMAL = NormalDist()


@dataclass(frozen=True)
class Interval:
    """A point estimate with its bootstrap interval.

    Attributes:
        point: Statistic of the full sample.
        low: Lower end at `level`; NaN where no interval can be computed.
        high: Upper end at `level`; NaN where no interval can be computed.
        level: Confidence level, in (0, 1).
        method: Method that computed the ends: `percentile` if BCa was requested but is not defined.
    """

    point: float
    low: float
    high: float
    level: float = 0.95
    method: IntervalMethod = "percentile"

    @property
    def known(self) -> bool:
        """Whether there is an interval."""
        return not (math.isnan(self.low) or math.isnan(self.high))


def no_interval(point: float, level: float, method: IntervalMethod = "percentile") -> Interval:
    """Returns a point without an interval."""
    return Interval(point, math.nan, math.nan, level, method)


def interval(
    point: float,
    estimates: FloatArray,
    level: float,
    influences: Sequence[FloatArray] | None = None,
) -> Interval:
    """Computes an interval from resampled values.

    BCa shifts the percentiles by a bias correction, the share of values below the point (ties
    count half), and by an acceleration, the skewness of the influence of single runs. It is
    second-order correct, which percentiles are not. Neither can show a spread that is not present
    in few runs.

    Degenerate cases: if all influences are 0, the acceleration is 0. If all values are on one side
    of the point, or the correction is outside the range in which it is defined, the interval is
    that of the percentiles, and its `method` is `percentile`.

    Args:
        point: Statistic of the full sample.
        estimates: Values of resamples, shape (replicates,).
        level: Confidence level, in (0, 1).
        influences: Influences of the runs of each stratum, see `influences`; `None` for the
            percentile interval.

    Returns:
        The interval. It may exclude its own point if the bootstrap finds a large bias.

    Source: Efron 1979, "Bootstrap Methods: Another Look at the Jackknife"; Efron 1987, "Better
    Bootstrap Confidence Intervals", equations 2.3 and 6.6; for several strata Davison and Hinkley
    1997, "Bootstrap Methods and their Application", section 5.3.2.
    """
    shares = ((1 - level) / 2, (1 + level) / 2)
    corrected = None if influences is None else _corrected(point, estimates, shares, influences)
    low, high = np.quantile(estimates, corrected or shares)
    return Interval(point, float(low), float(high), level, "bca" if corrected else "percentile")


def influences(strata: Strata, statistic: Statistic) -> list[FloatArray]:
    """Computes how much single runs change a statistic, by omitting one run at a time.

    Args:
        strata: One sample, values of shape (runs,).
        statistic: The statistic to compute.

    Returns:
        For each environment with n >= 2 runs, shape (n,): (n - 1) * (mean(s) - s_i), where s_i is
        the statistic without run i, and mean(s) the mean of these over the environment's runs.

    Source: the jackknife values of Efron 1987, section 6; per stratum as in Davison and Hinkley
    1997, section 3.2.1.
    """
    found = []
    places = np.arange(strata.values.size - 1)
    noise = 1e-13 * float(np.abs(strata.values).max())
    for stratum, (start, size) in enumerate(zip(strata.starts, strata.sizes, strict=True)):
        if size == 1:
            continue
        left_out = start + np.arange(size)[:, None]
        values = strata.values[places + (places >= left_out)]
        sizes = tuple(n - (i == stratum) for i, n in enumerate(strata.sizes))
        without = statistic(Strata(values, sizes))
        moved = without.mean() - without
        # Rounding is not an influence: its skewness would give a false acceleration.
        moved[np.abs(moved) <= noise] = 0.0
        found.append((size - 1) * moved)
    return found


def _corrected(
    point: float,
    estimates: FloatArray,
    shares: tuple[float, float],
    influences: Sequence[FloatArray],
) -> tuple[float, float] | None:
    """Returns the percentiles that BCa uses instead of `shares`; `None` if BCa is not defined."""
    # Ties differ by rounding, as sums are computed in different orders.
    slack = 1e-9 * float(np.ptp(estimates)) + 1e-13 * abs(point)
    below = np.count_nonzero(estimates < point - slack)
    ties = np.count_nonzero(np.abs(estimates - point) <= slack)
    share_below = float(below + ties / 2) / estimates.size
    if not 0 < share_below < 1:
        return None
    bias = _NORMAL.inv_cdf(share_below)
    acceleration = _acceleration(influences)
    ends = []
    for share in shares:
        moved = bias + _NORMAL.inv_cdf(share)
        stretch = 1 - acceleration * moved
        if stretch <= 0:
            return None
        ends.append(_NORMAL.cdf(bias + moved / stretch))
    return ends[0], ends[1]


def _acceleration(influences: Sequence[FloatArray]) -> float:
    """Returns a sixth of the skewness of the statistic, as far as it is linear in the runs."""
    squares = sum(float((values**2).sum()) / values.size**2 for values in influences)
    cubes = sum(float((values**3).sum()) / values.size**3 for values in influences)
    scale = 6 * squares**1.5
    return cubes / scale if scale > 0 else 0.0
