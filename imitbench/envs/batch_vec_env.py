"""A vectorized environment of one task whose environments are stepped together."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from imitbench.data.resumable_env import ResumableEnv
from imitbench.envs.batch_choice import make_batch, unlimited
from imitbench.util.serial_vec_env import SerialVecEnv


class BatchVecEnv(SerialVecEnv):
    """Steps all environments as one batch, see `imitbench.envs.batch.Batch`.

    All results are those of `SerialVecEnv` with the same environments, bit for bit. These reset
    themselves as before; between resets, their own state is not up to date, except within
    `env_method` and rendering.

    Args:
        envs: Environments of one task, for which `imitbench.envs.batch_choice.agrees`.
        threads: Threads of a simulator; they do not change results.
    """

    def __init__(self, envs: Sequence[gym.Env[Any, Any]], threads: int = 1) -> None:
        self._monitors: list[Any] = [Monitor(env) for env in envs]
        self._resumable = [ResumableEnv(monitor) for monitor in self._monitors]
        wrapped = iter(self._resumable)
        super().__init__([lambda: next(wrapped) for _ in envs])
        self._limit = unlimited(envs[0])[1]
        self._batch = make_batch(envs, threads)
        self._lengths = np.zeros(self.num_envs, dtype=np.int64)
        # Actions and rewards since the first step of the current episodes.
        self._actions: list[np.ndarray[Any, Any]] = []
        self._rewards: list[list[float]] = []
        self._obs: np.ndarray[Any, Any] = self._only_buffer().copy()

    def reset(self) -> VecEnvObs:
        """Resets all environments."""
        obs = super().reset()
        assert isinstance(obs, np.ndarray), "the tasks' observations are arrays"
        self._actions, self._rewards = [], []
        for index in range(self.num_envs):
            self._begin(index, obs[index])
        return obs

    def step_wait(self) -> VecEnvStepReturn:
        """Steps all environments, and resets those whose episode ended."""
        actions = np.array(self.actions)
        results = self._batch.step(actions)
        self._actions.append(actions)
        self._rewards.append(results.rewards.tolist())
        self._lengths += 1
        dones = results.terminated | (self._lengths >= self._limit)
        obs = results.obs.astype(self._obs.dtype, copy=False)
        infos = self._infos(results.infos)
        self._obs = obs.copy()
        for index in np.flatnonzero(dones).tolist():
            info = infos[index]
            info["TimeLimit.truncated"] = not bool(results.terminated[index])
            info["terminal_observation"] = obs[index].copy()
            info["episode"] = self._finished(index)
            obs[index], self.reset_infos[index] = self.envs[index].reset()
            self._begin(index, obs[index])
        return obs, results.rewards.astype(np.float32), dones, infos

    def _infos(self, columns: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Infos of each environment; no episode has ended yet."""
        if not columns:
            return [{"TimeLimit.truncated": False} for _ in range(self.num_envs)]
        names = [*columns, "TimeLimit.truncated"]
        values = [v if isinstance(v, list) else v.tolist() for v in columns.values()]
        values.append([False] * self.num_envs)
        return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        """Calls a method of environments, whose state is up to date while it runs."""
        chosen = list(self._get_indices(indices))
        for index in chosen:
            self._batch.write_back(index)
            self._resumable[index].set_progress(self._taken(index), self._obs[index])
        found = super().env_method(method_name, *method_args, indices=indices, **method_kwargs)
        if method_name == "reset":
            for index, (obs, _) in zip(chosen, found, strict=True):
                self._begin(index, obs)
        elif method_name == "restore_episode":
            self._restored(chosen)
        else:
            for index in chosen:
                self._batch.load(index, moved=False)
        return found

    def get_images(self) -> Sequence[np.ndarray[Any, Any] | None]:
        """Renders all environments."""
        for index in range(self.num_envs):
            self._batch.write_back(index, derived=True)
        return super().get_images()

    def _begin(self, index: int, obs: np.ndarray[Any, Any]) -> None:
        self._batch.load(index)
        self._lengths[index] = 0
        self._obs[index] = obs
        over = len(self._actions) - int(self._lengths.max())
        del self._actions[:over], self._rewards[:over]

    def _finished(self, index: int) -> dict[str, Any]:
        """What the monitor says of an episode that has ended."""
        begun, length = self._monitors[index].t_start, int(self._lengths[index])
        # The sum of a list, as the monitor's: some versions of Python compensate its rounding.
        total = sum(self._earned(index))
        return {"r": round(total, 6), "l": length, "t": round(time.time() - begun, 6)}

    def _taken(self, index: int) -> list[np.ndarray[Any, Any]]:
        """The actions of the current episode."""
        length = int(self._lengths[index])
        return [np.array(taken[index]) for taken in self._actions[len(self._actions) - length :]]

    def _restored(self, chosen: Sequence[int]) -> None:
        """Takes over episodes that environments have replayed."""
        kept = {
            index: (self._taken(index), self._earned(index))
            for index in range(self.num_envs)
            if index not in chosen
        }
        for index in chosen:
            state = self._resumable[index].episode_state()
            kept[index] = state["actions"], self._monitors[index].rewards
            self._batch.load(index)
            self._lengths[index] = len(state["actions"])
            if state["obs"] is not None:
                self._obs[index] = state["obs"]
        longest = int(self._lengths.max())
        shape = (self.num_envs, *(self.action_space.shape or ()))
        self._actions = [np.zeros(shape, self.action_space.dtype) for _ in range(longest)]
        self._rewards = [[0.0] * self.num_envs for _ in range(longest)]
        for index, (actions, rewards) in kept.items():
            for step, action in enumerate(actions, longest - len(actions)):
                self._actions[step][index] = action
            for step, reward in enumerate(rewards, longest - len(rewards)):
                self._rewards[step][index] = reward

    def _earned(self, index: int) -> list[float]:
        """The rewards of the current episode."""
        length = int(self._lengths[index])
        return [rewards[index] for rewards in self._rewards[len(self._rewards) - length :]]
