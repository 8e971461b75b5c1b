"""The learners for policies with a memory, and for those that plan chunks of actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from imitbench.algorithms.sequence_cloning import SequenceCloning, SequenceOptions
from imitbench.bench.curve import silent_logger
from imitbench.bench.learner import Callback, Checkpoint, Task, no_checkpoint
from imitbench.bench.learners.batch_learner import CURVE_POINTS, BatchLearner
from imitbench.errors import InputError
from imitbench.policies.sequences.act import ACTPolicy
from imitbench.policies.sequences.base import SequencePolicy
from imitbench.policies.sequences.bc_rnn import RecurrentPolicy
from imitbench.policies.sequences.diffusion import DiffusionPolicy
from imitbench.policies.sequences.flow import FlowChunkPolicy

if TYPE_CHECKING:
    from imitbench.data.types import TrajectoryWithRew
    from imitbench.records.runs import Budget


class SequenceLearner(BatchLearner):
    """Trains a policy on windows of the demonstrations.

    Attributes:
        policy_class: Class of the policy. Each of its constructor's arguments that it keeps is a
            hyper-parameter with the same name.
    """

    policy_class: ClassVar[type[SequencePolicy]]
    trainer: SequenceCloning

    def setup(
        self,
        task: Task,
        demos: Sequence[TrajectoryWithRew],
        rng: np.random.Generator,
        device: str,
    ) -> None:
        """Builds the policy and its trainer."""
        options: dict[str, Any] = dict(task.hyperparameters)
        names = ("image_features", *self.policy_class.own_arguments)
        try:
            policy = self.policy_class(
                task.observation_space,
                task.action_space,
                **{name: options[name] for name in names},
            )
        except ValueError as error:  # of spaces, or of hyper-parameters together
            raise InputError(str(error)) from error
        self.trainer = SequenceCloning(
            policy=policy,
            demonstrations=demos,
            rng=rng,
            options=SequenceOptions(
                batch_size=options["batch_size"],
                learning_rate=options["learning_rate"],
                weight_decay=options["weight_decay"],
                average_power=options.get("average_power"),
            ),
            device=device,
            custom_logger=silent_logger(),
        )

    def train(
        self, budget: Budget, callback: Callback, checkpoint: Checkpoint = no_checkpoint
    ) -> int:
        """Trains for `budget.amount` batches, and may be saved between two points of the curve.

        A batch takes a tenth of a second or more, and a large budget has thousands between two.
        """
        trainer, total = self.trainer, budget.amount
        stretch = max(1, total // CURVE_POINTS)
        while trainer.n_batches < total:
            # An attempt that was saved within a stretch goes on to its end.
            due = stretch - trainer.n_batches % stretch
            logged = trainer.train(min(due, total - trainer.n_batches), checkpoint)
            callback(trainer.n_batches, logged)
            checkpoint()
        return 0


class RecurrentLearner(SequenceLearner):
    """BC-RNN."""

    policy_class = RecurrentPolicy


class ACTLearner(SequenceLearner):
    """ACT."""

    policy_class = ACTPolicy


class DiffusionLearner(SequenceLearner):
    """Diffusion policy."""

    policy_class = DiffusionPolicy


class FlowChunkLearner(SequenceLearner):
    """Flow policy."""

    policy_class = FlowChunkPolicy
