"""The learners for offline methods, which learn from a supplement of mixed quality, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium as gym
import numpy as np

from imitbench.algorithms.offline.demodice import DemoDICE
from imitbench.algorithms.offline.dual import DualOptions
from imitbench.algorithms.offline.dwbc import DWBC
from imitbench.algorithms.offline.iswbc import ISWBC
from imitbench.algorithms.offline.smodice import SMODICE
from imitbench.algorithms.offline.weighted_cloning import (
    CloningOptions,
    DiscriminatorOptions,
    WeightedCloning,
)
from imitbench.bench.curve import silent_logger
from imitbench.bench.learner import Callback, Checkpoint, Task, no_checkpoint
from imitbench.bench.learners.batch_learner import BatchLearner
from imitbench.bench.learners.bc import BCLearner, make_clone_policy
from imitbench.records.runs import Budget, EnvironmentSpec

if TYPE_CHECKING:
    from imitbench.data.types import TrajectoryWithRew


def supplement_of(task: Task) -> Sequence[TrajectoryWithRew]:
    """Returns the trajectories of mixed quality of a task whose card asks for them."""
    assert task.supplement is not None, "the card needs it, so the plan refused other regimes"
    return task.supplement.trajectories


class BCOnAllLearner(BCLearner):
    """Behavioral cloning of the expert and the supplement together, whoever acted."""

    def setup(
        self,
        task: Task,
        demos: Sequence[TrajectoryWithRew],
        rng: np.random.Generator,
        device: str,
    ) -> None:
        """Builds the policy and `BC` with both sets."""
        super().setup(task, [*demos, *supplement_of(task)], rng, device)


class WeightedCloningLearner(BatchLearner):
    """Trains one method that clones transitions with weights; the budget is in batches.

    Attributes:
        method: The method.
        arguments: Its arguments that are hyper-parameters with the same name.
        options: Every hyper-parameter by name.
        trainer: The method's instance.
    """

    method: ClassVar[type[WeightedCloning]]
    arguments: ClassVar[tuple[str, ...]]
    options: Mapping[str, Any]
    trainer: WeightedCloning

    @property
    def disc_hidden_sizes(self) -> tuple[int, ...]:
        """Units of each hidden layer of the discriminator."""
        size, layers = (int(self.options[f"disc_hidden_{part}"]) for part in ("size", "layers"))
        return (size,) * layers

    def make_trainer(self, **shared: Any) -> WeightedCloning:
        """Creates the method.

        Args:
            **shared: Arguments that do not stand on a card.
        """
        return self.method(**{name: self.options[name] for name in self.arguments}, **shared)

    def setup(
        self,
        task: Task,
        demos: Sequence[TrajectoryWithRew],
        rng: np.random.Generator,
        device: str,
    ) -> None:
        """Builds the policy and the method."""
        self.options = dict(task.hyperparameters)
        self.trainer = self.make_trainer(
            policy=make_clone_policy(task),
            demonstrations=demos,
            supplement=supplement_of(task),
            options=CloningOptions(
                batch_size=self.options["batch_size"],
                learning_rate=self.options["learning_rate"],
                ent_weight=self.options["ent_weight"],
                time_limit=_time_limit(task.environment),
                hidden_entries=tuple(task.environment.hidden_positions or ()),
            ),
            seed=int(rng.integers(2**32)),
            device=device,
            custom_logger=silent_logger(),
        )


def _time_limit(environment: EnvironmentSpec) -> int | None:
    """Returns the steps after which episodes are cut off, if there is a limit."""
    limit: Any = environment.kwargs.get(
        "max_episode_steps", gym.spec(environment.gym_id).max_episode_steps
    )
    return None if limit is None else int(limit)


class DWBCLearner(WeightedCloningLearner):
    """DWBC."""

    method = DWBC
    arguments = ("alpha", "eta", "disc_interval", "disc_learning_rate")

    def make_trainer(self, **shared: Any) -> WeightedCloning:
        """Creates the method."""
        return super().make_trainer(disc_hidden_sizes=self.disc_hidden_sizes, **shared)


class DiscriminatorLearner(WeightedCloningLearner):
    """A method with a discriminator of expert and union."""

    def make_trainer(self, **shared: Any) -> WeightedCloning:
        """Creates the method."""
        options = DiscriminatorOptions(
            hidden_sizes=self.disc_hidden_sizes,
            learning_rate=self.options["disc_learning_rate"],
            gradient_penalty=self.options["gradient_penalty"],
        )
        return super().make_trainer(discriminator=options, **shared)


class ISWBCLearner(DiscriminatorLearner):
    """ISW-BC."""

    method = ISWBC
    arguments = ("threshold",)


class DualLearner(DiscriminatorLearner):
    """A method whose weights come from a dual problem."""

    def make_trainer(self, **shared: Any) -> WeightedCloning:
        """Creates the method."""
        options = DualOptions(
            gamma=self.options["gamma"],
            hidden_sizes=(self.options["nu_hidden_size"],) * self.options["nu_hidden_layers"],
            learning_rate=self.options["nu_learning_rate"],
            gradient_penalty=self.options["nu_gradient_penalty"],
        )
        return super().make_trainer(dual=options, **shared)


class DemoDICELearner(DualLearner):
    """DemoDICE."""

    method = DemoDICE
    arguments = ("alpha",)


class SMODICELearner(DualLearner):
    """SMODICE."""

    method = SMODICE
    arguments = ("divergence", "reward_scale", "disc_batches", "clone_expert")
    trainer: SMODICE

    def train(
        self, budget: Budget, callback: Callback, checkpoint: Checkpoint = no_checkpoint
    ) -> int:
        """Trains; the discriminator alone gets no more than half of a small budget."""
        self.trainer.disc_batches = min(self.options["disc_batches"], budget.amount // 2)
        return super().train(budget, callback, checkpoint)

    def make_trainer(self, **shared: Any) -> WeightedCloning:
        """Creates the method."""
        return super().make_trainer(use_actions=self.options["disc_use_action"], **shared)
