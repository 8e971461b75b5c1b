"""Shares of successful episodes: Wilson's interval and Barnard's test."""

import math

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
