"""Counts the steps of the running episodes of a vector environment."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

Array = npt.NDArray[Any]


class EpisodeClock(VecEnvWrapper):
    """Gives the time step of transitions of which only the ends of episodes are known.

    Args:
        venv: Environment; its resets restart the clock.

    Attributes:
        steps: Steps of the running episodes that `advance` has counted, shape (n_envs,).
    """

    def __init__(self, venv: VecEnv) -> None:
        super().__init__(venv)
        self.steps: npt.NDArray[np.int64] = np.zeros(self.num_envs, dtype=np.int64)

    def reset(self) -> VecEnvObs:
        """Resets the environments."""
        self.steps[:] = 0
        return self.venv.reset()

    def step_wait(self) -> VecEnvStepReturn:
        """Finishes a step; `advance` counts it."""
        return self.venv.step_wait()

    def advance(self, dones: Array) -> npt.NDArray[np.int64]:
        """Counts transitions.

        Args:
            dones: Whether the episode ended, shape (steps * n_envs,): entry `t * n_envs + i` is of
                environment `i`.

        Returns:
            Time step of each transition within its episode, from 0, in the same order.
        """
        ends = np.asarray(dones, dtype=bool).reshape(-1, self.num_envs)
        # Counted from the last end before, or from the clock's state.
        rows = np.arange(len(ends))[:, None]
        start = np.full((len(ends) + 1, self.num_envs), -1, dtype=np.int64)
        start[1:][ends] = np.broadcast_to(rows + 1, ends.shape)[ends]
        start = np.maximum.accumulate(start, axis=0)
        begun = start >= 0
        rows = np.arange(len(ends) + 1)[:, None]
        times = np.where(begun, rows - start, rows + self.steps)
        self.steps[:] = times[-1]
        return np.asarray(times[:-1].reshape(-1), dtype=np.int64)
