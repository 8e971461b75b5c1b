"""Reach: moves a point in the plane to a target. Importing the module registers it."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

HORIZON = 50
Vector = npt.NDArray[np.float32]


class Reach(gym.Env[Vector, Vector]):
    """Observations are the point and its target; an action is a step along both axes.

    Every episode has the same length, because early ends would give methods information about
    the reward. All randomness comes from `self.np_random`, so that episodes can be resumed.

    Args:
        reach: Longest step along each axis; the card can set it: `kwargs: {reach: 0.2}`.
    """

    observation_space = spaces.Box(-1.0, 1.0, (4,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def __init__(self, reach: float = 0.1) -> None:
        self._reach = reach

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Vector, dict[str, Any]]:
        """Draws new positions of point and target."""
        super().reset(seed=seed)
        self._point, self._target = self.np_random.uniform(-1.0, 1.0, size=(2, 2))
        self._steps = 0
        return self._observation(), {}

    def step(self, action: Vector) -> tuple[Vector, float, bool, bool, dict[str, Any]]:
        """Moves the point; the reward is the negative distance to the target."""
        self._point = np.clip(self._point + self._reach * np.clip(action, -1.0, 1.0), -1.0, 1.0)
        self._steps += 1
        reward = -float(np.linalg.norm(self._point - self._target))
        return self._observation(), reward, False, self._steps >= HORIZON, {}

    def _observation(self) -> Vector:
        return np.concatenate([self._point, self._target]).astype(np.float32)


# By name, so that the specification of the environment can be stored, as collectors do.
gym.register("my_suite/Reach-v0", entry_point=f"{__name__}:Reach")
