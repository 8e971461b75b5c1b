"""Divides rewards by the running standard deviation of discounted returns.

Source: Engstrom et al. 2020, "Implementation Matters in Deep Policy Gradients: A Case Study on PPO
and TRPO", algorithm 1; as implemented in `stable_baselines3.common.vec_env.VecNormalize`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn

Array = npt.NDArray[Any]

_EPSILON = 1e-8
_CLIP = 10.0
_FIRST_COUNT = 1e-4


class ReturnScaling:
    """Scales rewards; a step updates the statistics before its rewards are scaled.

    Args:
        n_envs: Number of environments.
        gamma: Discount factor of the returns.

    Attributes:
        returns: Discounted returns of the current episodes so far, shape (n_envs,), float64.
        mean: Mean of all returns so far.
        variance: Variance of all returns so far.
        count: Number of all returns so far.
    """

    def __init__(self, n_envs: int, gamma: float) -> None:
        self.gamma = gamma
        self.returns = np.zeros(n_envs, dtype=np.float64)
        self.mean, self.variance, self.count = 0.0, 1.0, _FIRST_COUNT

    def __call__(self, rewards: Array, dones: Array) -> Array:
        """Scales the rewards of a rollout, and adds its returns to the statistics.

        Args:
            rewards: Shape (T, n_envs).
            dones: Whether a step ended its episode, shape (T, n_envs), bool.

        Returns:
            Shape (T, n_envs), float32, in [-10, 10].
        """
        steps, n_envs = rewards.shape
        weights = self.gamma * (1.0 - dones)
        returns = np.empty((steps, n_envs), dtype=np.float64)
        carried = self.returns * self.gamma
        for row, reward, weight in zip(returns, rewards, weights, strict=True):
            np.add(carried, reward, out=row)
            np.multiply(row, weight, out=carried)
        self.returns = np.where(dones[-1], 0.0, returns[-1])
        # Moments after each step, relative to the mean before the first step.
        apart = returns - self.mean
        sums, squares = (np.cumsum(part.sum(axis=1)) for part in (apart, apart**2))
        counts = self.count + n_envs * np.arange(1, steps + 1)
        variances = (self.variance * self.count + squares - sums**2 / counts) / counts
        self.mean += float(sums[-1] / counts[-1])
        self.variance, self.count = float(variances[-1]), float(counts[-1])
        scaled = rewards / np.sqrt(np.maximum(variances, 0.0) + _EPSILON)[:, None]
        clipped: Array = np.clip(scaled, -_CLIP, _CLIP).astype(np.float32)
        return clipped

    def wrapped(self, venv: VecEnv) -> VecEnvWrapper:
        """Wraps environments to scale their rewards, for algorithms that process single steps."""
        return _ScaledRewards(venv, self)

    def state_dict(self) -> dict[str, Any]:
        """Returns the statistics, and the returns of the current episodes."""
        return {
            "returns": self.returns.copy(),
            "mean": self.mean,
            "variance": self.variance,
            "count": self.count,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the result of `state_dict`."""
        self.returns = np.array(state["returns"], dtype=np.float64)
        self.mean, self.variance = state["mean"], state["variance"]
        self.count = state["count"]


class _ScaledRewards(VecEnvWrapper):
    def __init__(self, venv: VecEnv, scaling: ReturnScaling) -> None:
        super().__init__(venv)
        self._scaling = scaling

    def reset(self) -> Any:
        return self.venv.reset()

    def step_wait(self) -> VecEnvStepReturn:
        obs, rewards, dones, infos = self.venv.step_wait()
        return obs, self._scaling(rewards[None], dones[None])[0], dones, infos
