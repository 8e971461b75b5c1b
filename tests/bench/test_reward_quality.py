"""Learned rewards are compared with the true one on episodes of every quality."""

import gymnasium as gym
import numpy as np
import pytest
import scipy.stats
import torch as th
from gymnasium import spaces

from imitbench.bench.learners.reward_agreement import (
    RANDOM_RATES,
    held_out_trajectories,
    rank_correlation,
    reward_agreement,
    step_correlation,
)
from imitbench.data.types import TrajectoryWithRew
from imitbench.experts.lookup import find_environment, find_expert
from imitbench.policies.storage import load_policy
from imitbench.rewards.base import RewardNet


class Linear(RewardNet):
    """The reward is a multiple of the observation."""

    def __init__(self, factor):
        line = spaces.Box(-np.inf, np.inf, (1,), np.float32)
        super().__init__(line, line)
        self.factor = factor

    def forward(self, state, action, next_state, done):
        return self.factor * state[:, 0]


def episodes(rewards):
    """Episodes whose observations are their true rewards."""
    made = []
    for rews in np.asarray(rewards, dtype=np.float32):
        obs = np.append(rews, 0.0).astype(np.float32)[:, None]
        acts = np.zeros((len(rews), 1), np.float32)
        made.append(TrajectoryWithRew(obs, acts, None, True, rews=rews.astype(float)))
    return made


@pytest.fixture
def varied():
    return episodes(np.random.default_rng(0).normal(size=(30, 20)))


def correlated(value, name="reward_correlation"):
    return {f"{name}{end}": pytest.approx(value) for end in ("", "_low", "_high")}


def test_a_reward_in_other_units_agrees_entirely(varied):
    found = reward_agreement(Linear(3.0), varied, 5, seed=0)
    assert found == {**correlated(1.0), "preference_accuracy": 1.0}


def test_the_opposite_reward_disagrees_entirely(varied):
    found = reward_agreement(Linear(-0.5), varied, 5, seed=0)
    assert found == {**correlated(-1.0), "preference_accuracy": 0.0}


def test_a_constant_reward_has_no_correlation_and_an_accuracy_of_one_half(varied):
    assert reward_agreement(Linear(0.0), varied, 5, seed=0) == {"preference_accuracy": 0.5}


def test_pairs_with_equal_true_returns_do_not_count():
    assert reward_agreement(Linear(1.0), episodes(np.ones((3, 10))), 5, seed=0) == {}


def test_fragments_do_not_cross_episode_ends():
    """Within an episode all fragments are equal; only pairs of two episodes count."""
    rewards = np.repeat([[1.0], [2.0]], 6, axis=1)
    found = reward_agreement(Linear(1.0), episodes(rewards), 6, seed=0)
    assert found["preference_accuracy"] == 1.0


def test_the_network_and_its_mode_are_unchanged(varied):
    net = Linear(1.0)
    net.train()
    reward_agreement(net, varied, 5, seed=0)
    assert net.training


def test_held_out_episodes_range_from_the_policy_to_random_actions():
    th.manual_seed(0)
    policy = load_policy(find_expert("sac-Pendulum-v1"))
    made = held_out_trajectories(policy, find_environment("Pendulum-v1"), seed=3)
    assert [len(trajectory) for trajectory in made] == [200] * 8 * len(RANDOM_RATES)
    returns = np.array([trajectory.rews.sum() for trajectory in made]).reshape(-1, 8).mean(axis=1)
    assert returns[0] > -300
    assert returns[-1] < -900
    assert (np.diff(returns) < 0).sum() >= 3


class Upright(RewardNet):
    """The cosine of the pendulum's angle, or its negative."""

    def __init__(self, sign):
        venv = gym.make("Pendulum-v1")
        super().__init__(venv.observation_space, venv.action_space)
        self.sign = sign

    def forward(self, state, action, next_state, done):
        return self.sign * state[:, 0]


@pytest.mark.parametrize("sign", [1, -1])
def test_single_steps_are_compared_in_episodes_of_expert_policy_and_random_actions(sign):
    th.manual_seed(0)
    expert = load_policy(find_expert("sac-Pendulum-v1"))
    environment = find_environment("Pendulum-v1")
    found = step_correlation(Upright(sign), expert, expert, environment, seed=3)
    value, low, high = found.values()
    assert list(found) == list(correlated(0, "reward_step_correlation"))
    assert 0.7 < sign * value < 1
    assert low < value < high


def test_intervals_draw_whole_parts_again():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(2, 40))
    steps = [(learned, true) for learned, true in values.T[:, :, None]]
    alone = rank_correlation("x", steps)
    # Equal steps of an episode say no more than one of them.
    repeated = rank_correlation(
        "x", [tuple(np.repeat(side, 50) for side in part) for part in steps]
    )
    assert repeated == pytest.approx(alone, abs=1e-6)
    due = scipy.stats.spearmanr(*values).statistic
    assert alone["x"] == pytest.approx(due)
    # Fisher's interval of a rank correlation (Fieller et al. 1957).
    margin = 1.96 * np.sqrt(1.06 / 37)
    ends = np.tanh(np.arctanh(due) + np.array([-margin, margin]))
    assert [alone["x_low"], alone["x_high"]] == pytest.approx(list(ends), abs=0.08)
