"""Trains the members of an ensemble, each on its own sample of comparisons."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from imitbench.algorithms.preference_comparisons.basic_reward_trainer import BasicRewardTrainer
from imitbench.algorithms.preference_comparisons.losses import RewardLoss
from imitbench.algorithms.preference_comparisons.preference_model import PreferenceModel
from imitbench.algorithms.preference_comparisons.training_data import (
    ComparisonDataset,
    TrainingData,
)
from imitbench.regularization.regularizers import RegularizerFactory
from imitbench.util.logger import HierarchicalLogger


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

    @property
    def logger(self) -> HierarchicalLogger:
        """Where training is logged."""
        return self._logger

    @logger.setter
    def logger(self, custom_logger: HierarchicalLogger) -> None:
        self._logger = custom_logger
        for trainer in self.member_trainers:
            trainer.logger = custom_logger

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
        return {"members": [each._optimization_state() for each in self.member_trainers]}

    def _load_optimization_state(self, state: Mapping[str, Any]) -> None:
        for trainer, own in zip(self.member_trainers, state["members"], strict=True):
            trainer._load_optimization_state(own)
