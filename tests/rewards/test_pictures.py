"""Sensitivities, correlations and scales of rewards."""

import numpy as np
import pytest

from imitbench.rewards.distances import Steps
from imitbench.rewards.pictures import (
    Agreement,
    Scale,
    agreement,
    behavior,
    dimension_names,
    permutation_sensitivity,
)


def steps_of(count=4000, seed=0):
    rng = np.random.default_rng(seed)
    obs, next_obs = rng.normal(size=(2, count, 3))
    return Steps(obs, rng.normal(size=(count, 2)), next_obs, np.zeros(count, bool))


def sensitivity(reward, steps=None, seed=0):
    found = permutation_sensitivity(reward, steps or steps_of(), np.random.default_rng(seed))
    return {each.name: each.share for each in found}


def test_what_a_reward_ignores_has_no_influence():
    shares = sensitivity(lambda obs, acts, *__: obs[:, 0] + acts[:, 1])
    assert [name for name, share in shares.items() if share == 0] == [
        "obs[1]",
        "obs[2]",
        "action[0]",
    ]
    assert shares["obs[0]"] > 0.5
    assert shares["action[1]"] > 0.5


def test_the_only_dimension_changes_as_two_independent_draws_differ():
    shares = sensitivity(lambda obs, *_: 7 * obs[:, 1] - 3)
    assert shares["obs[1]"] == pytest.approx(2 / np.sqrt(np.pi), rel=0.03)  # Gaussian draws


def test_a_dimension_is_permuted_alike_in_both_observations():
    steps = steps_of()
    same = Steps(steps.obs, steps.acts, steps.obs.copy(), steps.dones)
    shares = sensitivity(lambda obs, _, next_obs, *__: next_obs[:, 0] - obs[:, 0] + obs[:, 1], same)
    assert shares["obs[0]"] == 0


def test_the_seed_determines_the_permutations():
    def reward(obs, acts, next_obs, dones):
        return obs[:, 0] ** 2

    assert sensitivity(reward, seed=1) == sensitivity(reward, seed=1)
    assert sensitivity(reward, seed=1) != sensitivity(reward, seed=2)


def test_a_constant_reward_has_no_sensitivity():
    shares = sensitivity(lambda obs, *_: np.full(len(obs), 0.3))
    assert set(shares.values()) == {None}


def test_discrete_actions_are_one_dimension():
    steps = steps_of()
    chosen = Steps(steps.obs, np.arange(4000) % 3, steps.next_obs, steps.dones)
    shares = sensitivity(lambda _, acts, *__: acts.astype(float), chosen)
    assert list(shares) == ["obs[0]", "obs[1]", "obs[2]", "action"]
    assert shares["action"] > 0
    assert shares["obs[0]"] == 0


@pytest.mark.parametrize(
    ("reward", "match"),
    [
        (lambda obs, *_: np.where(obs[:, 0] > 2, np.nan, 0.0), "not finite"),
        (lambda obs, *_: obs[:, :2], "shape"),
    ],
)
def test_rewards_are_checked(reward, match):
    with pytest.raises(ValueError, match=match):
        sensitivity(reward)


def test_agreement_is_by_values_and_by_ranks():
    values = np.array([0.0, 1.0, 2.0, 30.0])
    found = agreement(np.sqrt(values), values)
    assert found.spearman == pytest.approx(1)
    assert 0.8 < found.pearson < 0.99
    assert agreement(-values, values).pearson == pytest.approx(-1)
    assert agreement(np.ones(4), values) == Agreement(None, None)


def test_scales_standardize():
    scale = Scale.of(np.array([1.0, 3.0]))
    np.testing.assert_array_equal(scale.apply(np.array([1.0, 3.0])), [-1, 1])
    constant = Scale.of(np.full(1000, np.float32(0.1)))
    assert constant.std == 0
    np.testing.assert_array_equal(constant.apply(np.array([0.1])), [0])


def test_a_behavior_has_the_rewards_of_each_episode():
    first, second = steps_of(5), steps_of(7, seed=1)
    true = [first.obs[:, 0], second.obs[:, 0]]
    found = behavior(lambda obs, *_: 2 * obs[:, 0], "expert", [(first, true[0]), (second, true[1])])
    assert [len(each) for each in found.learned] == [5, 7]
    np.testing.assert_array_equal(found.learned[1], 2 * true[1])
    assert found.agreement.pearson == pytest.approx(1)


def test_names_of_dimensions():
    assert dimension_names("action", 1) == ("action",)
    assert dimension_names("obs", 2) == ("obs[0]", "obs[1]")
