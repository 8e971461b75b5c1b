"""Shares of successful episodes: their interval, and an exact test of two of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imitbench.stats.bootstrap import Interval

if TYPE_CHECKING:
    from collections.abc import Sequence


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

    Args:
        first: Number of successful episodes and of all episodes of one policy.
        second: The same of the other; episodes are independent.

    Returns:
        The two-sided p-value of Barnard's unconditional test.

    Source: Barnard 1945, "A new test for 2 × 2 tables", as `scipy.stats.barnard_exact` has it.
    """
    from scipy.stats import barnard_exact

    (one, of_one), (other, of_other) = first, second
    if one + other in (0, of_one + of_other):
        return 1.0  # nothing varies, and the statistic of the test is undefined
    table = [[one, other], [of_one - one, of_other - other]]
    return float(barnard_exact(table, alternative="two-sided").pvalue)
