"""Comparisons and steps are spread as asked, and add up to exactly the budget."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from imitbench.algorithms.preference_comparisons.algorithm import (
    QUERY_SCHEDULES,
    TrainingRound,
    find_schedule,
    plan_comparisons,
    plan_rounds,
)


def test_the_documented_example_holds():
    hyperbolic = QUERY_SCHEDULES["hyperbolic"]
    assert plan_comparisons(200, 5, 0.1, hyperbolic) == [20, 51, 41, 34, 29, 25]


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("constant", [1, 1, 1]),
        ("hyperbolic", [1, 1 / 1.5, 1 / 2]),
        ("inverse_quadratic", [1, 1 / 1.25, 1 / 2]),
    ],
)
def test_each_schedule_has_its_closed_form(name, weights):
    shares = plan_comparisons(100_000, 3, 0.0, find_schedule(name))
    np.testing.assert_allclose(shares, 100_000 * np.array(weights) / sum(weights), atol=1)


@given(
    total=st.integers(100, 5000),
    iterations=st.integers(1, 30),
    initial=st.floats(0, 0.5),
    name=st.sampled_from(sorted(QUERY_SCHEDULES)),
)
def test_rounds_add_up_to_the_budget(total, iterations, initial, name):
    comparisons = plan_comparisons(total, iterations, initial, QUERY_SCHEDULES[name])
    assert sum(comparisons) == total
    assert min(comparisons) > 0
    assert len(comparisons) == iterations + (int(total * initial) > 0)
    rounds = plan_rounds(comparisons, 12_345, 200.0)
    assert sum(step.timesteps for step in rounds) == 12_345
    assert [step.epoch_multiplier for step in rounds] == [200.0] + [1.0] * (len(rounds) - 1)


def test_the_remainder_of_the_steps_comes_last():
    assert plan_rounds([3, 2, 1], 11, 2.0) == [
        TrainingRound(3, 3, 2.0),
        TrainingRound(2, 3),
        TrainingRound(1, 5),
    ]


def test_a_function_is_called_with_the_share_of_rounds_passed():
    asked = []

    def schedule(elapsed):
        asked.append(elapsed)
        return 1 + elapsed

    assert plan_comparisons(90, 3, 0.0, find_schedule(schedule)) == [20, 30, 40]
    assert asked == [0.0, 0.5, 1.0]


def test_too_few_comparisons_are_reported_with_their_shares():
    with pytest.raises(ValueError, match=r"total_comparisons=4 is too small: .*5 iterations.*\[1"):
        plan_comparisons(4, 5, 0.1, QUERY_SCHEDULES["constant"])


def test_all_comparisons_in_advance_leave_none_for_later_rounds():
    with pytest.raises(ValueError, match=r"initial_comparison_frac=1 takes all 9 .*; lower it"):
        plan_comparisons(9, 2, 1.0, QUERY_SCHEDULES["constant"])


@pytest.mark.parametrize("value", [-1.0, float("nan"), 0.0])
def test_an_invalid_schedule_is_refused(value):
    with pytest.raises(ValueError, match="query_schedule: weights must be finite"):
        plan_comparisons(10, 2, 0.0, lambda _: value)


def test_an_unknown_schedule_is_reported_with_the_known_ones():
    with pytest.raises(ValueError, match=r"no schedule 'linear'.*constant, hyperbolic"):
        find_schedule("linear")
