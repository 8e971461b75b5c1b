"""A learner with a trainer that takes batches of a fixed data set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from imitbench.bench.learner import Callback, Checkpoint, Learner, no_checkpoint
from imitbench.records.runs import Budget

if TYPE_CHECKING:
    from stable_baselines3.common.policies import BasePolicy

CURVE_POINTS = 20
"""Points of a learning curve; between them the training may be saved."""


class BatchTrainer(Protocol):
    """A method that trains a policy in batches."""

    @property
    def policy(self) -> BasePolicy:
        """The policy."""

    @property
    def n_batches(self) -> int:
        """Batches so far."""

    def train(self, n_batches: int) -> dict[str, float]:
        """Trains for a number of batches, and returns metrics by name."""

    def state_dict(self) -> dict[str, Any]:
        """Returns the state between two batches."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""


class BatchLearner(Learner):
    """Trains one method in batches; `setup` of a subclass creates it.

    Attributes:
        trainer: The method's instance.
    """

    trainer: BatchTrainer

    def train(
        self, budget: Budget, callback: Callback, checkpoint: Checkpoint = no_checkpoint
    ) -> int:
        """Trains for `budget.amount` batches, without steps in the environment."""
        trainer = self.trainer
        stretch = max(1, budget.amount // CURVE_POINTS)
        while trainer.n_batches < budget.amount:
            logged = trainer.train(min(stretch, budget.amount - trainer.n_batches))
            callback(trainer.n_batches, logged)
            checkpoint()
        return 0

    def policy(self) -> BasePolicy:
        """Returns the trained policy."""
        return self.trainer.policy

    def state_dict(self) -> dict[str, Any]:
        """State between two batches."""
        return self.trainer.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        self.trainer.load_state_dict(state)
