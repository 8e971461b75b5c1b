"""Reference policies without training: uniformly random actions, and the expert."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from imitbench.bench.learner import Callback, Checkpoint, Learner, Task, no_checkpoint
from imitbench.policies.base import RandomPolicy
from imitbench.records.runs import Budget

if TYPE_CHECKING:
    from stable_baselines3.common.policies import BasePolicy

    from imitbench.data.types import TrajectoryWithRew


class _UntrainedLearner(Learner):
    """A learner without training."""

    @abstractmethod
    def _policy_for(self, task: Task) -> BasePolicy:
        """Returns the policy for a task."""

    def setup(
        self,
        task: Task,
        demos: Sequence[TrajectoryWithRew],
        rng: np.random.Generator,
        device: str,
    ) -> None:
        """Sets the policy."""
        self._policy = self._policy_for(task)

    def train(
        self, budget: Budget, callback: Callback, checkpoint: Checkpoint = no_checkpoint
    ) -> int:
        """Does nothing."""
        return 0

    def policy(self) -> BasePolicy:
        """Returns the policy of `setup`."""
        return self._policy

    def state_dict(self) -> dict[str, Any]:
        """Returns an empty state."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Nothing to restore."""


class RandomLearner(_UntrainedLearner):
    """Uniformly random actions: score 0."""

    def _policy_for(self, task: Task) -> BasePolicy:
        return RandomPolicy(task.observation_space, task.action_space)


class ExpertLearner(_UntrainedLearner):
    """The suite's expert: score 1."""

    def _policy_for(self, task: Task) -> BasePolicy:
        assert task.expert is not None, "the card requires an expert"
        return task.expert
