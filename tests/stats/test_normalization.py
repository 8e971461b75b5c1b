from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imitbench.stats.normalization import has_scale, normalize

RETURNS = st.floats(-1e6, 1e6)


def test_random_scores_zero_and_the_expert_scores_one() -> None:
    assert normalize(-20.0, random=-20.0, expert=500.0) == 0.0
    assert normalize(500.0, random=-20.0, expert=500.0) == 1.0


def test_scores_are_not_clipped() -> None:
    assert normalize(0.0, random=10.0, expert=20.0) == -1.0
    assert normalize(40.0, random=10.0, expert=20.0) == 3.0


def test_published_scores_are_reproduced() -> None:
    # HalfCheetah of the seals suite: BC returns 1516.5 and scores 0.923, the expert 1676.
    random = (1516.5 - 0.923 * 1676) / (1 - 0.923)
    assert normalize(1516.5, random=random, expert=1676.0) == pytest.approx(0.923, abs=1e-9)


def test_arrays_keep_their_shape() -> None:
    scores = normalize(np.array([[0.0, 5.0], [10.0, 20.0]]), random=0.0, expert=10.0)
    np.testing.assert_array_equal(scores, [[0.0, 0.5], [1.0, 2.0]])


@settings(deadline=None)
@given(value=RETURNS, random=RETURNS, gap=st.floats(1.0, 1e6), scale=st.floats(0.01, 100.0))
def test_the_unit_of_reward_does_not_matter(
    value: float, random: float, gap: float, scale: float
) -> None:
    expert = random + gap
    there = normalize(value * scale, random * scale, expert * scale)
    assert there == pytest.approx(normalize(value, random, expert), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    ("random", "expert"), [(1.0, 1.0), (2.0, 1.0), (math.nan, 1.0), (0.0, math.inf)]
)
def test_without_an_expert_above_random_a_score_is_undefined(random: float, expert: float) -> None:
    assert math.isnan(normalize(0.5, random=random, expert=expert))
    assert np.isnan(normalize(np.array([0.5, 2.0]), random=random, expert=expert)).all()
    assert not has_scale(random, expert)
