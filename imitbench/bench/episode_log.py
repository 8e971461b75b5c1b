"""What happens in training episodes, for the learning curve."""

from __future__ import annotations

import numpy as np
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn


class EpisodeLog(VecEnvWrapper):
    """Notes how the episodes of monitored environments end.

    Returns are those of the environments' own rewards, which the learner does not see.

    Args:
        venv: Environments with Stable-Baselines3's monitor.

    Attributes:
        steps: Environment steps taken so far, over all environments.
    """

    def __init__(self, venv: VecEnv) -> None:
        super().__init__(venv)
        self.steps = 0
        self._ended: list[tuple[float, int, bool]] = []

    def reset(self) -> VecEnvObs:
        """Resets all environments."""
        return self.venv.reset()

    def step_wait(self) -> VecEnvStepReturn:
        """Finishes a step."""
        obs, rewards, dones, infos = self.venv.step_wait()
        self.steps += self.num_envs
        for index in np.flatnonzero(dones):
            info = infos[index]
            terminated = not info.get("TimeLimit.truncated", False)
            self._ended.append((info["episode"]["r"], info["episode"]["l"], terminated))
        return obs, rewards, dones, infos

    def pop(self) -> dict[str, float]:
        """Means over the episodes that ended since the last call; empty without any.

        Returns:
            `rollout/return_mean`, `rollout/length_mean` in steps, and
            `rollout/termination_rate`, the share that ended before the time limit.
        """
        if not self._ended:
            return {}
        returns, lengths, terminated = np.mean(self._ended, axis=0)
        self._ended = []
        return {
            "rollout/return_mean": float(returns),
            "rollout/length_mean": float(lengths),
            "rollout/termination_rate": float(terminated),
        }
