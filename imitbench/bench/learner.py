"""The seam between the harness and an algorithm: one class per method."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from imitbench.cards.algorithm import Scalar
from imitbench.records.runs import Budget, EnvironmentSpec

if TYPE_CHECKING:
    from stable_baselines3.common.policies import BasePolicy

    from imitbench.data.types import TrajectoryWithRew
    from imitbench.rewards.base import RewardNet
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stable_baselines3.common.policies import BasePolicy

    from imitbench.data.types import TrajectoryWithRew
    from imitbench.rewards.base import RewardNet


Callback = Callable[[int, Mapping[str, float]], None]
"""Called with (budget units spent so far, named metrics) to record a point of the curve."""


Checkpoint = Callable[[], object]
"""Called between two steps of training, when the learner's state is whole."""


def no_checkpoint() -> None:
    """Does nothing: for trainings that nobody will resume."""


@dataclass(frozen=True)
class Task:
    """What a learner is asked to solve.

    Attributes:
        environment: The environment's specification.
        observation_space: Space of its observations.
        action_space: Space of its actions.
        hyperparameters: Every hyper-parameter of the card with its value.
        seed: Seed for anything that does not take a NumPy generator.
        expert: The expert, for methods whose card says that they need it.
        folder: Folder of the method's card, if it is not one of this package's.
    """

    environment: EnvironmentSpec
    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]
    hyperparameters: Mapping[str, Scalar]
    seed: int
    expert: BasePolicy | None = None
    folder: Path | None = None


class Learner(ABC):
    """A method as the harness sees it.

    Called in the order `setup`, `load_state_dict` if an earlier attempt left a checkpoint,
    `train`, `policy`; and `state_dict` whenever `train` offers a checkpoint.
    """

    @abstractmethod
    def setup(
        self,
        task: Task,
        demos: Sequence[TrajectoryWithRew],
        rng: np.random.Generator,
        device: str,
    ) -> None:
        """Builds everything that training needs.

        Args:
            task: What to solve.
            demos: Whole expert episodes; empty for methods that need none. Their rewards are
                there for diagnosis and must not be learnt from.
            rng: The only source of randomness that may be used, beside torch's global
                generator, which is seeded.
            device: `cpu` or `cuda`.
        """

    @abstractmethod
    def train(
        self, budget: Budget, callback: Callback, checkpoint: Checkpoint = no_checkpoint
    ) -> int:
        """Trains until the budget is spent, what a restored state has spent included.

        Args:
            budget: How much training, in the unit that the card names.
            callback: Records points of the learning curve.
            checkpoint: To be called now and then, where `state_dict` is whole; cheap unless a
                checkpoint is due.

        Returns:
            Environment steps consumed; 0 for methods that learn offline.
        """

    @abstractmethod
    def policy(self) -> BasePolicy:
        """The learnt policy."""

    def reward(self) -> RewardNet | None:
        """The learnt reward, for methods that learn one."""
        return None

    def measures(self) -> dict[str, float]:
        """What else the method can say about its result, by name; asked after training."""
        return {}

    def transfer_policy(self) -> BasePolicy | None:
        """A policy trained from scratch on the learnt reward, which learns no more.

        It tells a reward that explains the expert from one that only drove this training.
        `None` for methods without a reward, and where that was not asked for.
        """
        return None

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Everything that further training depends on.

        Networks, optimizers, normalizers, buffers, generators, environments, and how much of the
        budget is spent; only the global generators are kept by the harness.

        Returns:
            Tensors, numeric arrays, numbers, strings and `None`, in any nesting of dictionaries,
            lists and tuples.
        """

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` of a learner set up alike gave.

        Training on must lead to the same numbers, bit for bit on the CPU, as if it had never
        been interrupted.
        """


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
