import numpy as np
import pytest
from scipy.special import logsumexp
from seals.diagnostics.cliff_world import CliffWorldEnv
from seals.diagnostics.random_trans import RandomTransitionEnv
from support.tabular import chance, every_trajectory, small_model

from imitbench.algorithms import mce_planning
from imitbench.algorithms.mce_planning import (
    SoftPlanner,
    mce_occupancy_measures,
    mce_partition_fh,
)
from imitbench.data.tabular import TabularModel


def recursion(env, reward, discount):
    """The definition, one state and action at a time."""
    horizon, states, actions = env.horizon, env.state_dim, env.action_dim
    values = np.zeros((horizon + 1, states))
    action_values = np.zeros((horizon, states, actions))
    for t in reversed(range(horizon)):
        for s in range(states):
            for a in range(actions):
                following = env.transition_matrix[s, a] @ values[t + 1]
                action_values[t, s, a] = reward[s] + discount * following
            values[t, s] = logsumexp(action_values[t, s])
    return values[:-1], action_values


class TestValues:
    @pytest.mark.parametrize("deterministic", [True, False])
    @pytest.mark.parametrize("discount", [1.0, 0.9, 0.0])
    def test_follow_the_recursion(self, deterministic, discount):
        env = small_model(deterministic=deterministic, horizon=6)
        values, action_values, pi = mce_partition_fh(env, discount=discount)
        expected = recursion(env, env.reward_matrix, discount)
        np.testing.assert_allclose(values, expected[0], rtol=1e-12)
        np.testing.assert_allclose(action_values, expected[1], rtol=1e-12)
        np.testing.assert_allclose(pi, np.exp(expected[1] - expected[0][:, :, None]), rtol=1e-12)

    def test_of_deterministic_dynamics_weigh_trajectories_by_the_exponential_of_their_return(self):
        env = small_model(deterministic=True)
        values, _, pi = mce_partition_fh(env)
        partition = np.zeros(env.state_dim)
        weights = {}
        for states, actions in every_trajectory(env):
            if chance(env, states, actions) > 0:
                weight = np.exp(env.reward_matrix[states].sum())
                partition[states[0]] += weight
                weights[(*states, *actions)] = weight
        np.testing.assert_allclose(values[0], np.log(partition), rtol=1e-12)
        steps = np.arange(env.horizon)
        for states, actions in every_trajectory(env):
            key = (*states, *actions)
            if key in weights:
                probability = pi[steps, states, actions].prod()
                expected = weights[key] / partition[states[0]]
                assert probability == pytest.approx(expected, rel=1e-10)

    def test_of_the_last_step_count_every_action(self):
        env = small_model(deterministic=False)
        values, _, pi = mce_partition_fh(env)
        np.testing.assert_allclose(values[-1], env.reward_matrix + np.log(2))
        np.testing.assert_allclose(pi[-1], 0.5)

    @pytest.mark.parametrize("scale", [1e-9, 30.0, 1e3, 1e6])
    def test_hold_for_rewards_of_any_size(self, scale):
        env = CliffWorldEnv(width=5, height=3, horizon=25, use_xy_obs=True)
        reward = env.reward_matrix * scale
        values, action_values, pi = mce_partition_fh(env, reward=reward)
        expected = recursion(env, reward, 1.0)
        rounding = 1e-12 * max(1, scale)
        np.testing.assert_allclose(values, expected[0], rtol=1e-12, atol=rounding)
        np.testing.assert_allclose(action_values, expected[1], rtol=1e-12, atol=rounding)
        np.testing.assert_allclose(pi.sum(axis=2), 1, rtol=1e-12)
        worse = action_values < action_values.max(axis=2, keepdims=True) - 20
        assert (pi[worse] < 1e-8).all()

    def test_are_the_same_by_exponentials_and_by_logarithms(self, monkeypatch):
        env = CliffWorldEnv(width=5, height=3, horizon=25, use_xy_obs=True)
        quick = mce_partition_fh(env)
        monkeypatch.setattr(mce_planning, "_LARGEST_EXPONENT", 0.0)
        for one, other in zip(quick, mce_partition_fh(env), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)

    def test_are_the_same_for_sparse_and_dense_dynamics(self, monkeypatch):
        env = CliffWorldEnv(width=9, height=5, horizon=12, use_xy_obs=True)
        reward = np.random.default_rng(0).normal(size=(45, 4))
        assert isinstance(SoftPlanner(TabularModel.of(env))._dynamics, mce_planning._DenseDynamics)
        dense = mce_partition_fh(env, reward=reward, discount=0.9)
        visits = mce_occupancy_measures(env, reward=reward)
        monkeypatch.setattr(mce_planning, "_SPARSE_FROM", 0)
        assert isinstance(SoftPlanner(TabularModel.of(env))._dynamics, mce_planning._SparseDynamics)
        for one, other in zip(
            (*dense, *visits),
            (
                *mce_partition_fh(env, reward=reward, discount=0.9),
                *mce_occupancy_measures(env, reward=reward),
            ),
            strict=True,
        ):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-14)

    def test_take_rewards_of_actions_and_of_next_states(self):
        env = small_model(deterministic=False)
        by_next = np.random.default_rng(1).normal(size=(3, 2, 3))
        by_action = (env.transition_matrix * by_next).sum(axis=2)
        for one, other in zip(
            mce_partition_fh(env, reward=by_next),
            mce_partition_fh(env, reward=by_action),
            strict=True,
        ):
            np.testing.assert_allclose(one, other, rtol=1e-12)
        same = np.repeat(env.reward_matrix[:, None], 2, axis=1)
        np.testing.assert_allclose(
            mce_partition_fh(env, reward=same)[1], mce_partition_fh(env)[1], rtol=1e-12
        )


