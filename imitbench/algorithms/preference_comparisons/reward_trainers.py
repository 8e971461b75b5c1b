"""The trainers of reward networks, and the choice between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from imitbench.algorithms.preference_comparisons.basic_reward_trainer import (
    BasicRewardTrainer,
    RewardTrainer,
)
from imitbench.algorithms.preference_comparisons.ensemble_trainer import EnsembleTrainer
from imitbench.algorithms.preference_comparisons.losses import RewardLoss
from imitbench.algorithms.preference_comparisons.preference_model import PreferenceModel
from imitbench.algorithms.preference_comparisons.training_data import preference_collate_fn

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
