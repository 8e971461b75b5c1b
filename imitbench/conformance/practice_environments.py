"""Small made-up environments, one for each kind of action space, on which methods are tried."""

from __future__ import annotations

from typing import Any, get_args

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from imitbench.cards.algorithm import ActionSpace
from imitbench.records.runs import EnvironmentSpec

HORIZON = 200
_KINDS: dict[ActionSpace, spaces.Space[Any]] = {
    "discrete": spaces.Discrete(3),
    "multi_discrete": spaces.MultiDiscrete([3, 2]),
    "box": spaces.Box(-2.0, 2.0, (2,), np.float32),
}


class DriftEnv(gym.Env[npt.NDArray[np.float32], Any]):
    """A point that drifts, and that actions push; as registered, episodes have one length.

    Args:
        kind: Kind of action space.
    """

    def __init__(self, kind: ActionSpace) -> None:
        self.observation_space = spaces.Box(-10.0, 10.0, (3,), np.float32)
        self.action_space = _KINDS[kind]
        self._push = np.linspace(-0.2, 0.2, 6).reshape(2, 3)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Starts somewhere near the middle."""
        super().reset(seed=seed)
        self._position = self.np_random.normal(size=3)
        return self._position.astype(np.float32), {}

    def step(
        self, action: Any
    ) -> tuple[npt.NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Moves the point; being near the middle is rewarded."""
        push = np.resize(np.asarray(action, dtype=np.float64).ravel(), 2) @ self._push
        drift = self.np_random.normal(scale=0.1, size=3)
        self._position = np.clip(0.95 * self._position + push + drift, -10.0, 10.0)
        reward = -float(np.abs(self._position).sum())
        return self._position.astype(np.float32), reward, False, False, {}


def environment_id(kind: ActionSpace) -> str:
    """Gymnasium id of the environment with such actions."""
    return f"imitbench-practice/{kind}-v0"


def practice_environment(kind: ActionSpace) -> EnvironmentSpec:
    """The environment with such actions."""
    return EnvironmentSpec(id=environment_id(kind), module=__name__)


for _kind in get_args(ActionSpace):
    if environment_id(_kind) not in gym.registry:
        gym.register(
            environment_id(_kind),
            entry_point=f"{__name__}:Drift",
            kwargs={"kind": _kind},
            max_episode_steps=HORIZON,
        )
