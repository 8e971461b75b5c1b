"""Contrastive preference learning (CPL): a policy from comparisons, without a reward.

Source: Hejna et al. 2024, "Contrastive Preference Learning: Learning from Human Feedback without
RL", arXiv:2310.13639.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch as th
from stable_baselines3.common.policies import ActorCriticPolicy
from torch.nn import functional

from imitbench.algorithms.base import BaseImitationAlgorithm, check_batch_size
from imitbench.algorithms.preference_comparisons.dataset import (
    ComparisonDataset,
    TrainingData,
)
from imitbench.algorithms.preference_comparisons.fragment_batch import FragmentBatch
from imitbench.policies.action_heads import DeterministicPolicy
from imitbench.util.adam import load_optimizer_state
from imitbench.util.logger import HierarchicalLogger

Policy = ActorCriticPolicy | DeterministicPolicy


@dataclass(frozen=True)
class CPLOptions:
    """Settings of CPL.

    Attributes:
        alpha: Advantage per unit of log-probability.
        bias: Weight of the other fragment, lambda, in (0, 1]; below 1, likely fragments are
            preferred (equation 6).
        discount_factor: Weight of each step relative to the one before, in [0, 1].
        bc_batches: Batches of behavioral cloning of all fragments before the first comparison.
        bc_weight: Weight of behavioral cloning afterwards.
        batch_size: Comparisons in a batch.
        learning_rate: Learning rate of Adam.

    Raises:
        ValueError: A value is out of range.
    """

    alpha: float = 0.1
    bias: float = 0.5
    discount_factor: float = 1.0
    bc_batches: int = 1000
    bc_weight: float = 0.0
    batch_size: int = 32
    learning_rate: float = 1e-3

    def __post_init__(self) -> None:
        check_batch_size(self.batch_size)
        if not self.alpha > 0:
            raise ValueError(f"alpha must be positive, not {self.alpha}")
        if not 0 < self.bias <= 1:
            raise ValueError(f"bias must lie in (0, 1], not {self.bias}")
        if not 0 <= self.discount_factor <= 1:
            raise ValueError(f"discount_factor must lie in [0, 1], not {self.discount_factor}")
        for name in ("bc_batches", "bc_weight"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be at least 0, not {getattr(self, name)}")


def contrastive_loss(
    first: th.Tensor,
    second: th.Tensor,
    preferences: th.Tensor,
    bias: float = 1.0,
    weights: th.Tensor | None = None,
) -> th.Tensor:
    """CPL's loss of each comparison, in nats.

    With A the sums of advantages and q the preference it is

        q softplus(bias A_2 - A_1) + (1 - q) softplus(bias A_1 - A_2),

    minus the logarithm of the probability that Bradley and Terry's model gives the answer, with
    the advantages of the other fragment multiplied by `bias` (equations 5 and 6).

    Args:
        first: Sums of advantages of the first fragments, shape `(n,)`.
        second: Those of the second fragments, shape `(n,)`.
        preferences: Probabilities q that the first is preferred, shape `(n,)`.
        bias: Weight of the other fragment.
        weights: Factor on each comparison, shape `(n,)`; all 1 when `None`.

    Returns:
        Shape `(n,)`.
    """
    for_first = functional.softplus(bias * second - first)
    for_second = functional.softplus(bias * first - second)
    losses = preferences * for_first + (1 - preferences) * for_second
    return losses if weights is None else weights * losses


def log_probabilities(policy: Policy, obs: th.Tensor, acts: th.Tensor) -> th.Tensor:
    """Log-probabilities of actions, up to a constant.

    Args:
        policy: A policy with discrete actions; or one with a single continuous action for each
            observation, which stands for the mean of a Gaussian with covariance ½ in scaled
            actions, so that this is minus the squared distance.
        obs: Shape (steps, *observation_shape).
        acts: Shape (steps, *action_shape).

    Returns:
        Shape (steps,), with derivatives by the parameters.
    """
    if isinstance(policy, DeterministicPolicy):
        error = policy.network(policy.features(obs)) - policy.scaled(acts)
        squared: th.Tensor = error.square().sum(dim=1)
        return -squared
    return policy.get_distribution(obs).log_prob(acts)


class CPL(BaseImitationAlgorithm):
    """Trains a policy on comparisons of fragments.

    The optimal policy with entropy bonus alpha has the advantages alpha log pi(a|s). If people
    prefer the fragment with less regret, not with more reward, the policy itself gives the
    probability of their answers, and maximizing it finds the policy; no reward, values or steps
    in the environment are needed.

    Args:
        policy: An `ActorCriticPolicy` with discrete actions, or a `DeterministicPolicy`.
        dataset: The comparisons, such as a `PreferenceDataset`, with soft preferences and weights.
        rng: Draws the batches.
        options: Settings.
        device: Device of the policy.
        custom_logger: Where to log; a new logger when `None`.

    Attributes:
        policy: As given.
        options: As given.
        n_batches: Batches so far, those of behavioral cloning included.

    Raises:
        ValueError: The dataset is empty, or a preference is out of range.
    """

    def __init__(
        self,
        *,
        policy: Policy,
        dataset: ComparisonDataset,
        rng: np.random.Generator,
        options: CPLOptions | None = None,
        device: str | th.device = "cpu",
        custom_logger: HierarchicalLogger | None = None,
    ) -> None:
        super().__init__(custom_logger=custom_logger, allow_variable_horizon=True)
        self.policy = policy.to(device)
        self.options = options or CPLOptions()
        self._rng = rng
        self._data = TrainingData.of(dataset)
        self._optimizer = self._make_optimizer()
        self.n_batches = 0

    def train(self, n_batches: int) -> dict[str, float]:
        """Continues training.

        Args:
            n_batches: Number of batches.

        Returns:
            Means over those batches of `bc_loss`, the mean negative log-probability of a step;
            and, over those after behavioral cloning, of `cpl_loss` and `accuracy`, the share of
            comparisons that the advantages order as the answers do, ties counting half.
        """
        sums: dict[str, float] = {}
        counts: dict[str, int] = {}
        self.policy.set_training_mode(True)
        for _ in range(n_batches):
            for name, value in self._step().items():
                sums[name] = sums.get(name, 0.0) + value
                counts[name] = counts.get(name, 0) + 1
        self.policy.set_training_mode(False)
        return {name: value / counts[name] for name, value in sums.items()}

    def _step(self) -> dict[str, float]:
        options, data = self.options, self._data
        if self.n_batches == options.bc_batches:
            self._optimizer = self._make_optimizer()
        chosen = self._rng.integers(len(data), size=options.batch_size)
        batch = data.pairs.take(chosen).batch
        log_probs = self._log_probabilities(batch)
        bc_loss = -log_probs.mean()
        logged = {"bc_loss": bc_loss.item()}
        loss = bc_loss
        if self.n_batches >= options.bc_batches:
            contrastive, accuracy = self._contrast(batch, log_probs, chosen)
            loss = contrastive + options.bc_weight * bc_loss
            logged |= {"cpl_loss": contrastive.item(), "accuracy": accuracy}
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        self.n_batches += 1
        return logged

    def _contrast(
        self, batch: FragmentBatch, log_probs: th.Tensor, chosen: npt.NDArray[Any]
    ) -> tuple[th.Tensor, float]:
        """The mean loss of a batch of comparisons, and the accuracy."""
        options, device = self.options, log_probs.device
        sums = batch.returns(options.alpha * log_probs, options.discount_factor)
        first, second = sums[: batch.n_pairs], sums[batch.n_pairs :]
        preferences = th.from_numpy(self._data.preferences[chosen]).to(device)
        factors = self._data.weights_of(chosen)
        weights = None if factors is None else th.from_numpy(factors).to(device)
        losses = contrastive_loss(first, second, preferences, options.bias, weights)
        order = th.sign(first.detach() - second.detach()) - th.sign(preferences - 0.5)
        return losses.mean(), float((1 - order.abs() / 2).mean())

    def _log_probabilities(self, batch: FragmentBatch) -> th.Tensor:
        device, steps = next(self.policy.parameters()).device, batch.steps
        obs, acts = (th.as_tensor(array, device=device) for array in (steps.obs, steps.acts))
        return log_probabilities(self.policy, obs, acts)

    def _make_optimizer(self) -> th.optim.Adam:
        return th.optim.Adam(self.policy.parameters(), lr=self.options.learning_rate)

    def state_dict(self) -> dict[str, Any]:
        """Everything that further training depends on, without the comparisons."""
        return {
            "policy": copy.deepcopy(self.policy.state_dict()),
            "optimizer": copy.deepcopy(self._optimizer.state_dict()),
            "rng": self._rng.bit_generator.state,
            "batches": self.n_batches,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned, of an instance with the same comparisons."""
        self.policy.load_state_dict(state["policy"])
        load_optimizer_state(self._optimizer, state["optimizer"])
        self._rng.bit_generator.state = state["rng"]
        self.n_batches = state["batches"]
