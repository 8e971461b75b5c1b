"""Environment wrappers that keep what other wrappers hide."""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np

from imitbench.data.observations import Observation, maybe_wrap_in_dictobs, stack_maybe_dictobs


class RolloutInfoWrapper(gym.Wrapper[Any, Any, Any, Any]):
    """Reports the whole episode, as this wrapper saw it, in the info of its last step.

    When an episode ends, `info["rollout"]` is a dictionary with the keys `obs`, shape
    `(T + 1, *observation_shape)`, and `rews`, shape `(T,)`, float64. Wrappers further out may
    change observations and rewards; `imitbench.data.rollout.unwrap_traj` brings the originals
    back.

    Args:
        env: Environment to wrap; put this wrapper innermost.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self._obs: list[Observation] = []
        self._rews: list[float] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts an episode and forgets the previous one."""
        obs, info = self.env.reset(seed=seed, options=options)
        self._obs = [_keep(obs)]
        self._rews = []
        return obs, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Steps the environment.

        Returns:
            What the environment returned, with `info["rollout"]` added at an episode's end.

        Raises:
            ValueError: The environment's info has a `rollout` entry of its own.
        """
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._obs.append(_keep(obs))
        self._rews.append(float(reward))
        if terminated or truncated:
            if "rollout" in info:
                raise ValueError("info has an entry 'rollout' already: wrap the environment once")
            info["rollout"] = {
                "obs": stack_maybe_dictobs(self._obs),
                "rews": np.array(self._rews),
            }
        return obs, reward, terminated, truncated, info


def _keep(obs: Any) -> Observation:
    """A copy, because an environment may write its next observation into the same memory."""
    if isinstance(obs, dict):
        return maybe_wrap_in_dictobs({key: np.array(value) for key, value in obs.items()})
    return np.array(obs)
