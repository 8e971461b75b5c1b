"""Advantages are those of Stable-Baselines3, to the bit."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer

from imitbench.rl.rollout import estimate_advantages


@pytest.fixture
def rollout():
    rng = np.random.default_rng(0)
    rewards, values = rng.normal(size=(2, 50, 3)).astype(np.float32)
    return rewards, values, rng.normal(size=3).astype(np.float32), rng.random((50, 3)) < 0.2


@pytest.mark.parametrize(("gamma", "lam"), [(0.99, 0.95), (1.0, 1.0), (0.9, 0.0)])
def test_equals_the_buffer_of_stable_baselines3(rollout, gamma, lam):
    rewards, values, last_values, dones = rollout
    box = spaces.Box(-1, 1, (1,))
    buffer = RolloutBuffer(50, box, box, "cpu", gae_lambda=lam, gamma=gamma, n_envs=3)
    buffer.rewards, buffer.values = rewards, values
    buffer.episode_starts[1:] = dones[:-1]
    buffer.compute_returns_and_advantage(th.from_numpy(last_values), dones[-1])
    found = estimate_advantages(*rollout, gamma, lam)
    np.testing.assert_array_equal(found, buffer.advantages)


def test_without_discount_it_is_the_return_less_the_value():
    ones, values = np.ones((3, 1), np.float32), np.full((3, 1), 0.5, np.float32)
    dones = np.array([[False], [True], [False]])
    found = estimate_advantages(ones, values, np.array([7.0], np.float32), dones, 1.0, 1.0)
    assert found.ravel().tolist() == [1.5, 0.5, 7.5]
