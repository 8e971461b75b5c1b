"""The learner for behavioral cloning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from stable_baselines3.common.policies import ActorCriticPolicy

from imitbench.algorithms.bc import BC
from imitbench.algorithms.bc_loss import BehaviorCloningLossCalculator
from imitbench.bench.curve import CurveWriter, curve_logger
from imitbench.bench.learner import Callback, Checkpoint, Learner, Task, no_checkpoint
from imitbench.bench.learners.batch_learner import CURVE_POINTS
from imitbench.data.rollout import flatten_trajectories
from imitbench.policies.base import NormalizeFeaturesExtractor
from imitbench.records.runs import Budget
from imitbench.util.networks import RunningNorm

if TYPE_CHECKING:
    from stable_baselines3.common.policies import BasePolicy

    from imitbench.data.types import TrajectoryWithRew


def make_clone_policy(task: Task) -> ActorCriticPolicy:
    """Builds an untrained policy.

    Args:
        task: Uses the hyper-parameters `hidden_size`, `hidden_layers`, `normalize_observations` and
            `learning_rate`.
    """
    options: dict[str, Any] = dict(task.hyperparameters)
    return ActorCriticPolicy(
        task.observation_space,
        task.action_space,
        lr_schedule=lambda _: options["learning_rate"],
        **network_arguments(options),
    )


def network_arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what all cloned policies are built with, whatever their output.

    Args:
        options: Uses the hyper-parameters `hidden_size`, `hidden_layers` and
            `normalize_observations`.
    """
    arguments: dict[str, Any] = {"net_arch": [options["hidden_size"]] * options["hidden_layers"]}
    if options["normalize_observations"]:
        arguments["features_extractor_class"] = NormalizeFeaturesExtractor
        arguments["features_extractor_kwargs"] = {"normalize_class": RunningNorm}
    return arguments


class BCLearner(Learner):
    """Maximizes the likelihood of the expert's actions with batches of transitions.

    Attributes:
        loss_class: What `BC` minimizes.
    """

    loss_class: ClassVar[type[BehaviorCloningLossCalculator]] = BehaviorCloningLossCalculator

    def setup(
        self,
        task: Task,
        demos: Sequence[TrajectoryWithRew],
        rng: np.random.Generator,
        device: str,
    ) -> None:
        """Builds the policy and `BC` with the demonstrations."""
        options: dict[str, Any] = dict(task.hyperparameters)
        self._batches = 0
        # Excludes counters, which restart with each call of `BC.train`.
        self._curve = CurveWriter(
            step_key="bc/batch", leave_out=("batch_size", "bc/epoch", "bc/samples_so_far")
        )
        transitions = flatten_trajectories(demos)
        self._bc = self.make_trainer(
            task,
            rng=rng,
            demonstrations=transitions,
            # A few demonstrations make smaller batches, not an error.
            batch_size=min(options["batch_size"], len(transitions)),
            optimizer_kwargs={"lr": options["learning_rate"]},
            l2_weight=options["l2_weight"],
            device=device,
            custom_logger=curve_logger(self._curve),
        )

    def make_trainer(self, task: Task, **shared: Any) -> BC:
        """Creates the trainer with its policy.

        Args:
            task: Spaces and hyper-parameters.
            **shared: Arguments of `BC` and of its subclasses.
        """
        options: dict[str, Any] = dict(task.hyperparameters)
        trainer = BC(
            observation_space=task.observation_space,
            action_space=task.action_space,
            policy=make_clone_policy(task),
            ent_weight=options["ent_weight"],
            **shared,
        )
        usual = trainer.loss_calculator
        trainer.loss_calculator = self.loss_class(usual.ent_weight, usual.l2_weight)
        return trainer

    def train(
        self, budget: Budget, callback: Callback, checkpoint: Checkpoint = no_checkpoint
    ) -> int:
        """Trains for `budget.amount` batches."""
        self._curve.callback = callback
        stretch = max(1, budget.amount // CURVE_POINTS)
        while self._batches < budget.amount:
            batches = min(stretch, budget.amount - self._batches)
            self._curve.offset = self._batches
            self._bc.train(n_batches=batches, log_interval=batches, progress_bar=False)
            self._batches += batches
            checkpoint()
        return 0

    def policy(self) -> BasePolicy:
        """Returns the cloned policy."""
        return self._bc.policy

    def state_dict(self) -> dict[str, Any]:
        """State of `BC`, and the number of batches so far."""
        return {"bc": self._bc.state_dict(), "batches": self._batches}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        self._bc.load_state_dict(state["bc"])
        self._batches = state["batches"]
