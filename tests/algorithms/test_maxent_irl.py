"""Maximum entropy IRL: its distribution over paths, by listing them, and what it recovers."""

import numpy as np
import pytest
from seals.base_envs import TabularModelPOMDP
from seals.diagnostics.cliff_world import CliffWorldEnv
from support.tabular import chance, every_trajectory, small_model

from imitbench.algorithms.maxent_irl import MaxEntIRL, PathPlanner
from imitbench.algorithms.mce_irl import TabularRewardNet
from imitbench.algorithms.mce_planning import SoftPlanner, mce_occupancy_measures
from imitbench.data.tabular import TabularModel
from imitbench.util.logger import configure


def planned(env, planner=PathPlanner, scale=1.0):
    """The planner after planning for the environment's rewards."""
    model = TabularModel.of(env)
    made = planner(model)
    made.plan(scale * model.rewards_by_action(model.rewards))
    return made


@pytest.mark.parametrize("deterministic", [True, False])
def test_first_actions_are_as_likely_as_all_paths_that_begin_with_them(deterministic):
    env = small_model(deterministic=deterministic)
    weights = np.zeros((env.state_dim, env.action_dim))
    for states, actions in every_trajectory(env):
        path = chance(env, states, actions) * np.exp(env.reward_matrix[states].sum())
        weights[states[0], actions[0]] += path
    expected = weights / weights.sum(axis=1, keepdims=True)
    planner = planned(env)
    np.testing.assert_allclose(planner.policy[0].T, expected, rtol=1e-9)
    # The weight of a start is that of its paths.
    np.testing.assert_allclose(
        np.exp(planner.values()[0][0]), weights.sum(axis=1) / env.initial_state_dist, rtol=1e-9
    )


def test_it_is_the_causal_policy_only_where_outcomes_are_certain():
    same, other = (small_model(deterministic=certain) for certain in (True, False))
    np.testing.assert_allclose(planned(same).policy, planned(same, SoftPlanner).policy, rtol=1e-9)
    assert np.abs(planned(other).policy - planned(other, SoftPlanner).policy).max() > 0.01


def test_it_takes_luck_for_skill():
    """A gamble for 4 or -4 is worth 0, as waiting is; of paths, the lucky one weighs most."""
    transitions = np.zeros((4, 2, 4))
    transitions[0, 0, 1] = 1  # waits
    transitions[0, 1, [2, 3]] = 0.5  # gambles
    transitions[[1, 2, 3], :, [1, 2, 3]] = 1
    env = TabularModelPOMDP(
        transition_matrix=transitions,
        observation_matrix=np.eye(4, dtype=np.float32),
        reward_matrix=np.array([0.0, 0.0, 4.0, -4.0]),
        horizon=2,
        initial_state_dist=np.array([1.0, 0, 0, 0]),
    )
    np.testing.assert_allclose(planned(env, SoftPlanner).policy[0, :, 0], 0.5)
    lucky = np.cosh(4.0)  # (e^4 + e^-4) / 2, where waiting has 1
    np.testing.assert_allclose(planned(env).policy[0, :, 0], [1 / (1 + lucky), lucky / (1 + lucky)])


def test_large_rewards_neither_overflow_nor_vanish():
    env = small_model(deterministic=False, horizon=30)
    planner = planned(env, scale=1e5)
    np.testing.assert_allclose(planner.policy.sum(axis=1), 1)
    assert np.isfinite(planner.values()[1]).all()
    with pytest.raises(ValueError, match="not finite"):
        planner.plan(np.full((env.state_dim, env.action_dim), np.inf))


def test_training_matches_the_expert_s_visits():
    env = CliffWorldEnv(width=5, height=3, horizon=10, use_xy_obs=True)
    shown = planned(env)
    wanted = shown.cumulate(shown.occupancies()).copy()
    irl = MaxEntIRL(
        wanted,
        env,
        TabularRewardNet.of(env),
        np.random.default_rng(0),
        optimizer_kwargs={"lr": 0.05},
        log_interval=None,
        custom_logger=configure(format_strs=[]),
    )
    before = np.abs(irl.train(0) - wanted).max()
    visits = irl.train(3000)
    assert np.abs(visits - wanted).max() <= 0.02 < 0.5 < before
    np.testing.assert_allclose(mce_occupancy_measures(env, pi=irl.policy.pi)[1], visits)
