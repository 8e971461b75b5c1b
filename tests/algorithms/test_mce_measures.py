"""Exact measures on tabular environments, against closed forms and against sampling."""

import numpy as np
import pytest
from scipy import stats as scipy_stats
from seals.base_envs import TabularModelPOMDP
from support.tabular import chance, every_trajectory, small_model

from imitbench.algorithms.mce_planning import (
    optimal_policy,
    policy_value,
    policy_value_regret,
    reward_rank_correlation,
)
from imitbench.data.tabular import TabularModel


def corridor(length=4, horizon=3):
    """Action 1 goes to the right, where there is more reward, and action 0 stays."""
    transitions = np.zeros((length, 2, length))
    for state in range(length):
        transitions[state, 0, state] = 1
        transitions[state, 1, min(state + 1, length - 1)] = 1
    return TabularModelPOMDP(
        transition_matrix=transitions,
        observation_matrix=np.eye(length, dtype=np.float32),
        reward_matrix=np.arange(float(length)),
        horizon=horizon,
    )


def always(action, env):
    pi = np.zeros((env.horizon, env.state_dim, env.action_dim))
    pi[:, :, action] = 1
    return pi


def random_pi(env, seed=0):
    size = (env.horizon, env.state_dim)
    return np.random.default_rng(seed).dirichlet(np.ones(env.action_dim), size=size)


class TestPolicyValue:
    def test_is_the_return_of_a_certain_walk(self):
        env = corridor()
        assert policy_value(env, always(1, env)) == pytest.approx(0 + 1 + 2)
        assert policy_value(env, always(0, env)) == pytest.approx(0)

    @pytest.mark.parametrize("dimensions", [1, 2, 3])
    def test_is_the_mean_return_of_all_trajectories(self, dimensions):
        env = small_model(deterministic=False, horizon=3)
        env.reward_matrix = np.random.default_rng(1).normal(size=(3, 2, 3)[:dimensions])
        pi = random_pi(env)
        by_action = TabularModel.of(env).rewards_by_action(env.reward_matrix)
        expected = sum(
            chance(env, s, a) * pi[np.arange(3), s, a].prod() * by_action[s, a].sum()
            for s, a in every_trajectory(env)
        )
        assert policy_value(env, pi) == pytest.approx(expected, rel=1e-10)

    def test_regret_is_what_the_best_policy_has_more(self):
        env = corridor()
        assert policy_value_regret(env, always(1, env)) == pytest.approx(0, abs=1e-12)
        assert policy_value_regret(env, always(0, env)) == pytest.approx(3)

    def test_regret_is_never_negative(self):
        env = small_model(deterministic=False)
        assert min(policy_value_regret(env, random_pi(env, seed)) for seed in range(20)) > 0
        best, _ = optimal_policy(TabularModel.of(env))
        assert policy_value_regret(env, best) == pytest.approx(0, abs=1e-12)


class TestRankCorrelation:
    def test_ignores_scale_offset_and_curvature(self):
        true = np.array([0.3, -1.0, 2.0, 0.9])
        assert reward_rank_correlation(np.exp(3 * true) + 7, true) == pytest.approx(1)
        assert reward_rank_correlation(-true, true) == pytest.approx(-1)

    def test_is_spearmans_with_ties(self):
        rng = np.random.default_rng(0)
        learnt, true = rng.integers(4, size=(2, 30))
        expected = scipy_stats.spearmanr(learnt, true).statistic
        assert reward_rank_correlation(learnt, true) == pytest.approx(expected)

    def test_weighs_entries_as_if_they_were_repeated(self):
        learnt, true = np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])
        counts = np.array([3, 1, 2])
        ranks = np.repeat([[1, 2, 3], [1, 3, 2]], counts, axis=1)
        expected = np.corrcoef(ranks)[0, 1]
        assert reward_rank_correlation(learnt, true, counts) == pytest.approx(expected)

    def test_leaves_out_what_is_never_visited(self):
        learnt, true = np.array([1.0, 2.0, 0.0]), np.array([1.0, 2.0, 9.0])
        assert reward_rank_correlation(learnt, true, [0.2, 0.8, 0.0]) == pytest.approx(1)

    def test_of_a_constant_is_not_a_number(self):
        assert np.isnan(reward_rank_correlation(np.zeros(3), np.arange(3)))

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((np.zeros(3), np.zeros(4)), r"learnt: has shape \(3,\)"),
            ((np.full(3, np.inf), np.zeros(3)), "learnt: holds numbers that are not finite"),
            ((np.zeros(3), np.zeros(3), np.zeros(3)), "weights: must not be negative, nor all"),
            ((np.zeros(2), np.zeros(2), [2, -1]), "weights: must not be negative, nor all"),
        ],
    )
    def test_refuses_what_it_cannot_rank(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            reward_rank_correlation(*arguments)
