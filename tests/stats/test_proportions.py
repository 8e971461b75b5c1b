"""Shares of successful episodes: Wilson's interval and Barnard's test."""

import math
from fractions import Fraction

import numpy as np
import pytest

from imitbench.stats.proportions import exact_p_value, wilson_interval


@pytest.mark.parametrize(("successes", "episodes"), [(0, 10), (7, 10), (50, 50), (3, 200)])
def test_the_ends_are_where_the_score_test_rejects(successes, episodes):
    """Wilson's ends p solve |share - p| = z sqrt(p (1 - p) / n)."""
    found = wilson_interval(successes, episodes, level=0.95)
    assert found.point == successes / episodes
    for end in (found.low, found.high):
        spread = 1.959963984540054 * math.sqrt(end * (1 - end) / episodes)
        assert abs(found.point - end) == pytest.approx(spread, abs=1e-9)
    assert 0 <= found.low <= found.point <= found.high <= 1


def test_a_higher_level_is_wider():
    narrow, wide = (wilson_interval(7, 10, level) for level in (0.5, 0.99))
    assert wide.low < narrow.low < narrow.high < wide.high


def test_all_successes_against_none_of_three():
    """Barnard's p by hand: both tables without overlap, (p(1 - p))^3 each, at p = 1/2."""
    assert exact_p_value((3, 3), (0, 3)) == pytest.approx(2 * 0.25**3, rel=1e-3)


def test_the_test_is_the_same_in_both_orders_and_of_failures():
    p_value = exact_p_value((8, 20), (15, 20))
    assert p_value == pytest.approx(exact_p_value((15, 20), (8, 20)))
    assert p_value == pytest.approx(exact_p_value((12, 20), (5, 20)))
    assert 0.02 < p_value < 0.05


@pytest.mark.parametrize("count", [0, 5])
def test_episodes_that_do_not_vary_differ_in_nothing(count):
    assert exact_p_value((count, 5), (count, 5)) == 1.0


def largest_probability(first, second):
    """Barnard's p by adding up all tables that are as extreme, at many probabilities of success."""
    (one, n), (other, m) = first, second

    def statistic(x, y):  # squared; of whole numbers, so that equally extreme tables are equal
        spread = (
            Fraction(x + y, n + m)
            * (1 - Fraction(x + y, n + m))
            * (Fraction(1, n) + Fraction(1, m))
        )
        return (Fraction(x, n) - Fraction(y, m)) ** 2 / spread if spread else Fraction(0)

    extreme = [
        (x + y, math.comb(n, x) * math.comb(m, y))
        for x in range(n + 1)
        for y in range(m + 1)
        if statistic(x, y) >= statistic(one, other)
    ]
    p = np.linspace(0, 1, 1001)
    return sum(ways * p**k * (1 - p) ** (n + m - k) for k, ways in extreme).max()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((4, 6), (1, 6)),  # SciPy leaves out tables that are equally extreme but for rounding
        ((5, 7), (1, 9)),  # and misses the maximum
        ((3, 9), (8, 8)),
        ((7, 12), (4, 12)),
        ((14, 20), (11, 20)),
        ((1, 1), (0, 4)),
        ((0, 12), (5, 15)),
    ],
)
def test_it_is_the_largest_probability_of_all_that_is_as_extreme(first, second):
    assert exact_p_value(first, second) == pytest.approx(
        largest_probability(first, second), rel=1e-3
    )
    assert exact_p_value(first, second) >= largest_probability(first, second) - 1e-9


def test_equal_shares_are_no_difference():
    assert exact_p_value((3, 6), (5, 10)) == 1.0


def test_many_episodes_agree_with_the_normal_approximation():
    z = 0.08 / math.sqrt(0.54 * 0.46 * 2 / 2000)
    assert exact_p_value((1160, 2000), (1000, 2000)) == pytest.approx(
        math.erfc(z / math.sqrt(2)), rel=0.1
    )
