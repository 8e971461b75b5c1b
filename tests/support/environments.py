"""Small environments with known observations, rewards and lengths."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Counter(gym.Env):
    """Counts the steps of the episode; the reward is the count.

    Its observations are float64 although its space is float32, as in many environments.
    """

    action_space = spaces.Discrete(3)
    observation_space = spaces.Box(-1.0, 1e6, (2,), np.float32)

    def __init__(self, lengths=(5,), truncate=False):
        self.lengths, self.truncate = lengths, truncate
        self.episode = -1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode += 1
        self.count = 0
        self.length = self.lengths[self.episode % len(self.lengths)]
        return self._observe(), {}

    def step(self, action):
        self.count += 1
        over = self.count == self.length
        ended, cut = over and not self.truncate, over and self.truncate
        return self._observe(), float(self.count), ended, cut, {"action": int(action)}

    def _observe(self):
        return np.array([self.count, self.episode], dtype=np.float64)


class CoinFlip(gym.Env):
    """Has episodes of 1 or 30 steps with equal probability: 15.5 steps on average."""

    action_space = spaces.Discrete(2)
    observation_space = spaces.Box(0.0, 30.0, (1,), np.float32)
    mean_length = 15.5

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 30 if self.np_random.random() < 0.5 else 1
        return np.array([self.left], np.float32), {}

    def step(self, action):
        self.left -= 1
        return np.array([self.left], np.float32), 1.0, self.left == 0, False, {}


class DictCounter(gym.ObservationWrapper):
    """`Counter` with dictionary observations."""

    observation_space = spaces.Dict(
        {"count": spaces.Box(0, 1e6, (1,), np.float32), "episode": spaces.Discrete(1000)}
    )

    def observation(self, observation):
        return {"count": observation[:1], "episode": np.int64(observation[1])}
