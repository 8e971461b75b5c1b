"""The interface between the harness and a method: one `Learner` class per method."""

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
    import numpy.typing as npt
    from stable_baselines3.common.policies import BasePolicy

    from imitbench.data.types import TrajectoryWithRew
    from imitbench.rewards.base import RewardNet
    from imitbench.rewards.reward_function import RewardFn


Callback = Callable[[int, Mapping[str, float]], None]
"""Called with (budget units spent so far, named metrics) to record a point of the curve."""


Checkpoint = Callable[[], object]
"""Called between two steps of training, when `state_dict` is complete."""


def no_checkpoint() -> None:
    """Does nothing; for trainings that are never resumed."""


def never_stop() -> None:
    """Does nothing; for trainings that nobody stops."""


@dataclass(frozen=True)
class Supplement:
    """Trajectories of mixed quality that a method gets besides the expert's demonstrations.

    Attributes:
        trajectories: Whole episodes of several policies, in random order, without rewards (NaN)
            and without names of their policies.
        ranks: Rank of each trajectory by its true return, shape `(len(trajectories),)`, dtype
            int64: 0 for the worst, equal for equal returns; `None` unless the method's card has
            `needs.ranking`.
    """

    trajectories: Sequence[TrajectoryWithRew]
    ranks: npt.NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Task:
    """The task of a learner.

    Attributes:
        environment: Specification of the environment.
        observation_space: Observation space of the environment.
        action_space: Action space of the environment.
        hyperparameters: Values of all hyper-parameters on the card.
        seed: Seed for code that does not accept a NumPy generator.
        expert: The expert, for methods whose card requires one.
        supplement: Trajectories of mixed quality, for methods whose card has `needs.supplement`.
        reward: Learned reward that a reference learner optimizes in place of the environment's.
        folder: Folder of the method's card, if it is outside this package.
        check_stop: Must be called every second or so by a learner that waits, for example for
            people; raises if the run must end.
    """

    environment: EnvironmentSpec
    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]
    hyperparameters: Mapping[str, Scalar]
    seed: int
    expert: BasePolicy | None = None
    supplement: Supplement | None = None
    reward: RewardFn | None = None
    folder: Path | None = None
    check_stop: Callable[[], object] = never_stop


class Learner(ABC):
    """A method with the interface that the harness calls.

    Methods are called in the order `setup`, `load_state_dict` if an earlier attempt left a
    checkpoint, `train`, `policy`; and `state_dict` each time `train` offers a checkpoint.

    Attributes:
        waits: Whether training may wait for people between two checkpoints. Then every checkpoint
            that `train` offers is written, so that a run that is stopped meanwhile loses nothing.
    """

    waits: bool = False

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
            task: Environment and hyper-parameters.
            demos: Whole expert episodes, or single steps of them; empty for methods that need none.
                They include rewards for diagnosis, which the method must not learn from. Where a
                regime hides actions, `acts` has shape `(steps, 0)`.
            rng: The only source of randomness that may be used, in addition to torch's global
                generator, which is seeded.
            device: `cpu` or `cuda`.
        """

    @abstractmethod
    def train(
        self, budget: Budget, callback: Callback, checkpoint: Checkpoint = no_checkpoint
    ) -> int:
        """Trains until the budget is spent, including what a restored state has spent.

        Args:
            budget: Amount of training, in the unit that the card names.
            callback: Records points of the learning curve.
            checkpoint: Must be called regularly, when `state_dict` is complete; cheap unless a
                checkpoint is due.

        Returns:
            Environment steps consumed; 0 for methods that learn offline.
        """

    @abstractmethod
    def policy(self) -> BasePolicy:
        """Returns the learned policy."""

    def reward(self) -> RewardNet | None:
        """Returns the learned reward, for methods that learn one."""
        return None

    def measures(self) -> dict[str, float]:
        """Returns other measures of the result by name; called after training."""
        return {}

    def transfer_policy(self) -> BasePolicy | None:
        """Returns a policy trained from scratch on the learned reward, which stays fixed.

        Its score distinguishes a reward that explains the expert from one that only served this
        training. `None` for methods without a reward, and if transfer was not requested.
        """
        return None

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Returns everything that further training depends on.

        Networks, optimizers, normalizers, buffers, generators, environments, and the spent part
        of the budget; the harness saves only the global generators.

        Returns:
            Tensors, numeric arrays, numbers, strings and `None`, in nested dictionaries,
            lists and tuples.
        """

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` of a learner with the same setup returned.

        Further training must give the same numbers, bit for bit on the CPU, as training without
        an interruption.
        """


class PackedLearner(Learner):
    """A method that can train several seeds together as one batched network.

    The harness calls `setup_pack` instead of `setup`, and `policies` instead of `policy`. `train`
    passes the metrics of the first seed to its callback.

    Attributes:
        curves: Learning curves of the other seeds, in order; part of `state_dict`.
    """

    curves: Sequence[list[Mapping[str, float]]]

    @abstractmethod
    def setup_pack(
        self,
        tasks: Sequence[Task],
        demos: Sequence[Sequence[TrajectoryWithRew]],
        rngs: Sequence[np.random.Generator],
        device: str,
    ) -> None:
        """Builds everything that training needs.

        Args:
            tasks: Task of each seed; only `seed`, `expert` and `supplement` differ.
            demos: Demonstrations of each seed.
            rngs: Source of randomness of each seed. With the same generator a seed gets the same
                numbers, up to rounding, in any pack.
            device: `cpu` or `cuda`.
        """

    def setup(
        self,
        task: Task,
        demos: Sequence[TrajectoryWithRew],
        rng: np.random.Generator,
        device: str,
    ) -> None:
        """Builds everything that the training of a single seed needs."""
        self.setup_pack([task], [demos], [rng], device)

    @abstractmethod
    def policies(self) -> Sequence[BasePolicy]:
        """Returns the learned policy of each seed."""

    def of_seeds(self) -> Sequence[Learner]:
        """Returns a learner for each seed, with its learned reward and its measures.

        A method without them, the default, returns itself for each.
        """
        return [self] * (1 + len(self.curves))

    def transfer_policies(self) -> Sequence[BasePolicy | None]:
        """Returns what `transfer_policy` does, for each seed of a pack; by default `None`."""
        return [None] * (1 + len(self.curves))

    def policy(self) -> BasePolicy:
        """Returns the learned policy of the first seed."""
        return self.policies()[0]


class LearnerWrapper(Learner):
    """Forwards all calls to another learner.

    Attributes:
        learner: Learner that receives the calls.
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
        """Returns the learner's policy."""
        return self.learner.policy()

    def reward(self) -> RewardNet | None:
        """Returns the learner's reward."""
        return self.learner.reward()

    def measures(self) -> dict[str, float]:
        """Returns the learner's measures."""
        return self.learner.measures()

    def transfer_policy(self) -> BasePolicy | None:
        """Returns the learner's policy trained on its reward."""
        return self.learner.transfer_policy()

    def state_dict(self) -> dict[str, Any]:
        """Returns the learner's state."""
        return self.learner.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the learner's state."""
        self.learner.load_state_dict(state)
