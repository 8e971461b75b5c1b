"""A chain of five states in which everything can be computed exactly."""

import gymnasium as gym
import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv

GAMMA = 0.9


class Chain(gym.Env):
    """Steps left, right or nowhere on five states in a ring; episodes of 20 steps."""

    n_states = 5
    observation_space = spaces.Discrete(5)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.time = int(self.np_random.integers(5)), 0
        return self.state, {}

    def step(self, action):
        self.state = int(successors()[self.state, action])
        self.time += 1
        return self.state, 0.0, False, self.time == 20, {}


def chain_venv(count=2):
    return DummyVecEnv([lambda: gym.wrappers.TimeLimit(Chain(), 20)] * count)


def successors():
    """Next state by state and action, shape (5, 3)."""
    return (np.arange(5)[:, None] + np.array([-1, 0, 1])) % 5


def soft_optimal_policy(rewards, steps=400):
    """Maximum-entropy policy of the discounted task, as logits, shape (5, 3).

    Args:
        rewards: By state and action, shape (5, 3).
        steps: Iterations of soft value iteration.
    """
    values = np.zeros(5)
    for _ in range(steps):
        q = rewards + GAMMA * values[successors()]
        values = np.log(np.exp(q).sum(axis=1))
    return q - values[:, None]


def transitions(logits, count, rng):
    """Transitions from uniformly random states under a policy."""
    states = rng.integers(5, size=count)
    probabilities = np.exp(logits)[states]
    actions = (rng.random((count, 1)) > probabilities.cumsum(axis=1)).sum(axis=1).clip(max=2)
    return {
        "obs": states,
        "acts": actions,
        "next_obs": successors()[states, actions],
        "dones": np.zeros(count, dtype=bool),
    }


def set_policy(policy, logits):
    """Makes a linear actor-critic policy on one-hot states act by these logits."""
    with th.no_grad():
        policy.action_net.weight.copy_(th.as_tensor(logits.T))
        policy.action_net.bias.zero_()
