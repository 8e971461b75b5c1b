import itertools

import numpy as np
import pytest
from seals.diagnostics.cliff_world import CliffWorldEnv
from support.tabular import small_model

from imitbench.algorithms.mce_planning import optimal_policy, policy_value
from imitbench.data.tabular import TabularModel


def every_deterministic_policy(horizon, states, actions):
    for choice in itertools.product(range(actions), repeat=horizon * states):
        yield np.eye(actions)[np.array(choice).reshape(horizon, states)]


@pytest.mark.parametrize("deterministic", [True, False])
def test_no_deterministic_policy_is_better(deterministic):
    env = small_model(deterministic=deterministic, horizon=3)
    policy, values = optimal_policy(TabularModel.of(env))
    best = max(policy_value(env, pi) for pi in every_deterministic_policy(3, 3, 2))
    assert policy_value(env, policy) == pytest.approx(best, rel=1e-12)
    assert env.initial_state_dist @ values[0] == pytest.approx(best, rel=1e-12)


def test_values_follow_bellmans_equation():
    env = CliffWorldEnv(width=7, height=4, horizon=9, use_xy_obs=True)
    policy, values = optimal_policy(TabularModel.of(env))
    following = np.vstack([values[1:], np.zeros((1, 28))])
    action_values = env.reward_matrix[:, None] + np.einsum(
        "saz,tz->tsa", env.transition_matrix, following
    )
    np.testing.assert_allclose(values, action_values.max(axis=2))
    np.testing.assert_allclose((policy * action_values).sum(axis=2), values)


def test_ties_go_to_the_first_action():
    env = small_model(deterministic=False)
    policy, values = optimal_policy(TabularModel.of(env), np.zeros(3))
    np.testing.assert_array_equal(policy[..., 0], 1)
    np.testing.assert_array_equal(values, 0)


def test_other_rewards_can_be_passed():
    env = small_model(deterministic=False)
    rewards = np.random.default_rng(0).normal(size=(3, 2, 3))
    expected = (env.transition_matrix * rewards).sum(axis=2).argmax(axis=1)
    policy, _ = optimal_policy(TabularModel.of(env), rewards)
    np.testing.assert_array_equal(policy[-1].argmax(axis=1), expected)


def test_rewards_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"rewards: has shape \(4,\)"):
        optimal_policy(TabularModel.of(small_model(deterministic=False)), np.zeros(4))
