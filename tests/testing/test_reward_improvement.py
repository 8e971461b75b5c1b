"""The test of improved rewards is exact on small samples, keeps its level and has power."""

import doctest
import math

import numpy as np
import pytest
from scipy import stats

from imitbench.testing import reward_improvement
from imitbench.testing.reward_improvement import (
    _permutation_p_value,
    is_significant_reward_improvement,
    mean_reward_improved_by,
)


def test_examples_in_the_documentation_are_correct():
    result = doctest.testmod(reward_improvement)
    assert result.attempted == 5
    assert result.failed == 0


@pytest.mark.parametrize("sizes", [(5, 5), (3, 7), (8, 2), (2, 2)])
@pytest.mark.parametrize("shift", [-1.0, 0.0, 1.5])
def test_small_samples_are_tested_exactly(sizes, shift):
    rng = np.random.default_rng(sum(sizes))
    old, new = rng.normal(size=sizes[0]), rng.normal(size=sizes[1]) + shift
    expected = stats.permutation_test(
        (old, new),
        lambda x, y, axis: y.mean(axis=axis) - x.mean(axis=axis),
        vectorized=True,
        alternative="greater",
        n_resamples=np.inf,
    ).pvalue
    assert _permutation_p_value(old, new) == pytest.approx(expected)


def test_equal_sums_count_in_spite_of_rounding():
    old, new = np.array([0.1, 0.2, 0.3]), np.array([0.3, 0.2, 0.1])
    # Of 20 splits, 8 have one of each value on both sides, and 6 are better.
    assert _permutation_p_value(old, new) == pytest.approx(14 / 20)


def test_a_clean_separation_has_the_smallest_possible_p_value():
    assert _permutation_p_value(np.arange(5.0), np.arange(10.0, 15)) == 1 / math.comb(10, 5)
    assert _permutation_p_value(np.arange(50.0), np.arange(100.0, 150)) == 1 / 10_000


def test_large_samples_agree_with_the_normal_approximation():
    rng = np.random.default_rng(3)
    old, new = rng.normal(size=300), rng.normal(size=200) + 0.15
    expected = stats.ttest_ind(new, old, alternative="greater").pvalue
    assert _permutation_p_value(old, new) == pytest.approx(expected, abs=0.01)


def test_large_samples_give_the_same_answer_again():
    rng = np.random.default_rng(0)
    old, new = rng.normal(size=30), rng.normal(size=30) + 0.4
    assert _permutation_p_value(old, new) == _permutation_p_value(old, new)


@pytest.mark.parametrize("level", [0.05, 0.2])
@pytest.mark.parametrize("skewed", [False, True])
def test_false_positives_are_at_most_as_frequent_as_the_level(level, skewed):
    rng = np.random.default_rng(0)
    trials, wrong = 600, 0
    for _ in range(trials):
        sample = rng.exponential(size=12) if skewed else rng.normal(size=12)
        wrong += is_significant_reward_improvement(sample[:6], sample[6:], level)
    assert wrong <= level * trials + 3 * np.sqrt(trials * level * (1 - level))
    assert wrong > 0


def test_finds_improvements_that_are_there():
    rng = np.random.default_rng(0)
    found = sum(
        is_significant_reward_improvement(rng.normal(size=8), rng.normal(size=8) + 2)
        for _ in range(50)
    )
    assert found >= 45


def test_a_decline_is_not_an_improvement():
    rewards = np.random.default_rng(0).normal(size=(2, 10)) + np.array([[3], [0]])
    assert is_significant_reward_improvement(rewards[1], rewards[0])
    assert not is_significant_reward_improvement(rewards[0], rewards[1])


def test_accepts_any_iterable():
    assert is_significant_reward_improvement(iter(range(5)), (x + 10 for x in range(5)))
    assert mean_reward_improved_by(iter([1.0]), iter([2.0]), 1.0)
    assert not mean_reward_improved_by([1.0], [2.0], 1.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], [1.0]), "old_rewards: needs at least one number"),
        (([1.0], []), "new_rewards: needs at least one number"),
        (([1.0], [np.nan]), "new_rewards: holds numbers that are not finite"),
        (([1.0], [1.0], 0.0), "p_value must be between 0 and 1"),
        (([1.0], [1.0], 1.0), "p_value must be between 0 and 1"),
    ],
)
def test_refuses_invalid_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        is_significant_reward_improvement(*arguments)


def test_refuses_empty_rewards():
    with pytest.raises(ValueError, match="new_rews: needs at least one number"):
        mean_reward_improved_by([1.0], [], 0.0)
