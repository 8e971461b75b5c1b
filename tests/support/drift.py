"""An environment for short trainings, with any action space."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv


class Drift(gym.Env):
    """A point drifts at random and is pushed by actions; episodes have ten steps."""

    def __init__(self, action_space, size=3):
        self.action_space = action_space
        self.observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.step_count = 0
        return self._observe(), {}

    def step(self, action):
        self.step_count += 1
        return self._observe(), float(np.sum(action)), False, self.step_count == 10, {}

    def _observe(self):
        return self.np_random.normal(2.0, 3.0, self.observation_space.shape).astype(np.float32)


CHOICE = spaces.Discrete(3)
TORQUE = spaces.Box(-2.0, 2.0, (2,), np.float32)


def drift_venv(action_space=TORQUE, size=3, n_envs=2):
    venv = DummyVecEnv([lambda: Drift(action_space, size)] * n_envs)
    venv.seed(0)
    return venv
