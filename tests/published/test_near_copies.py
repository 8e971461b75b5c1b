"""Near copies are found whatever was done to hide them; honest runs are not near."""

import numpy as np
import pytest

from imitbench.published import alarms
from imitbench.published.alarms import near_pairs

RNG = np.random.default_rng(0)
RUN = -150 + 80 * RNG.normal(size=50)


def changed_in_part(returns):
    """A third of the episodes is another."""
    return np.where(np.arange(len(returns)) % 3 == 0, RNG.normal(size=len(returns)), returns)


@pytest.mark.parametrize(
    "hide",
    [
        lambda returns: returns,
        lambda returns: returns + 1e-6,
        lambda returns: returns * (1 + 1e-6),
        lambda returns: returns + 1e-3 * RNG.normal(size=50),
        RNG.permutation,
        lambda returns: 0.5 * returns + 300,
        lambda returns: RNG.permutation(1.1 * returns),
        changed_in_part,
    ],
)
def test_a_copy_is_near(hide):
    others = [-150 + 80 * RNG.normal(size=50) for _ in range(5)]
    assert list(near_pairs([*others[:2], RUN, *others[2:], hide(RUN)])) == [(2, 6)]


@pytest.mark.parametrize(
    "other",
    [
        RUN + RNG.normal(size=50),  # the same starts, another policy
        RUN[:49],
        np.full(50, RUN[0]),
        -RUN,
    ],
)
def test_other_runs_are_not_near(other):
    assert list(near_pairs([RUN, other])) == []


@pytest.mark.parametrize("returns", [[], [RUN], [RUN[:3], RUN[:3]], [np.ones(50), 2 * np.ones(50)]])
def test_too_little_says_nothing(returns):
    assert list(near_pairs(returns)) == []


def test_the_work_is_bounded(monkeypatch):
    monkeypatch.setattr(alarms, "_MOST_NUMBERS", 150)
    assert list(near_pairs([RUN, RUN])) == [(0, 1)]
    assert list(near_pairs([RUN, 2 * RUN + RNG.normal(size=50), RUN, RUN])) == []
