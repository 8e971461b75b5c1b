"""The trainers of reward networks, and the choice between them."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch as th
from tqdm.auto import tqdm

from imitbench.algorithms.base import HasLogger, check_batch_size
from imitbench.algorithms.preference_comparisons.closed_form_gradient import closed_form_gradient
from imitbench.algorithms.preference_comparisons.dataset import (
    Array,
    ComparisonDataset,
    TrainingData,
    in_batches,
    preference_collate_fn,
)
from imitbench.algorithms.preference_comparisons.preference_model import (
    LossAndMetrics,
    PreferenceModel,
    RewardLoss,
)
from imitbench.regularization.regularizers import Regularizer, RegularizerFactory
from imitbench.rewards.base import frozen
from imitbench.util.adam import direct_step, load_optimizer_state, with_fused
from imitbench.util.library_patches import leave_compiler_unloaded
from imitbench.util.logger import HierarchicalLogger, configure
from imitbench.util.networks import training

Metrics = dict[str, float]


class RewardTrainer(HasLogger, ABC):
    """Base of what trains a reward network on comparisons.

    `PreferenceComparisons` gathers trajectories and preferences, and trains the agent.

    Args:
        preference_model: The model whose network is trained.
        custom_logger: Where to log; a new logger when `None`.
    """

    def __init__(
        self, preference_model: PreferenceModel, custom_logger: HierarchicalLogger | None = None
    ) -> None:
        self._preference_model = preference_model
        self._logger = custom_logger or configure()

    def train(self, dataset: ComparisonDataset, epoch_multiplier: float = 1.0) -> None:
        """Trains the network, in training mode; restores the modes of its modules afterwards.

        Args:
            dataset: The comparisons, usually a `PreferenceDataset`.
            epoch_multiplier: Factor on the number of epochs.

        Raises:
            ValueError: The dataset is empty or invalid, or the multiplier leaves no epoch.
        """
        with training(self._preference_model):
            self._train(dataset, epoch_multiplier)

    @abstractmethod
    def _train(self, dataset: ComparisonDataset, epoch_multiplier: float) -> None:
        """Trains the network, see `train`."""

    def state_dict(self) -> dict[str, Any]:
        """Everything that further training depends on; subclasses add to the network."""
        return {"preference_model": copy.deepcopy(self._preference_model.state_dict())}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        self._preference_model.load_state_dict(state["preference_model"])


class BasicRewardTrainer(RewardTrainer):
    """Trains a reward network with AdamW.

    In each epoch every comparison is used once, in a new order. Logs means over an epoch under
    `reward`, as `epoch-{i}/train/{loss, accuracy, gt_reward_loss}` and, with a validation split,
    `epoch-{i}/val/…`; those of the last epoch also as `reward/final/…`.

    Args:
        preference_model: The model whose network is trained.
        loss: The loss, a mean over pairs.
        rng: Draws the order of comparisons and the validation split.
        batch_size: Pairs per optimizer step. The gradient of a smaller last batch is proportionally
            smaller.
        minibatch_size: Pairs per pass through the network; gradients are accumulated over a batch,
            to save memory. A divisor of `batch_size`, its default.
        epochs: Passes over the comparisons per training.
        lr: Learning rate of AdamW.
        custom_logger: Where to log; a new logger when `None`.
        regularizer_factory: Makes a regularizer, see `imitbench.regularization`. It acts once per
            optimizer step. If its strength depends on a validation loss, each training draws a new
            validation split; that loss is measured after each epoch, in evaluation mode.

    Attributes:
        optim: The AdamW optimizer.
        regularizer: The regularizer, or `None`.

    Raises:
        ValueError: A number is not positive, or `batch_size` is not a multiple of `minibatch_size`.
    """

    regularizer: Regularizer[Any] | None

    def __init__(
        self,
        preference_model: PreferenceModel,
        loss: RewardLoss,
        rng: np.random.Generator,
        batch_size: int = 32,
        minibatch_size: int | None = None,
        epochs: int = 1,
        lr: float = 1e-3,
        custom_logger: HierarchicalLogger | None = None,
        regularizer_factory: RegularizerFactory[Any] | None = None,
    ) -> None:
        super().__init__(preference_model, custom_logger)
        self.loss = loss
        self.batch_size = batch_size
        self.minibatch_size = batch_size if minibatch_size is None else minibatch_size
        check_batch_size(self.batch_size)
        check_batch_size(self.minibatch_size, "minibatch_size")
        if self.batch_size % self.minibatch_size:
            raise ValueError(
                f"batch_size {batch_size} is not a multiple of minibatch_size {minibatch_size}"
            )
        if epochs < 1:
            raise ValueError(f"epochs must be at least 1, not {epochs}")
        self.epochs = epochs
        self.rng = rng
        leave_compiler_unloaded()
        options = with_fused(th.optim.AdamW, {"lr": lr})
        self.optim = th.optim.AdamW(preference_model.parameters(), **options)
        self.regularizer = (
            regularizer_factory(optimizer=self.optim, logger=self.logger)
            if regularizer_factory is not None
            else None
        )

    def _pass_on_logger(self, logger: HierarchicalLogger) -> None:
        if self.regularizer is not None:
            self.regularizer.logger = logger

    @property
    def requires_regularizer_update(self) -> bool:
        """Whether the regularizer's strength depends on the loss on a validation split."""
        return self.regularizer is not None and self.regularizer.val_split is not None

    def _train(self, dataset: ComparisonDataset, epoch_multiplier: float = 1.0) -> None:
        epochs = round(self.epochs * epoch_multiplier)
        if epochs < 1:
            raise ValueError(
                f"epoch_multiplier {epoch_multiplier} leaves no epoch of {self.epochs}; it must "
                f"be at least {1 / self.epochs:g}"
            )
        data = TrainingData.of(dataset)
        held_out: TrainingData | None = None
        if self.regularizer is not None and self.regularizer.val_split is not None:
            data, held_out = data.split(self.regularizer.val_split, self.rng)
        metrics: dict[str, Metrics] = {}
        with self.logger.accumulate_means("reward"):
            for epoch in tqdm(range(epochs), desc="Training reward model", disable=None):
                with self.logger.add_key_prefix(f"epoch-{epoch}"):
                    metrics = self._run_epoch(data, held_out)
        self._record_final(epochs - 1, metrics)

    def _run_epoch(self, data: TrainingData, held_out: TrainingData | None) -> dict[str, Metrics]:
        """Runs one pass; returns metrics of training and, with `held_out`, of validation."""
        metrics = {"train": self._fit(data)}
        self._record("train", metrics["train"])
        if held_out is not None and self.regularizer is not None:
            metrics["val"] = self._validate(held_out)
            self._record("val", metrics["val"])
            self.regularizer.update_params(metrics["train"]["loss"], metrics["val"]["loss"])
        return metrics

    def _fit(self, data: TrainingData) -> Metrics:
        """The inner loop: a gradient for each minibatch, a step after each batch."""
        means = _Means()
        self.optim.zero_grad()
        closed_form = None
        if self.regularizer is None:
            closed_form = closed_form_gradient(self.loss, self._preference_model, data.pairs)
        step = self.optim.step if closed_form is None else direct_step(self.optim)
        for batch in in_batches(self.rng.permutation(len(data)), self.batch_size):
            parts = list(in_batches(batch, self.minibatch_size))
            if closed_form is not None:
                for part in parts:
                    pairs, preferences = data.pairs.take(part), data.preferences[part]
                    share = len(part) / self.batch_size
                    weights = data.weights_of(part)
                    means.add(closed_form.add(pairs, preferences, share, weights), len(part))
                step()
                closed_form.zero()
            else:
                self._differentiate(data, parts, means)
                step()
                self.optim.zero_grad()
        self.optim.zero_grad()
        return means.result()

    def _differentiate(self, data: TrainingData, parts: list[Array], means: _Means) -> None:
        """Accumulates the gradients of a batch's parts."""
        earlier = 0.0
        for part in parts:
            output = self._evaluate(data, part)
            means.add(_values(output), len(part))
            loss = output.loss * (len(part) / self.batch_size)
            if self.regularizer is None or part is not parts[-1]:
                loss.backward()  # type: ignore[no-untyped-call]
                earlier += loss.item()
            else:  # once per step, so that minibatches have no effect
                self.regularizer.regularize_and_backward(loss + earlier)

    def _validate(self, data: TrainingData) -> Metrics:
        means = _Means()
        with frozen(self._preference_model):
            for part in in_batches(np.arange(len(data)), self.minibatch_size):
                means.add(_values(self._evaluate(data, part)), len(part))
        return means.result()

    def _evaluate(self, data: TrainingData, part: Array) -> LossAndMetrics:
        weights = data.weights_of(part)
        # Losses of users need not know weights.
        given = () if weights is None else (weights,)
        output: LossAndMetrics = self.loss(
            data.pairs.take(part), data.preferences[part], self._preference_model, *given
        )
        return output

    def _record(self, split: str, metrics: Metrics) -> None:
        with self.logger.add_key_prefix(split):
            for name, value in metrics.items():
                self.logger.record(name, value)

    def _record_final(self, epoch: int, metrics: dict[str, Metrics]) -> None:
        """Logs the last epoch's metrics again, under names without its number."""
        base = f"{self.logger.get_accumulate_prefixes()}reward/"
        prefix = f"mean/{base}epoch-{epoch}/"
        # Only the logger has the regularizer's metrics.
        final = {
            key.removeprefix(prefix): value
            for key, value in self.logger.default_logger.name_to_value.items()
            if key.startswith(prefix)
        }
        for split, values in metrics.items():
            final |= {f"{split}/{name}": value for name, value in values.items()}
        for name, value in final.items():
            self.logger.record(f"{base}final/{name}", value)

    def state_dict(self) -> dict[str, Any]:
        """Everything that further training depends on, the network included."""
        return {
            **super().state_dict(),
            "rng": self.rng.bit_generator.state,
            **self._optimization_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned.

        Raises:
            ValueError: Only the state or only this trainer has a regularizer.
        """
        self._load_optimization_state(state)
        super().load_state_dict(state)
        self.rng.bit_generator.state = state["rng"]

    def _optimization_state(self) -> dict[str, Any]:
        strength = None if self.regularizer is None else self.regularizer.lambda_
        return {
            "optimizer": copy.deepcopy(self.optim.state_dict()),
            "regularization_lambda": strength,
        }

    def _load_optimization_state(self, state: Mapping[str, Any]) -> None:
        strength = state["regularization_lambda"]
        if (self.regularizer is None) != (strength is None):
            raise ValueError(
                "state was made "
                + ("with" if strength is not None else "without")
                + " a regularizer; create the trainer in the same way"
            )
        if self.regularizer is not None:
            self.regularizer.lambda_ = strength
        load_optimizer_state(self.optim, state["optimizer"])


def _values(output: LossAndMetrics) -> Metrics:
    metrics = {name: value.item() for name, value in output.metrics.items()}
    return {"loss": output.loss.item(), **metrics}


class _Means:
    """Means over all samples, from means of batches of different sizes."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = defaultdict(float)
        self._number = 0

    def add(self, values: Metrics, number: int) -> None:
        """Adds the means of a batch of `number` samples."""
        self._number += number
        for name, value in values.items():
            self._sums[name] += value * number

    def result(self) -> Metrics:
        """The means so far."""
        return {name: total / self._number for name, total in self._sums.items()}


class EnsembleTrainer(BasicRewardTrainer):
    """Trains each member of an ensemble on its own bootstrap sample (bag).

    A bag has as many comparisons as the dataset, drawn with replacement for each training, so that
    members disagree where there are few comparisons. Members have their own optimizers and
    regularizers, and log under `member-{i}`; means and standard deviations of their final metrics
    are logged as `reward/final/…` and `reward/final/…_std`.

    Source: Breiman 1996, "Bagging Predictors".

    Args:
        preference_model: A model of a `RewardEnsemble`.
        loss: See `BasicRewardTrainer`, also for the other arguments.
        rng: Draws bags and the order of comparisons.
        batch_size: Pairs per optimizer step.
        minibatch_size: Pairs per pass through a network.
        epochs: Passes over a bag per training.
        lr: Learning rate of AdamW.
        custom_logger: Where to log; a new logger when `None`.
        regularizer_factory: Makes a regularizer for each member.

    Attributes:
        member_trainers: One trainer per member.

    Raises:
        TypeError: The model is not of an ensemble.
        ValueError: As `BasicRewardTrainer`.
    """

    def __init__(
        self,
        preference_model: PreferenceModel,
        loss: RewardLoss,
        rng: np.random.Generator,
        batch_size: int = 32,
        minibatch_size: int | None = None,
        epochs: int = 1,
        lr: float = 1e-3,
        custom_logger: HierarchicalLogger | None = None,
        regularizer_factory: RegularizerFactory[Any] | None = None,
    ) -> None:
        if preference_model.ensemble_model is None:
            raise TypeError(
                "preference_model: an EnsembleTrainer needs a model of a RewardEnsemble, not of a "
                f"{type(preference_model.model).__name__}; use BasicRewardTrainer for a single "
                "network"
            )
        settings: dict[str, Any] = {
            "loss": loss,
            "rng": rng,
            "batch_size": batch_size,
            "minibatch_size": minibatch_size,
            "epochs": epochs,
            "lr": lr,
            "regularizer_factory": regularizer_factory,
        }
        self.member_trainers: list[BasicRewardTrainer] = []
        super().__init__(preference_model, custom_logger=custom_logger, **settings)
        self.member_trainers = [
            BasicRewardTrainer(member, custom_logger=self.logger, **settings)
            for member in preference_model.member_pref_models
        ]

    def _pass_on_logger(self, logger: HierarchicalLogger) -> None:
        for trainer in self.member_trainers:
            trainer.logger = logger

    def _train(self, dataset: ComparisonDataset, epoch_multiplier: float = 1.0) -> None:
        data = TrainingData.of(dataset)
        for index, trainer in enumerate(self.member_trainers):
            bag = data.take(self.rng.integers(len(data), size=len(data)))
            with self.logger.add_accumulate_prefix(f"member-{index}"):
                trainer.train(bag, epoch_multiplier=epoch_multiplier)
        self._record_spread()

    def _record_spread(self) -> None:
        outer = self.logger.get_accumulate_prefixes()
        logged = self.logger.default_logger.name_to_value
        by_name: dict[str, list[float]] = defaultdict(list)
        for index in range(len(self.member_trainers)):
            prefix = f"{outer}member-{index}/reward/final/"
            for key, value in logged.items():
                if key.startswith(prefix):
                    by_name[key.removeprefix(prefix)].append(value)
        for name, values in by_name.items():
            self.logger.record(f"{outer}reward/final/{name}", float(np.mean(values)))
            self.logger.record(f"{outer}reward/final/{name}_std", float(np.std(values)))

    def _optimization_state(self) -> dict[str, Any]:
        return {"members": [trainer._optimization_state() for trainer in self.member_trainers]}

    def _load_optimization_state(self, state: Mapping[str, Any]) -> None:
        for trainer, own in zip(self.member_trainers, state["members"], strict=True):
            trainer._load_optimization_state(own)


__all__ = [
    "BasicRewardTrainer",
    "EnsembleTrainer",
    "RewardTrainer",
    "make_reward_trainer",
    "preference_collate_fn",
]


def make_reward_trainer(
    preference_model: PreferenceModel,
    loss: RewardLoss,
    rng: np.random.Generator,
    reward_trainer_kwargs: Mapping[str, Any] | None = None,
) -> RewardTrainer:
    """Makes an `EnsembleTrainer` for an ensemble, and a `BasicRewardTrainer` for other networks.

    Args:
        preference_model: The model to train.
        loss: Mean over pairs, such as `CrossEntropyRewardLoss`.
        rng: Source of all randomness in training.
        reward_trainer_kwargs: Further arguments of the trainer.
    """
    is_ensemble = preference_model.ensemble_model is not None
    trainer_cls = EnsembleTrainer if is_ensemble else BasicRewardTrainer
    return trainer_cls(preference_model, loss, rng=rng, **(reward_trainer_kwargs or {}))
