"""Losses of a preference model on given preferences."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy.typing as npt
import torch as th
from torch import nn

from imitbench.algorithms.preference_comparisons.fragment_batch import stack_fragments
from imitbench.algorithms.preference_comparisons.preference_model import (
    PreferenceModel,
    accuracies,
)
from imitbench.data.types import TrajectoryPair


class LossAndMetrics(NamedTuple):
    """A loss, and metrics for the log.

    Attributes:
        loss: Scalar with gradient.
        metrics: Scalars without gradient, by name.
    """

    loss: th.Tensor
    metrics: Mapping[str, th.Tensor]


class RewardLoss(nn.Module, ABC):
    """Base of losses of a preference model on pairs of fragments."""

    @abstractmethod
    def forward(
        self,
        fragment_pairs: Sequence[TrajectoryPair],
        preferences: npt.NDArray[Any],
        preference_model: PreferenceModel,
    ) -> LossAndMetrics:
        """Computes the loss, a mean over the pairs.

        Args:
            fragment_pairs: `n` pairs of fragments.
            preferences: Probabilities that the first fragment of each pair is preferred, shape
                `(n,)`; mostly 0, 1, or 0.5 for a tie.
            preference_model: Gives the probabilities.
        """


class CrossEntropyRewardLoss(RewardLoss):
    """The mean cross-entropy between preferences and the probabilities of the model, in nats.

    Source: Christiano et al. 2017, "Deep Reinforcement Learning from Human Preferences", §2.2.3.
    Computed by `PreferenceModel.cross_entropies`, which is accurate where a probability rounds to 0
    or 1.

    For an ensemble it is the *sum* of the members' means, so that each member gets the same
    gradient as if trained alone. The cross-entropy of the averaged probability would couple the
    members, and a mean over members would divide their gradients by their number.
    """

    def forward(
        self,
        fragment_pairs: Sequence[TrajectoryPair],
        preferences: npt.NDArray[Any],
        preference_model: PreferenceModel,
    ) -> LossAndMetrics:
        """Computes the loss.

        Args:
            fragment_pairs: `n` pairs of fragments.
            preferences: Probabilities that the first fragment of each pair is preferred, shape
                `(n,)`; mostly 0, 1, or 0.5 for a tie.
            preference_model: Gives the probabilities.

        Returns:
            The loss, with two metrics: `accuracy`, the mean of `accuracies`, also over the members
            of an ensemble; and `gt_reward_loss`, the cross-entropy by the environment's own
            rewards, if all fragments have rewards.

        Raises:
            ValueError: There is not one preference per pair, or as `PreferenceModel.returns`.
        """
        batch = stack_fragments(fragment_pairs)
        if preferences.shape != (batch.n_pairs,):
            raise ValueError(
                f"preferences have shape {preferences.shape}; {batch.n_pairs} pairs need "
                f"({batch.n_pairs},)"
            )
        predicted, true = preference_model.return_differences(batch)
        target = th.as_tensor(preferences, dtype=predicted.dtype, device=predicted.device)
        losses = preference_model.cross_entropies(predicted, target)
        with th.no_grad():
            metrics = {"accuracy": accuracies(predicted, target).mean().cpu()}
            if true is not None:
                true_losses = preference_model.cross_entropies(true, target)
                metrics["gt_reward_loss"] = true_losses.mean().float().cpu()
        loss = losses.mean() if losses.ndim == 1 else losses.mean(dim=0).sum()
        return LossAndMetrics(loss=loss, metrics=metrics)
