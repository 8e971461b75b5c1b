"""Shares of successful episodes: their interval, and an exact test of two of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from imitbench.stats.bootstrap import Interval

if TYPE_CHECKING:
    from collections.abc import Sequence

# Places at which Barnard's p is computed, per standard deviation of the number of successes, and
# how far below the highest of them the neighborhood of a peak may be the highest.
_PER_DEVIATION = 8
_NEAR_HIGHEST = 0.99


def wilson_interval(successes: int, episodes: int, level: float = 0.95) -> Interval:
    """Returns a confidence interval of the probability that an episode succeeds.

    It is of one policy, or of given ones: how policies differ that other seeds would train is not
    in it.

    Args:
        successes: Number of successful episodes.
        episodes: Number of episodes, 1 or more.
        level: Confidence level in (0, 1).

    Source: Wilson 1927, "Probable inference, the law of succession, and statistical inference",
    as `scipy.stats.binomtest` has it.
    """
    from scipy.stats import binomtest

    found = binomtest(successes, episodes).proportion_ci(level, method="wilson")
    return Interval(successes / episodes, float(found.low), float(found.high), level)


def exact_p_value(first: Sequence[int], second: Sequence[int]) -> float:
    """Tests whether two policies succeed equally often, whatever that probability is.

    p is the largest probability, over all common probabilities of success, of a difference that is
    as extreme as the actual one by the statistic of the test of two shares (Wald's, pooled).
    `scipy.stats.barnard_exact` computes the same, but compares rounded statistics and searches a
    few places for the maximum: of one table in twenty its p is too small, of small tables by up to
    a fifth.

    Args:
        first: Number of successful episodes and of all episodes of one policy.
        second: The same of the other; episodes are independent.

    Returns:
        The two-sided p-value of Barnard's unconditional test.

    Source: Barnard 1945, "A new test for 2 × 2 tables"; Suissa and Shuster 1985, "Exact
    unconditional sample sizes for the 2 × 2 binomial trial" (the statistic).
    """
    (one, of_one), (other, of_other) = first, second
    if one * of_other == other * of_one:
        return 1.0  # equal shares, or nothing that varies
    shares = _extreme_shares(one, of_one, one + other, of_one + of_other)
    return min(1.0, _largest_mean(shares))


def _extreme_shares(
    one: int, of_one: int, successes: int, episodes: int
) -> npt.NDArray[np.float64]:
    """Returns how likely a difference is as extreme as the actual one, by number of successes.

    For k successes among N episodes, of which n are the first's, the squared statistic of x
    successes of the first is proportional to (N x - n k)² / (k (N - k)). Whole numbers are
    compared, so that equally extreme differences count.

    Args:
        one: Successes of the first.
        of_one: Episodes of the first.
        successes: Successes of both.
        episodes: Episodes of both.

    Returns:
        The probability given 0, 1, … `episodes` successes, shape (episodes + 1,).
    """
    from scipy.stats import hypergeom

    actual = (episodes * one - of_one * successes) ** 2
    varied = successes * (episodes - successes)
    given = np.arange(1, episodes)  # without variation, nothing is extreme
    below, above = [], []
    for count in range(1, episodes):
        # The smallest |N x - n k| that is as extreme.
        least = math.isqrt((actual * count * (episodes - count) - 1) // varied) + 1
        below.append((of_one * count - least) // episodes)
        above.append(-(-(of_one * count + least) // episodes))
    inner = hypergeom.cdf(below, episodes, given, of_one)
    inner += hypergeom.sf(np.array(above) - 1, episodes, given, of_one)
    return np.concatenate([[0.0], inner, [0.0]])


def _largest_mean(shares: npt.NDArray[np.float64]) -> float:
    """Returns the largest mean of values by the number of successes, over their probability.

    Args:
        shares: A value for 0, 1, … N successes, the same for k and N - k; shape (N + 1,).
    """
    from scipy.optimize import minimize_scalar
    from scipy.special import gammaln

    episodes = len(shares) - 1
    counts = np.arange(episodes + 1)
    # Faster than scipy.stats.binom, and as precise as is needed.
    ways = gammaln(episodes + 1) - gammaln(counts + 1) - gammaln(episodes - counts + 1)

    def mean(angle: Any) -> float:
        # The deviation of the angle is the same for all probabilities, 1 / (2 sqrt(N)).
        success, failure = 2 * math.log(math.sin(angle)), 2 * math.log(math.cos(angle))
        return float(np.exp(ways + counts * success + (episodes - counts) * failure) @ shares)

    places = math.ceil(_PER_DEVIATION * math.pi / 2 * math.sqrt(episodes)) + 1
    angles = np.linspace(0, math.pi / 4, places + 1)[1:]  # the rest is the same again
    means = np.array([mean(angle) for angle in angles])
    highest = float(means.max())
    for place in np.flatnonzero(means >= _NEAR_HIGHEST * highest).tolist():
        around = means[max(place - 1, 0) : place + 2]
        if means[place] == around.max():
            ends = angles[max(place - 1, 0)], angles[min(place + 1, places - 1)]
            peak = minimize_scalar(lambda angle: -mean(angle), bounds=ends, method="bounded")
            highest = max(highest, -float(peak.fun))
    return highest
