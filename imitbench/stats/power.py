"""Estimates how many more seeds would decide a comparison."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from imitbench.stats.significance import standard_error, variances, welch
from imitbench.stats.strata import FloatArray, Scores, matched

Outlook: TypeAlias = Literal["decided", "estimated", "no effect", "too many", "unknown spread"]
"""Basis of an estimate of seeds, or the reason why there is no estimate."""


TARGET_POWER = 0.8
"""Power that the estimated number of seeds reaches."""

MOST_SEEDS = 1000
"""Largest number of seeds to add."""


@dataclass(frozen=True)
class SeedEstimate:
    """Estimate of how many more seeds would decide between two algorithms.

    Attributes:
        more: Seeds to add to both algorithms on each environment; 0 if the data already decide,
            `None` if there is no estimate.
        outlook: `decided`: Welch's test rejects equality at `significance`. `estimated`: `more`
            is an estimate. `no effect`: means are equal, so that no number of seeds can be
            estimated. `too many`: more than `most` would be needed. `unknown spread`: a cell has a
            single run, or no cell shows any spread.
        effect: Difference of means over environments, first less second, in the data.
        standard_error: Standard error of the effect, with the current seeds; NaN if unknown.
        power: Probability to decide with `more` seeds added, if the true effect and spread are
            those of the data; `None` if `more` is not an estimate.
        significance: Level of the two-sided test.
        target: `TARGET_POWER`.
        most: `MOST_SEEDS`.
    """

    more: int | None
    outlook: Outlook
    effect: float
    standard_error: float
    power: float | None
    significance: float
    target: float
    most: int


def seeds_to_decide(first: Scores, second: Scores, *, significance: float = 0.05) -> SeedEstimate:
    """Estimates the seeds after which Welch's test would probably distinguish two algorithms.

    Assumes that effect and variances in the data are the true ones, and finds the smallest number
    of seeds, added to both algorithms on each environment, with which the two-sided test has
    `TARGET_POWER` (noncentral t distribution, degrees of freedom by Welch and Satterthwaite).

    Use it for planning. The estimate is rough if there are few runs: with five seeds the error of
    the effect may be as large as the effect, and if methods are equal, the estimate follows the
    noise. Do not test again after each added seed and stop at the first p below the level: this
    finds false differences more often than the level. Fix the number of seeds first.

    Args:
        first: Scores by environment.
        second: Scores on the same environments; run counts may differ.
        significance: Level of the two-sided test, in (0, 1).

    Returns:
        The estimate of additional seeds.

    Raises:
        ValueError: Scores are unusable, environments differ, or an option is out of range.

    Source: Cohen 1988, "Statistical Power Analysis for the Behavioral Sciences", chapter 2; for
    reinforcement learning Colas et al. 2018, "How Many Random Seeds?".
    """
    if not 0 < significance < 1:
        raise ValueError(f"significance must be inside (0, 1), not {significance}")
    now = welch(first, second, level=1 - significance)

    def answer(outlook: Outlook, more: int | None, power: float | None = None) -> SeedEstimate:
        return SeedEstimate(
            more=more,
            outlook=outlook,
            effect=now.difference,
            standard_error=now.standard_error,
            power=power,
            significance=significance,
            target=TARGET_POWER,
            most=MOST_SEEDS,
        )

    if math.isnan(now.standard_error):
        return answer("unknown spread", None)
    if now.difference == 0:
        return answer("no effect", None)
    if now.standard_error == 0:
        return answer("unknown spread", None)
    if now.p_value <= significance:
        return answer("decided", 0)
    one, other = matched(first, second)
    spread = variances(first, second)
    sizes = np.array(one.sizes + other.sizes, dtype=np.float64)

    def power(more: int) -> float:
        return _power(now.difference, spread, sizes + more, significance)

    if not power(MOST_SEEDS) >= TARGET_POWER:
        return answer("too many", None)
    low, high = 0, MOST_SEEDS  # power(low) is below the target, or low is 0; power(high) is not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power(middle) >= TARGET_POWER else (middle, high)
    return answer("estimated", high, power(high))


def _power(effect: float, spread: FloatArray, sizes: FloatArray, significance: float) -> float:
    """Returns the probability that Welch's test finds the effect, with its sign."""
    from scipy.special import nctdtr, stdtrit

    error, degrees = standard_error(spread, sizes)
    critical = float(stdtrit(degrees, 1 - significance / 2))
    away = abs(effect) / error
    missed = float(nctdtr(degrees, away, critical))
    return 1.0 if math.isnan(missed) else 1 - missed  # NaN only if the power is 1
