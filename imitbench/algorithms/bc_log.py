"""The log of behavioral cloning: its loss, and rollouts of the policy."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.vec_env import VecEnv

from imitbench.data import rollout
from imitbench.util.logger import HierarchicalLogger

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclasses.dataclass(frozen=True)
class RolloutStatsComputer:
    """Evaluates a policy during training.

    Attributes:
        venv: Environments to act in; `None` for no evaluation.
        n_episodes: Least number of episodes; no evaluation if not positive.
    """

    venv: VecEnv | None
    n_episodes: int

    def __call__(self, policy: BasePolicy, rng: np.random.Generator) -> Mapping[str, float]:
        """Statistics of `rollout.rollout_stats`; empty without evaluation."""
        if self.venv is None or self.n_episodes <= 0:
            return {}
        trajectories = rollout.generate_trajectories(
            policy, self.venv, rollout.make_min_episodes(self.n_episodes), rng=rng
        )
        return rollout.rollout_stats(trajectories)


class BCLogger:
    """Logs the training of behavioral cloning.

    Args:
        logger: Receives the records.
    """

    def __init__(self, logger: HierarchicalLogger) -> None:
        self._logger = logger
        self._tensorboard_step = 0
        self._current_epoch = 0

    def reset_tensorboard_steps(self) -> None:
        """Restarts the step count at 0."""
        self._tensorboard_step = 0

    def log_epoch(self, epoch_number: int) -> None:
        """Sets the number of the current pass."""
        self._current_epoch = epoch_number

    def log_batch(
        self,
        batch_num: int,
        batch_size: int,
        num_samples_so_far: int,
        training_metrics: DataclassInstance,
        rollout_stats: Mapping[str, float],
    ) -> None:
        """Logs one batch under `bc/`, and rollouts under `rollout/`."""
        self._logger.record("batch_size", batch_size)
        self._logger.record("bc/epoch", self._current_epoch)
        self._logger.record("bc/batch", batch_num)
        self._logger.record("bc/samples_so_far", num_samples_so_far)
        for field in dataclasses.fields(training_metrics):
            value = getattr(training_metrics, field.name)
            if value is not None:
                self._logger.record(f"bc/{field.name}", value.item())
        for name, statistic in rollout_stats.items():
            # The monitor's returns are equal unless a wrapper changes rewards.
            if "return" in name and "monitor" not in name:
                self._logger.record(f"rollout/{name}", statistic)
        self._logger.dump(self._tensorboard_step)
        self._tensorboard_step += 1

    def __getstate__(self) -> dict[str, Any]:
        """The state without the logger, which holds open files."""
        state = self.__dict__.copy()
        del state["_logger"]
        return state
