"""The probability that a fragment is preferred, from rewards."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch as th
from torch import nn
from torch.nn import functional

from imitbench.algorithms.preference_comparisons.fragment_batch import (
    AnyPairs,
    FragmentBatch,
    JoinedSteps,
    discounted_sum,
    observation_bytes,
    stack_fragments,
)
from imitbench.data.types import TrajectoryPair, Transitions
from imitbench.rewards.base import RewardNet, frozen
from imitbench.rewards.reward_function import check_reward_shape
from imitbench.rewards.wrappers import AddSTDRewardWrapper, RewardEnsemble

# Largest size of observations, in bytes, in one evaluation without gradients.
_EVALUATED_AT_ONCE = 2**26


class PreferenceModel(nn.Module):
    """The probability that the first fragment of a pair is preferred, from a network's rewards.

    With `R` a fragment's (discounted) sum of rewards,
    `P(first) = noise_prob / 2 + (1 - noise_prob) * sigmoid(clip(R_first - R_second))`.

    Source: Bradley and Terry 1952, "Rank Analysis of Incomplete Block Designs: I"; Christiano et
    al. 2017, "Deep Reinforcement Learning from Human Preferences", eq. 1 and §2.2.3.

    All fragments go through the network in one pass. A layer with running statistics (such as
    `RunningNorm`) therefore updates them once per batch of pairs, not per fragment, and normalizes
    all fragments of a batch in the same way. It updates them only in training mode, which the
    caller sets.

    An ensemble gives one probability per member, with the same value and gradient as the member
    alone. Wrappers of members that change only `predict_processed` have no effect.

    Args:
        model: The reward network, an ensemble, or an ensemble in an `AddSTDRewardWrapper`.
        noise_prob: Assumed probability that a preference is random, in [0, 1].
        discount_factor: Weight of a step relative to the one before it, in [0, 1]. The default is
            undiscounted.
        threshold: Differences of returns are clipped to plus or minus this, beyond which the
            gradient is zero. With 50, no probability is below 2e-22.

    Attributes:
        member_pref_models: One model per member of an ensemble, with the same settings; empty for a
            single network.

    Raises:
        ValueError: A number is out of range, or an ensemble is in a wrapper other than
            `AddSTDRewardWrapper`.
    """

    def __init__(
        self,
        model: RewardNet,
        noise_prob: float = 0.0,
        discount_factor: float = 1.0,
        threshold: float = 50,
    ) -> None:
        super().__init__()
        for name, value in (("noise_prob", noise_prob), ("discount_factor", discount_factor)):
            if not 0 <= value <= 1:
                raise ValueError(f"{name} must lie in [0, 1], not {value}")
        if not threshold > 0:
            raise ValueError(f"threshold must be positive, not {threshold}")
        self.model = model
        self.noise_prob = noise_prob
        self.discount_factor = discount_factor
        self.threshold = threshold
        ensemble = self.ensemble_model
        around = model.base if isinstance(model, AddSTDRewardWrapper) else model
        if ensemble is not None and around is not ensemble:
            raise ValueError(
                f"model: a RewardEnsemble may be only in an AddSTDRewardWrapper, not in "
                f"{type(model).__name__}; wrap the members instead"
            )
        members = ensemble.members if ensemble is not None else ()
        self.member_pref_models = [
            PreferenceModel(cast(RewardNet, member), noise_prob, discount_factor, threshold)
            for member in members
        ]

    @property
    def ensemble_model(self) -> RewardEnsemble | None:
        """The ensemble, if there is one."""
        base = get_base_model(self.model)
        return base if isinstance(base, RewardEnsemble) else None

    def forward(self, fragment_pairs: AnyPairs) -> tuple[th.Tensor, th.Tensor | None]:
        """Computes the probabilities that the first fragments are preferred, with gradients.

        Args:
            fragment_pairs: `n` pairs of fragments.

        Returns:
            Predicted probabilities, shape `(n,)`, or `(n, members)` for an ensemble; and those by
            the environment's rewards, shape `(n,)`, or `None` if a fragment has no rewards.

        Raises:
            ValueError: As `returns` and `stack_fragments`.
        """
        predicted, true = self.return_differences(fragment_pairs)
        probabilities = self.probability_of_difference(predicted)
        if true is None:
            return probabilities, None
        return probabilities, self.probability_of_difference(true).to(probabilities.dtype)

    def return_differences(self, fragment_pairs: AnyPairs) -> tuple[th.Tensor, th.Tensor | None]:
        """Computes returns of first minus second fragments, not clipped.

        Args:
            fragment_pairs: `n` pairs of fragments.

        Returns:
            By the network, shape `(n,)` or `(n, members)`, with gradients; and by the environment's
            rewards, shape `(n,)`, float64, or `None` if a fragment has no rewards.

        Raises:
            ValueError: As `returns` and `stack_fragments`.
        """
        batch = stack_fragments(fragment_pairs)
        returns1, returns2 = self.returns(batch)
        true = batch.true_returns(self.discount_factor)
        if true is None:
            return returns1 - returns2, None
        true1, true2 = true.to(returns1.device).reshape(2, -1)
        return returns1 - returns2, true1 - true2

    def returns(self, fragment_pairs: AnyPairs) -> tuple[th.Tensor, th.Tensor]:
        """Computes both fragments' (discounted) sums of predicted rewards, with gradients.

        Args:
            fragment_pairs: `n` pairs of fragments.

        Returns:
            Those of the first and of the second fragments, each of shape `(n,)`, or
            `(n, members)` for an ensemble.

        Raises:
            ValueError: A return is not finite, the network does not give one reward per step, or as
                `stack_fragments`.
        """
        batch = stack_fragments(fragment_pairs)
        if self.member_pref_models:
            firsts, seconds = zip(
                *(model.returns(batch) for model in self.member_pref_models), strict=True
            )
            return th.stack(firsts, dim=1), th.stack(seconds, dim=1)
        returns = batch.returns(_rewards(self.model, batch.steps), self.discount_factor)
        check_finite(returns, batch)
        first, second = th.split(returns, batch.n_pairs)
        return first, second

    def predicted_returns(self, fragment_pairs: AnyPairs) -> tuple[th.Tensor, th.Tensor]:
        """Same as `returns`, but in evaluation mode, without gradients, in bounded memory."""
        with frozen(self):
            parts = [self.returns(part) for part in _bounded(fragment_pairs)]
        return th.cat([first for first, _ in parts]), th.cat([second for _, second in parts])

    def agreement(self, fragment_pairs: AnyPairs, preferences: npt.NDArray[Any]) -> float:
        """Computes how often the network agrees with preferences.

        Args:
            fragment_pairs: `n` pairs of fragments.
            preferences: Probabilities that the first is preferred, shape `(n,)`.

        Returns:
            Mean of `accuracies`, also over members.

        Raises:
            ValueError: As `returns` and `stack_fragments`.
        """
        returns1, returns2 = self.predicted_returns(fragment_pairs)
        target = th.as_tensor(preferences, device=returns1.device)
        return float(accuracies(returns1 - returns2, target).mean())

    def rewards(self, transitions: Transitions) -> th.Tensor:
        """Computes the rewards of transitions, with gradients.

        Args:
            transitions: `n` transitions.

        Returns:
            Shape `(n,)`, or `(n, members)` for an ensemble.

        Raises:
            ValueError: The network does not give one reward per transition.
        """
        if self.member_pref_models:
            return th.stack(
                [member.rewards(transitions) for member in self.member_pref_models], dim=1
            )
        return _rewards(self.model, transitions)

    def probability(self, rews1: th.Tensor, rews2: th.Tensor) -> th.Tensor:
        """Computes the probability that the first of two fragments is preferred.

        Args:
            rews1: Rewards of the first fragment, shape `(length,)`, or `(length, members)`.
            rews2: Rewards of the second fragment, same shape.

        Returns:
            A scalar, or shape `(members,)`.

        Raises:
            ValueError: Shapes differ.
        """
        return self.probability_of_difference(self.return_difference(rews1, rews2))

    def return_difference(self, rews1: th.Tensor, rews2: th.Tensor) -> th.Tensor:
        """Computes the return of the first minus the second fragment, not clipped.

        Arguments and errors as in `probability`.
        """
        if rews1.shape != rews2.shape:
            raise ValueError(
                f"rewards of two fragments have shapes {tuple(rews1.shape)} and "
                f"{tuple(rews2.shape)}; they must be the same"
            )
        return discounted_sum(rews1 - rews2, self.discount_factor, dim=0)

    def probability_of_difference(self, difference: th.Tensor) -> th.Tensor:
        """Maps differences of returns, first minus second, to probabilities of the same shape."""
        clipped = self._clip(difference)
        return self.noise_prob / 2 + (1 - self.noise_prob) * th.sigmoid(clipped)

    def cross_entropies(self, difference: th.Tensor, preferences: th.Tensor) -> th.Tensor:
        """Computes the cross-entropy of each preference from a difference of returns.

        It is `-q log P - (1 - q) log (1 - P)` with `P` of `probability_of_difference`; it and its
        gradient stay accurate where `P` rounds to 0 or 1.

        Args:
            difference: Returns of first minus second fragments, shape `(n,)` or `(n, members)`.
            preferences: Probabilities `q` that the first is preferred, shape `(n,)`.

        Returns:
            Cross-entropies in nats, same shape as `difference`.
        """
        target = preferences.to(difference.dtype)
        if difference.ndim > 1:
            target = target.unsqueeze(1).expand_as(difference)
        clipped = self._clip(difference)
        if self.noise_prob == 0:
            return functional.binary_cross_entropy_with_logits(clipped, target, reduction="none")
        constant, share = self.noise_prob / 2, 1 - self.noise_prob
        log_first = th.log(constant + share * th.sigmoid(clipped))
        log_second = th.log(constant + share * th.sigmoid(-clipped))
        return -(target * log_first + (1 - target) * log_second)

    def _clip(self, difference: th.Tensor) -> th.Tensor:
        # The same as clamp, but its derivative takes one operation instead of six.
        return functional.hardtanh(difference, -self.threshold, self.threshold)


def accuracies(differences: th.Tensor, preferences: th.Tensor) -> th.Tensor:
    """Scores predictions: 1 if the preferred fragment has the higher return, 0 if the other has.

    A tie in one of both scores ½, in both 1.

    Args:
        differences: Returns of first minus second fragments, shape `(n,)` or `(n, members)`.
        preferences: Probabilities that the first is preferred, shape `(n,)`.

    Returns:
        Scores, same shape as `differences`.
    """
    preferred = th.sign(preferences - 0.5).reshape(-1, *[1] * (differences.ndim - 1))
    return 1 - (th.sign(differences) - preferred).abs() / 2


def get_base_model(reward_model: RewardNet) -> RewardNet:
    """Returns the network inside all wrappers.

    Args:
        reward_model: A reward network, with or without wrappers.
    """
    inner = getattr(reward_model, "base", None)
    return get_base_model(inner) if isinstance(inner, RewardNet) else reward_model


def _rewards(net: RewardNet, steps: JoinedSteps | Transitions) -> th.Tensor:
    encoded = net.preprocess(
        cast(Any, steps.obs), steps.acts, cast(Any, steps.next_obs), steps.dones
    )
    rewards: th.Tensor = net(*encoded)
    check_reward_shape(tuple(rewards.shape), len(steps.dones))
    return rewards


def check_finite(returns: th.Tensor, batch: FragmentBatch) -> None:
    """Checks that predicted returns are finite.

    Args:
        returns: Those of all fragments, shape `(2 * n_pairs,)`.
        batch: Their steps, for the message.

    Raises:
        ValueError: A return is not finite; the message names the cause and a remedy.
    """
    # The sum alone is nearly always sufficient.
    if math.isfinite(returns.detach().sum().item()) or bool(returns.isfinite().all()):
        return
    bad = int((~returns.isfinite()).nonzero()[0])
    which = "second" if bad >= batch.n_pairs else "first"
    where = f"pair {bad % batch.n_pairs}: the reward network's return of its {which} fragment"
    for name, values in (("observations", batch.steps.obs), ("actions", batch.steps.acts)):
        if not np.isfinite(values).all():
            raise ValueError(
                f"{where} is not finite, because some {name} are not; leave out the trajectories "
                "with such values"
            )
    raise ValueError(
        f"{where} is {returns[bad].item()}, though observations and actions are finite: training "
        "has diverged; start again with a smaller lr, or with inputs normalized "
        "(normalize_input_layer=RunningNorm)"
    )


def _bounded(fragment_pairs: AnyPairs) -> Iterator[AnyPairs]:
    """The same pairs in parts of bounded memory."""
    if isinstance(fragment_pairs, FragmentBatch):
        yield fragment_pairs
        return
    if not len(fragment_pairs):
        stack_fragments(fragment_pairs)  # raises the error
    number, size = len(fragment_pairs), observation_bytes(fragment_pairs)
    at_once = max(1, number * _EVALUATED_AT_ONCE // max(1, size))
    if number <= at_once:
        yield fragment_pairs
        return
    for start in range(0, number, at_once):
        yield fragment_pairs[start : start + at_once]


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
        weights: npt.NDArray[Any] | None = None,
    ) -> LossAndMetrics:
        """Computes the loss; other arguments as for `RewardLoss`.

        Args:
            fragment_pairs: `n` pairs of fragments.
            preferences: See `RewardLoss`.
            preference_model: See `RewardLoss`.
            weights: Factor on each pair's cross-entropy, shape `(n,)`; all 1 when `None`.

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
        if weights is not None:
            factors = th.as_tensor(weights, dtype=losses.dtype, device=losses.device)
            losses = losses * factors.reshape(-1, *[1] * (losses.ndim - 1))
        with th.no_grad():
            metrics = {"accuracy": accuracies(predicted, target).mean().cpu()}
            if true is not None:
                true_losses = preference_model.cross_entropies(true, target)
                metrics["gt_reward_loss"] = true_losses.mean().float().cpu()
        loss = losses.mean() if losses.ndim == 1 else losses.mean(dim=0).sum()
        return LossAndMetrics(loss=loss, metrics=metrics)
