"""Converts an algorithm's log into points of its learning curve."""

from __future__ import annotations

import copy
import math
from collections.abc import Collection, MutableSequence
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.logger import KVWriter, Logger
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import (
    VecEnvIndices,
    VecEnvObs,
    VecEnvStepReturn,
)

from imitbench.bench.learner import Callback
from imitbench.util.logger import HierarchicalLogger


class CurveWriter(KVWriter):
    """An output of the logger that passes numbers to the harness.

    Args:
        step_key: Logged key that counts units of the budget.
        leave_out: Logged keys that are not metrics.

    Attributes:
        callback: Receives the points; `None` drops them.
        offset: Added to the step, because the algorithm may count from 0 again.
    """

    def __init__(self, step_key: str, leave_out: Collection[str] = ()) -> None:
        self.callback: Callback | None = None
        self.offset = 0
        self._step_key = step_key
        self._not_metrics = {step_key, *leave_out}

    def write(
        self,
        key_values: dict[str, Any],
        key_excluded: dict[str, tuple[str, ...]],
        step: int = 0,
    ) -> None:
        """Records one point from the logged numbers."""
        if self.callback is None or self._step_key not in key_values:
            return
        numbers = {
            key: float(value) for key, value in key_values.items() if key not in self._not_metrics
        }
        self.callback(self.offset + int(key_values[self._step_key]), numbers)

    def close(self) -> None:
        """Nothing to close."""


def curve_logger(writer: CurveWriter) -> HierarchicalLogger:
    """Creates a logger whose only output is the learning curve."""
    return HierarchicalLogger(Logger(folder=None, output_formats=[writer]), format_strs=[])


def silent_logger() -> HierarchicalLogger:
    """Creates a logger without outputs, for learners that record their curve themselves."""
    return HierarchicalLogger(Logger(folder=None, output_formats=[]), format_strs=[])


def pop_learned_return(ended: MutableSequence[float]) -> dict[str, float]:
    """Returns the mean return of ended episodes by a learned reward, and forgets them.

    Args:
        ended: Returns of the episodes that ended since the last call; cleared.

    Returns:
        `rollout/learned_return_mean`; empty if no episode ended.
    """
    if not ended:
        return {}
    mean = float(np.mean(ended))
    ended.clear()
    return {"rollout/learned_return_mean": mean}


class EpisodeLog(VecEnvWrapper):
    """Records the returns, lengths and ends of the episodes of monitored environments.

    Returns use the environments' rewards, also where these are hidden from the learner.

    Args:
        venv: Environments with Stable-Baselines3's monitor.
        seeds: Number of seeds that share the environments in equal parts: those of the first seed
            come first.

    Attributes:
        steps: Environment steps taken so far, over all environments.
    """

    def __init__(self, venv: VecEnv, seeds: int = 1) -> None:
        super().__init__(venv)
        self.steps = 0
        self._ended: list[list[tuple[float, int, bool]]] = [[] for _ in range(seeds)]

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
            ended = self._ended[index * len(self._ended) // self.num_envs]
            ended.append((self._return(int(index), info), info["episode"]["l"], terminated))
        return obs, rewards, dones, infos

    def _return(self, index: int, info: dict[str, Any]) -> float:
        seen = float(info["episode"]["r"])
        if math.isnan(seen) and self.venv.has_attr("finished_return"):
            (hidden,) = self.venv.get_attr("finished_return", index)
            return float(round(hidden, 6))  # as the monitor does
        return seen

    def pop(self, seed: int = 0) -> dict[str, float]:
        """Returns means over the episodes that ended since the last call; empty if none did.

        Args:
            seed: Number of the seed, from 0.

        Returns:
            `rollout/return_mean`, `rollout/length_mean` in steps, and
            `rollout/termination_rate`, the share that ended before the time limit.
        """
        if not self._ended[seed]:
            return {}
        returns, lengths, terminated = np.mean(self._ended[seed], axis=0)
        self._ended[seed] = []
        return {
            "rollout/return_mean": float(returns),
            "rollout/length_mean": float(lengths),
            "rollout/termination_rate": float(terminated),
        }


class SeedEpisodes(VecEnv):
    """The environments of one seed in an `EpisodeLog` of several, which steps them all at once.

    It has their spaces and attributes, but cannot step or reset them.

    Args:
        log: The environments of all seeds.
        seed: Number of the seed, from 0.
        count: Number of environments of each seed.
    """

    def __init__(self, log: EpisodeLog, seed: int, count: int) -> None:
        self._log = log
        self._seed = seed
        self._indices = range(seed * count, (seed + 1) * count)
        # Copied because algorithms seed their action space.
        super().__init__(count, log.observation_space, copy.deepcopy(log.action_space))

    def pop(self) -> dict[str, float]:
        """Returns what `EpisodeLog.pop` does for the seed."""
        return self._log.pop(self._seed)

    def reset(self) -> VecEnvObs:
        """Not possible for one seed alone."""
        raise RuntimeError("the environments of all seeds are reset together")

    def step_async(self, actions: np.ndarray[Any, Any]) -> None:
        """Not possible for one seed alone."""
        raise RuntimeError("the environments of all seeds are stepped together")

    def step_wait(self) -> VecEnvStepReturn:
        """Not possible for one seed alone."""
        raise RuntimeError("the environments of all seeds are stepped together")

    def close(self) -> None:
        """Does nothing: the other seeds may go on."""

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Returns an attribute of environments."""
        return self._log.get_attr(attr_name, self._of_log(indices))

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Sets an attribute of environments."""
        self._log.set_attr(attr_name, value, self._of_log(indices))

    def env_method(
        self,
        method_name: str,
        *method_args: Any,
        indices: VecEnvIndices = None,
        **method_kwargs: Any,
    ) -> list[Any]:
        """Calls a method of environments."""
        of_log = self._of_log(indices)
        return self._log.env_method(method_name, *method_args, indices=of_log, **method_kwargs)

    def env_is_wrapped(
        self, wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]], indices: VecEnvIndices = None
    ) -> list[bool]:
        """Whether environments have a wrapper."""
        return self._log.env_is_wrapped(wrapper_class, self._of_log(indices))

    def _of_log(self, indices: VecEnvIndices) -> list[int]:
        return [self._indices[index] for index in self._get_indices(indices)]
