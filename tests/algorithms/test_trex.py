"""T-REX: which snippets are compared, and rewards whose order is known."""

import dataclasses

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv

from imitbench.algorithms.trex import (
    TREX,
    ExtrapolationOptions,
    RankedTrajectories,
    draw_snippets,
)
from imitbench.data.types import TrajectoryWithRew
from imitbench.errors import InputError
from imitbench.rewards.reward_nets import BasicRewardNet

STEPS = 12


class Line(gym.Env):
    """Observations are two numbers, which actions do not change."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.left = STEPS
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.left -= 1
        return np.zeros(2, np.float32), 0.0, False, self.left == 0, {}


def trajectory(obs, action=2):
    obs = np.asarray(obs, dtype=np.float32)
    steps = len(obs) - 1
    return TrajectoryWithRew(obs, np.full(steps, action), None, True, np.full(steps, np.nan))


def features(first, rng, steps=STEPS):
    """A trajectory whose first feature has this mean, and whose second is noise."""
    return trajectory(rng.normal([first, 0.0], 0.1, size=(steps + 1, 2)))


def linear_net():
    """r(s') = w · s' + b, which a perceptron without hidden layers is."""
    th.manual_seed(0)
    return BasicRewardNet(
        Line.observation_space, Line.action_space, use_state=False, use_action=False,
        use_next_state=True, hid_sizes=(),
    )  # fmt: skip


SMALL = ExtrapolationOptions(pairs=300, snippet_length=5, epochs=20, learning_rate=0.05)


def trex(supplement, ranks, demonstrations=(), **given):
    venv = DummyVecEnv([Line, Line])
    agent = PPO("MlpPolicy", venv, n_steps=STEPS, batch_size=STEPS, seed=0, device="cpu")
    return TREX(
        demonstrations=demonstrations, supplement=supplement, ranks=np.asarray(ranks), venv=venv,
        rng=np.random.default_rng(0), rl_algo=agent,
        **{"reward_net": linear_net(), "options": SMALL} | given,
    )  # fmt: skip


def weights(algorithm):
    return algorithm.reward_net.mlp.dense_final.weight.detach().numpy()[0]


# Snippets.


def numbered(count, steps):
    """Trajectories whose observations say whose they are, and at which step."""
    return [
        trajectory(np.stack([np.full(length + 1, which), np.arange(length + 1)], axis=1))
        for which, length in zip(range(count), steps, strict=True)
    ]


def drawn(values, steps, **options):
    settings = ExtrapolationOptions(**{"pairs": 500, "snippet_length": 4} | options)
    ranked = RankedTrajectories(numbered(len(values), steps), np.asarray(values, dtype=float))
    pairs = draw_snippets(ranked, settings, np.random.default_rng(0))
    owners = np.array([[part.obs[0, 0] for part in pair] for pair in pairs]).astype(int)
    starts = np.array([[part.obs[0, 1] for part in pair] for pair in pairs]).astype(int)
    return pairs, owners, starts


def test_every_pair_of_different_ranks_is_drawn_and_a_tie_never():
    ranks = [1, 0, 1, 2]
    pairs, owners, _ = drawn(ranks, [8] * 4)
    assert len(pairs) == 500
    expected = {(0, 1), (2, 1), (3, 1), (3, 0), (3, 2)}  # better, worse
    assert {tuple(each) for each in owners.tolist()} == expected


def test_snippets_are_consecutive_steps_of_one_length():
    pairs, _, _ = drawn([0, 1], [8, 10])
    for part in (part for pair in pairs for part in pair):
        assert len(part) == 4
        assert (np.diff(part.obs[:, 1]) == 1).all()


def test_the_better_snippet_starts_no_earlier():
    _, _, starts = drawn([0, 1], [8, 20])
    better, worse = starts.T
    assert (better >= worse).all()
    # The worse one has 8 steps, the better one 20: these are all starts that leave room.
    assert set(worse) == set(range(5))
    assert set(better) == set(range(17))
    assert {(0, 0), (0, 4), (16, 4)} - set(map(tuple, starts.tolist())) == {(0, 4)}
    # A better trajectory that is shorter bounds the start of the worse one.
    _, _, starts = drawn([1, 0], [6, 20])
    assert set(starts[:, 1]) == {0, 1, 2}
    assert (starts[:, 0] >= starts[:, 1]).all()


def test_starts_are_independent_without_that_rule():
    _, _, starts = drawn([0, 1], [8, 8], later_start=False)
    assert set(map(tuple, starts.tolist())) == {(a, b) for a in range(5) for b in range(5)}


def test_snippets_are_as_long_as_a_shorter_trajectory():
    pairs, owners, starts = drawn([0, 1, 2], [3, 8, 8])
    short = (owners == 0).any(axis=1)
    assert {len(pair[0]) for pair, cut in zip(pairs, short, strict=True) if cut} == {3}
    assert {len(pair[1]) for pair, cut in zip(pairs, short, strict=True) if not cut} == {4}
    assert (starts[owners == 0] == 0).all()


def test_a_margin_leaves_out_close_trajectories():
    levels = -np.arange(4) / 4
    _, owners, _ = drawn(levels, [8] * 4, margin=0.5)
    assert {tuple(each) for each in owners.tolist()} == {(0, 2), (0, 3), (1, 3)}
    with pytest.raises(InputError, match=r"no two of 4 .* ranks that differ by at least 0\.9"):
        drawn(levels, [8] * 4, margin=0.9)


# The reward.


def test_the_reward_ranks_new_trajectories_and_extrapolates():
    rng = np.random.default_rng(0)
    quality = np.linspace(0.0, 1.0, 6)
    algorithm = trex([features(each, rng) for each in quality], np.arange(6))
    algorithm.train_reward()
    assert algorithm.accuracy > 0.95
    # By hand: snippets differ in the first feature only, so the optimum has w = (w₁ > 0, 0).
    first, second = weights(algorithm)
    assert first > 5 * abs(second)
    # The last two are better than all that were ranked.
    held_out = [0.1, 0.5, 0.9, 1.5, 3.0]
    found = [features(each, rng) for each in held_out]
    ends = np.zeros(STEPS, bool)
    net = algorithm.reward_net
    returns = [net.predict(each.obs[:-1], each.acts, each.obs[1:], ends).sum() for each in found]
    assert (np.diff(returns) > 0).all()


def test_reversed_ranks_reverse_the_reward():
    rng = np.random.default_rng(0)
    given = [features(each, rng) for each in (0.0, 0.5, 1.0)]
    signs = []
    for ranks in ([0, 1, 2], [2, 1, 0]):
        algorithm = trex(given, ranks)
        algorithm.train_reward()
        signs.append(np.sign(weights(algorithm)[0]))
    assert signs == [1, -1]


def test_demonstrations_are_better_than_every_rank():
    rng = np.random.default_rng(0)
    # Within the supplement the first feature says nothing, and the demonstration has less of it.
    supplement = [features(each, rng) for each in (1.0, 1.0)]
    algorithm = trex(supplement, [0, 1], [features(0.0, rng)])
    assert algorithm.ranked().values.tolist() == [0, 1, 2]
    algorithm.train_reward()
    assert weights(algorithm)[0] < 0


def test_hidden_actions_and_rewards_change_nothing():
    rng = np.random.default_rng(0)
    given = [features(each, rng) for each in (0.0, 1.0)]
    hidden = [
        dataclasses.replace(each, acts=np.empty((STEPS, 0), np.float32), rews=np.zeros(STEPS))
        for each in given
    ]
    found = []
    for trajectories in (given, hidden):
        algorithm = trex(trajectories, [0, 1])
        algorithm.train_reward()
        algorithm.train_policy(4 * STEPS)
        found.append(weights(algorithm))
    np.testing.assert_array_equal(*found)


def test_the_policy_is_trained_on_the_reward_which_stays_fixed():
    rng = np.random.default_rng(0)
    algorithm = trex([features(each, rng) for each in (0.0, 1.0)], [0, 1])
    with pytest.raises(ValueError, match="call train_reward"):
        algorithm.train_policy(STEPS)
    algorithm.train_reward()
    before = weights(algorithm).copy()
    algorithm.train_policy(4 * STEPS)
    np.testing.assert_array_equal(weights(algorithm), before)
    # All observations are zero, so each step's reward is the bias.
    bias = algorithm.reward_net.mlp.dense_final.bias.item()
    assert list(algorithm.generator.learned_returns) == pytest.approx([STEPS * bias] * 4)


# Bad input.


def test_a_ranking_with_ties_only_is_refused():
    given = [trajectory(np.zeros((5, 2)))] * 3
    with pytest.raises(InputError, match="all 3 trajectories have rank 4, so that there is no"):
        trex(given, [4, 4, 4], demonstrations=given)


@pytest.mark.parametrize(("count", "ranks"), [(2, [0]), (0, [])])
def test_each_trajectory_needs_a_rank(count, ranks):
    given = [trajectory(np.zeros((5, 2)))] * count
    with pytest.raises(ValueError, match=rf"one rank for each of {count} trajectories"):
        trex(given, np.array(ranks, dtype=int))


def test_a_reward_of_actions_is_refused():
    net = BasicRewardNet(Line.observation_space, Line.action_space)
    with pytest.raises(ValueError, match="make it with use_action=False"):
        trex([trajectory(np.zeros((5, 2)))], [0], reward_net=net)