class TestOccupancies:
    @pytest.mark.parametrize("deterministic", [True, False])
    def test_are_those_of_all_trajectories(self, deterministic):
        env = small_model(deterministic=deterministic)
        pi = np.random.default_rng(2).dirichlet(np.ones(2), size=(4, 3))
        expected = np.zeros((4, 3))
        steps = np.arange(4)
        for states, actions in every_trajectory(env):
            probability = chance(env, states, actions) * pi[steps, states, actions].prod()
            expected[steps, states] += probability
        by_step, total = mce_occupancy_measures(env, pi=pi)
        np.testing.assert_allclose(by_step, expected, rtol=1e-10, atol=1e-15)
        np.testing.assert_allclose(total, expected.sum(axis=0), rtol=1e-10)

    def test_add_up_to_the_steps(self):
        env = RandomTransitionEnv(
            n_states=20, n_actions=3, branch_factor=4, horizon=15, random_obs=True, generator_seed=1
        )
        by_step, total = mce_occupancy_measures(env)
        np.testing.assert_allclose(by_step.sum(axis=1), 1, rtol=1e-12)
        assert total.sum() == pytest.approx(15, rel=1e-12)

    def test_are_discounted_in_their_sum(self):
        env = small_model(deterministic=False)
        pi = mce_partition_fh(env)[2]
        by_step, total = mce_occupancy_measures(env, pi=pi, discount=0.5)
        np.testing.assert_allclose(by_step, mce_occupancy_measures(env, pi=pi)[0])
        np.testing.assert_allclose(total, [1, 0.5, 0.25, 0.125] @ by_step)
        assert total.sum() == pytest.approx(1.875)

    def test_without_a_policy_are_those_of_the_softly_optimal_one(self):
        env = small_model(deterministic=False)
        pi = mce_partition_fh(env, discount=0.7)[2]
        np.testing.assert_allclose(
            mce_occupancy_measures(env, discount=0.7)[1],
            mce_occupancy_measures(env, pi=pi, discount=0.7)[1],
        )

    @pytest.mark.parametrize("discount", [1.0, 0.8])
    def test_are_the_derivative_of_the_soft_value_by_the_reward(self, discount):
        env = small_model(deterministic=False, horizon=5)

        def value(reward):
            return (
                env.initial_state_dist
                @ mce_partition_fh(env, reward=reward, discount=discount)[0][0]
            )

        step = 1e-6
        differences = [
            (value(env.reward_matrix + step * unit) - value(env.reward_matrix - step * unit))
            / (2 * step)
            for unit in np.eye(3)
        ]
        total = mce_occupancy_measures(env, discount=discount)[1]
        np.testing.assert_allclose(total, differences, rtol=1e-8)


class TestBadInput:
    def test_an_environment_that_is_not_tabular(self):
        with pytest.raises(ValueError, match=r"env: .* is not a tabular environment"):
            mce_partition_fh(object())

    def test_an_environment_without_horizon(self):
        env = small_model(deterministic=True)
        env.horizon = None
        with pytest.raises(ValueError, match=r"env: its horizon must be .* not None"):
            mce_occupancy_measures(env)

    @pytest.mark.parametrize("discount", [-0.1, 1.1, float("nan")])
    def test_a_discount_out_of_range(self, discount):
        with pytest.raises(ValueError, match="discount must lie in"):
            mce_partition_fh(small_model(deterministic=True), discount=discount)

    @pytest.mark.parametrize(
        ("reward", "message"),
        [
            (np.zeros(4), r"reward: has shape \(4,\)"),
            (np.array(1.0), r"reward: has shape \(\)"),
            (np.array([0, np.nan, 1]), "reward: not all rewards are finite"),
        ],
    )
    def test_rewards_that_do_not_fit(self, reward, message):
        with pytest.raises(ValueError, match=message):
            mce_partition_fh(small_model(deterministic=True), reward=reward)

    @pytest.mark.parametrize(
        ("pi", "message"),
        [
            (np.full((3, 3, 2), 0.5), r"pi: has shape \(3, 3, 2\); it needs \(4, 3, 2\)"),
            (np.ones((4, 3, 2)), "pi: must be probabilities"),
        ],
    )
    def test_policies_that_do_not_fit(self, pi, message):
        with pytest.raises(ValueError, match=message):
            mce_occupancy_measures(small_model(deterministic=True), pi=pi)
