"""How many runs collapse, and what few runs do not exclude."""

import numpy as np
import pytest
import scipy.stats

from imitbench.stats.collapses import COLLAPSE_SCORE, compare_collapses


def runs(collapsed, count):
    return np.where(np.arange(count) < collapsed, COLLAPSE_SCORE - 0.01, COLLAPSE_SCORE)


@pytest.mark.parametrize(
    ("collapsed", "count", "bound"),
    [
        (0, 10, 1 - 0.05 ** (1 / 10)),  # no collapse in ten runs: 26 %
        (0, 50, 1 - 0.05 ** (1 / 50)),
        (10, 10, 1.0),
        (2, 10, None),
    ],
)
def test_bounds_are_those_of_clopper_and_pearson(collapsed, count, bound):
    found = compare_collapses({"a": runs(collapsed, count)}, {"a": [1.0]}).first
    assert (found.collapsed, found.runs) == (collapsed, count)
    expected = scipy.stats.binomtest(collapsed, count, alternative="less").proportion_ci(0.95).high
    assert found.at_most == pytest.approx(expected)
    assert bound is None or found.at_most == pytest.approx(bound)


@pytest.mark.parametrize(("one", "other"), [(0, 3), (5, 1), (2, 2), (0, 0), (6, 0)])
def test_on_one_environment_the_test_is_fisher_s(one, other):
    found = compare_collapses({"a": runs(one, 6)}, {"a": runs(other, 8)})
    due = scipy.stats.fisher_exact([[one, 6 - one], [other, 8 - other]]).pvalue
    assert found.p_value == pytest.approx(due)


def test_over_environments_only_collapses_within_them_count():
    # On "a" both always collapse, which says nothing about a difference.
    alone = compare_collapses({"b": runs(0, 6)}, {"b": runs(4, 6)})
    more = compare_collapses({"a": runs(5, 5), "b": runs(0, 6)}, {"a": runs(7, 7), "b": runs(4, 6)})
    assert more.p_value == pytest.approx(alone.p_value)
    assert (more.first.collapsed, more.second.collapsed) == (5, 11)
    assert (more.first.runs, more.second.runs) == (11, 13)
