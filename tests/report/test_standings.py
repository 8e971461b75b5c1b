"""Tiers follow from the pairs that are decided."""

import pytest

from imitbench.report.leaderboard.standings import tiers_of


@pytest.mark.parametrize(
    ("decided", "tiers"),
    [
        ([], [1, 1, 1, 1]),
        (["ac", "bc"], [1, 1, 2, 1]),
        (["ab", "bc", "ac"], [1, 2, 3, 1]),
        (["ab", "bc", "ca"], [2, 2, 2, 1]),  # a circle, over different environments
    ],
)
def test_a_tier_is_below_those_that_beat_it(decided, tiers):
    found = tiers_of("abcd", {tuple(pair) for pair in decided})
    assert [found[name] for name in "abcd"] == tiers
