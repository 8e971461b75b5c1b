"""A learner around another one: what watches a training without changing it starts from here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from imitbench.bench.learner import Callback, Checkpoint, Learner, Task, no_checkpoint
from imitbench.records.runs import Budget

if TYPE_CHECKING:
    from stable_baselines3.common.policies import BasePolicy

    from imitbench.data.types import TrajectoryWithRew
    from imitbench.rewards.base import RewardNet


class LearnerWrapper(Learner):
    """Passes everything on.

    Args:
        learner: The learner itself.

    Attributes:
        learner: The learner itself.
    """

    def __init__(self, learner: Learner) -> None:
        self.learner = learner

    def setup(
        self,
        task: Task,
        demos: Sequence[TrajectoryWithRew],
        rng: np.random.Generator,
        device: str,
    ) -> None:
        """Sets the learner up."""
        self.learner.setup(task, demos, rng, device)

    def train(
        self, budget: Budget, callback: Callback, checkpoint: Checkpoint = no_checkpoint
    ) -> int:
        """Trains the learner."""
        return self.learner.train(budget, callback, checkpoint)

    def policy(self) -> BasePolicy:
        """The learner's policy."""
        return self.learner.policy()

    def reward(self) -> RewardNet | None:
        """The learner's reward."""
        return self.learner.reward()

    def measures(self) -> dict[str, float]:
        """The learner's measures."""
        return self.learner.measures()

    def transfer_policy(self) -> BasePolicy | None:
        """The learner's policy trained on its reward."""
        return self.learner.transfer_policy()

    def state_dict(self) -> dict[str, Any]:
        """The learner's state."""
        return self.learner.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the learner."""
        self.learner.load_state_dict(state)
