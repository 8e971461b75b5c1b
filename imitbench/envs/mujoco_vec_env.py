"""A vectorized environment of a MuJoCo task whose simulations are stepped together."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from imitbench.data.resumable_env import ResumableEnv
from imitbench.envs.mujoco_batch import MujocoBatch, time_limit
from imitbench.util.serial_vec_env import SerialVecEnv


class MujocoVecEnv(SerialVecEnv):
    """Steps all simulations in one call of MuJoCo, and computes their results in NumPy.

    All results are those of `SerialVecEnv` with the same environments, bit for bit. These reset
    themselves as before; between resets, their own data is not up to date, except within
    `env_method` and rendering.

    Args:
        envs: Environments of one task, for which `imitbench.envs.mujoco_batch.agrees`.
        threads: Threads of the simulator; they do not change results.
    """

    def __init__(self, envs: Sequence[gym.Env[Any, Any]], threads: int = 1) -> None:
        self._monitors: list[Any] = [Monitor(env) for env in envs]
        self._resumable = [ResumableEnv(monitor) for monitor in self._monitors]
        wrapped = iter(self._resumable)
        super().__init__([lambda: next(wrapped) for _ in envs])
        self._limit = time_limit(envs[0]) or np.inf
        self._batch = MujocoBatch([env.unwrapped for env in self.envs], threads)
        self._lengths = np.zeros(self.num_envs, dtype=np.int64)
        self._returns = np.zeros(self.num_envs)
        self._actions: list[np.ndarray[Any, Any]] = []  # since the first of the current episodes
        self._obs: np.ndarray[Any, Any] = self._only_buffer().copy()

    def reset(self) -> VecEnvObs:
        """Resets all environments."""
        obs = super().reset()
        assert isinstance(obs, np.ndarray), "the tasks' observations are arrays"
        self._actions = []
        for index in range(self.num_envs):
            self._begin(index, obs[index])
        return obs

    def step_wait(self) -> VecEnvStepReturn:
        """Steps all simulations, and resets those whose episode ended."""
        actions = np.array(self.actions)
        results = self._batch.step(actions)
        self._actions.append(actions)
        self._lengths += 1
        self._returns += results.rewards
        truncated = self._lengths >= self._limit
        dones = results.terminated | truncated
        obs = results.obs.astype(self._obs.dtype, copy=False)
        names, columns = list(results.infos), [column.tolist() for column in results.infos.values()]
        infos: list[dict[str, Any]] = [
            dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)
        ]
        self._obs = obs.copy()
        for index, info in enumerate(infos):
            info["TimeLimit.truncated"] = False
            if dones[index]:
                info["TimeLimit.truncated"] = not bool(results.terminated[index])
                info["terminal_observation"] = obs[index].copy()
                info["episode"] = self._finished(index)
                obs[index], self.reset_infos[index] = self.envs[index].reset()
                self._begin(index, obs[index])
        return obs, results.rewards.astype(np.float32), dones, infos

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        """Calls a method of environments, whose data is up to date while it runs."""
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
        self._lengths[index], self._returns[index] = 0, 0.0
        self._obs[index] = obs
        del self._actions[: len(self._actions) - int(self._lengths.max())]

    def _finished(self, index: int) -> dict[str, Any]:
        """What the monitor says of an episode that has ended."""
        begun = self._monitors[index].t_start
        return {
            "r": round(float(self._returns[index]), 6),
            "l": int(self._lengths[index]),
            "t": round(time.time() - begun, 6),
        }

    def _taken(self, index: int) -> list[np.ndarray[Any, Any]]:
        """The actions of the current episode."""
        length = int(self._lengths[index])
        return [actions[index].copy() for actions in self._actions[len(self._actions) - length :]]

    def _restored(self, chosen: Sequence[int]) -> None:
        """Takes over episodes that environments have replayed."""
        kept = {index: self._taken(index) for index in range(self.num_envs) if index not in chosen}
        for index in chosen:
            state = self._resumable[index].episode_state()
            kept[index] = state["actions"]
            self._batch.load(index)
            self._lengths[index] = len(kept[index])
            self._returns[index] = sum(self._monitors[index].rewards)
            if state["obs"] is not None:
                self._obs[index] = state["obs"]
        longest = max(len(actions) for actions in kept.values())
        shape = (self.num_envs, *(self.action_space.shape or ()))
        self._actions = [np.zeros(shape, self.action_space.dtype) for _ in range(longest)]
        for index, actions in kept.items():
            for row, action in zip(self._actions[longest - len(actions) :], actions, strict=True):
                row[index] = action
