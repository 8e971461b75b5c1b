"""A vectorized environment in this process, without unnecessary copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import DummyVecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn


class SerialVecEnv(DummyVecEnv):
    """`DummyVecEnv` without its deep copies, which cost more than a step of a small environment.

    Observations, rewards and dones are new arrays at each step. Infos are new dictionaries with
    the environments' values, so that an environment that later modifies a value in place also
    changes it in infos returned earlier. Dictionary observations are handled by `DummyVecEnv`.

    Raises:
        ValueError: Two functions made the same environment.
    """

    def seed_each(self, seeds: Sequence[int]) -> None:
        """Seeds environment `i` with `seeds[i]` at the next reset."""
        self._seeds = list(seeds)

    def step_wait(self) -> VecEnvStepReturn:
        """Steps all environments, and resets those whose episode ended."""
        if self.keys != [None]:
            return super().step_wait()
        count = self.num_envs
        obs = np.empty_like(self._only_buffer())
        rewards = np.empty(count, dtype=np.float32)
        dones = np.zeros(count, dtype=bool)
        infos: list[dict[str, Any]] = []
        for index, (env, action) in enumerate(zip(self.envs, self.actions, strict=True)):
            observed, rewards[index], terminated, truncated, info = env.step(action)
            info = dict(info)
            info["TimeLimit.truncated"] = truncated and not terminated
            if terminated or truncated:
                dones[index] = True
                # Copied because the reset may reuse the memory.
                info["terminal_observation"] = np.array(observed)
                observed, self.reset_infos[index] = env.reset()
            obs[index] = observed
            infos.append(info)
        return obs, rewards, dones, infos

    def _obs_from_buf(self) -> VecEnvObs:
        if self.keys != [None]:
            return super()._obs_from_buf()
        return self._only_buffer().copy()

    def _only_buffer(self) -> np.ndarray[Any, Any]:
        (buffer,) = self.buf_obs.values()
        return buffer
