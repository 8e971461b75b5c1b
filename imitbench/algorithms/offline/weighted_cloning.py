"""Behavioral cloning with a weight for each transition, which a method learns meanwhile."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch as th
from stable_baselines3.common.policies import ActorCriticPolicy

from imitbench.algorithms.base import BaseImitationAlgorithm, check_batch_size
from imitbench.algorithms.bc_loss import log_prob_and_entropy
from imitbench.algorithms.off_policy.discriminator import Discriminator
from imitbench.algorithms.off_policy.randomness import SeedStreams
from imitbench.algorithms.off_policy.transitions import Batch, PairInputs
from imitbench.algorithms.offline.data import OfflineData
from imitbench.data.trajectories import Trajectory
from imitbench.util.adam import load_optimizer_state, with_fused
from imitbench.util.gradients import backward_from
from imitbench.util.library_patches import leave_compiler_unloaded
from imitbench.util.logger import HierarchicalLogger
from imitbench.util.torch_startup import one_thread

# Least ratio of densities: further below, its logarithm says nothing but that the expert is not
# there. The public code of ISW-BC and DemoDICE has the same bound.
_LEAST_LOG_RATIO = float(np.log(1e-3))
_LOG_INTERVAL = 10


@dataclass(frozen=True)
class CloningOptions:
    """Settings that all offline methods for mixed quality share.

    Attributes:
        batch_size: Transitions of each batch, and as many of the expert for a discriminator.
        learning_rate: Learning rate of the policy.
        ent_weight: Weight of the policy's entropy bonus.
        time_limit: See `OfflineData`.
        hidden_entries: See `OfflineData`.

    Raises:
        ValueError: A value is out of range.
    """

    batch_size: int = 256
    learning_rate: float = 1e-3
    ent_weight: float = 1e-3
    time_limit: int | None = None
    hidden_entries: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_batch_size(self.batch_size)


@dataclass(frozen=True)
class DiscriminatorOptions:
    """Settings of a discriminator of expert and union.

    Attributes:
        hidden_sizes: Units of each hidden layer.
        learning_rate: Learning rate of Adam.
        gradient_penalty: Weight of the penalty on its gradient (Gulrajani et al. 2017, "Improved
            Training of Wasserstein GANs").
    """

    hidden_sizes: tuple[int, ...] = (64, 64)
    learning_rate: float = 3e-4
    gradient_penalty: float = 1.0


class WeightedCloning(BaseImitationAlgorithm):
    """Base of methods that clone transitions of expert and supplement with weights.

    Each batch maximizes the mean of w log pi(a|s) over transitions; `weigh` gives the weights w.

    Args:
        policy: Policy to train, with the observations and actions of the data as they are.
        demonstrations: Trajectories of the expert, whole or thinned.
        supplement: Trajectories of mixed quality, whole or thinned.
        options: Settings.
        clone_expert: Whether the expert's transitions may be cloned, too.
        seed: Seed of everything that is drawn.
        device: Where to compute.
        custom_logger: Where to log; a new logger when `None`.

    Attributes:
        policy: As given.
        options: As given.
        data: Transitions of both sets.
        streams: Randomness.
        n_batches: Batches so far.

    Raises:
        ValueError: See `OfflineData`.
    """

    def __init__(
        self,
        *,
        policy: ActorCriticPolicy,
        demonstrations: Sequence[Trajectory],
        supplement: Sequence[Trajectory],
        options: CloningOptions | None = None,
        clone_expert: bool = True,
        seed: int = 0,
        device: str | th.device = "cpu",
        custom_logger: HierarchicalLogger | None = None,
    ) -> None:
        super().__init__(custom_logger=custom_logger, allow_variable_horizon=True)
        leave_compiler_unloaded()
        self.policy = policy.to(device)
        self.options = options or CloningOptions()
        self.streams = SeedStreams([seed], device)
        self.data = OfflineData(
            demonstrations,
            supplement,
            policy.observation_space,
            policy.action_space,
            time_limit=self.options.time_limit,
            hidden_entries=self.options.hidden_entries,
            clone_expert=clone_expert,
            device=device,
        )
        self._parameters = list(self.policy.parameters())
        self._optimizer = th.optim.Adam(
            self._parameters, **with_fused(th.optim.Adam, {"lr": self.options.learning_rate})
        )
        self.n_batches = 0

    # What a method defines.

    @abstractmethod
    def weigh(
        self, batch: Batch, log_probs: th.Tensor
    ) -> tuple[th.Tensor | None, dict[str, th.Tensor]]:
        """Takes a step of what the method learns beside the policy, and weighs a batch.

        Args:
            batch: Encoded transitions of a single seed, shape (1, batch, …).
            log_probs: The policy's log-probabilities of their actions, shape (batch,).

        Returns:
            The weight of each transition, shape (batch,), or `None` if the policy learns nothing
            from this batch; and scalars to log.
        """

    def draw(self) -> npt.NDArray[np.int64]:
        """Draws the batch: indices of transitions in the union, shape (batch,)."""
        indices: npt.NDArray[np.int64] = self.streams.indices(
            self.data.union.sizes, self.options.batch_size
        )[0]
        return indices

    def extra_state(self) -> dict[str, Any]:
        """State of what the method learns beside the policy."""
        return {}

    def load_extra_state(self, state: Mapping[str, Any]) -> None:
        """Restores what `extra_state` returned."""
        del state

    # What methods share.

    def make_discriminator(
        self, options: DiscriminatorOptions, *, use_actions: bool = True
    ) -> Discriminator:
        """Makes a discriminator of the expert's transitions and those of the union.

        Args:
            options: Its settings.
            use_actions: Whether it sees actions.
        """
        inputs = PairInputs(
            self.data.features,
            self.policy.action_space,
            use_actions=use_actions,
            device=self.streams.device,
        )
        return Discriminator(
            inputs,
            hidden_sizes=options.hidden_sizes,
            learning_rate=options.learning_rate,
            penalty=options.gradient_penalty,
            streams=self.streams,
        )

    def draw_expert(self) -> Batch:
        """Draws as many transitions of the expert as a batch has."""
        return self.data.expert.sample(self.streams, self.options.batch_size)

    def log_ratio(self, discriminator: Discriminator, batch: Batch) -> th.Tensor:
        """Logarithm of the expert's density relative to that of the union.

        The expert's transitions are part of the union, so that no ratio can be larger than the
        number of all transitions divided by that of the expert's.

        Args:
            discriminator: A discriminator of both.
            batch: Transitions of a single seed.

        Returns:
            Shape (batch,), without derivatives.
        """
        largest = float(np.log(self.data.largest_ratio))
        return discriminator.logits(batch)[0].clamp(_LEAST_LOG_RATIO, largest)

    # Training.

    def train(self, n_batches: int) -> dict[str, float]:
        """Continues training.

        Args:
            n_batches: Number of batches.

        Returns:
            Means over one batch in ten of them, from the first on: `loss`, that of the policy;
            `log_prob`, the mean log-probability of a transition; `effective_share`, how many
            transitions with equal weights would vary as little, as a share of the batch (Kish
            1965, "Survey Sampling"); and what the method logs.
        """
        sums: dict[str, th.Tensor] = {}
        counts: Counter[str] = Counter()
        self.policy.set_training_mode(True)
        with one_thread():
            for number in range(n_batches):
                logged = self._step()
                if number % _LOG_INTERVAL:
                    continue
                counts.update(logged.keys())
                for name, value in logged.items():
                    sums[name] = sums[name] + value if name in sums else value
        self.policy.set_training_mode(False)
        return {name: float(value) / counts[name] for name, value in sums.items()}

    def _step(self) -> dict[str, th.Tensor]:
        """Takes a batch, and returns what to log of it."""
        drawn = self.draw()
        # What is inside the absorbing state has neither observation nor action.
        real = drawn < self.data.size
        index, rows, chosen = (
            th.from_numpy(array).to(self.data.obs.device) for array in (drawn, drawn[real], real)
        )
        log_probs = found = th.zeros(len(drawn), device=self.data.obs.device)
        if real.any():  # statistics of no observation would not be numbers
            found, entropies = log_prob_and_entropy(
                self.policy, self.data.obs[rows], self.data.acts[rows]
            )
            log_probs = found if real.all() else log_probs.masked_scatter(chosen, found)
        batch = self.data.union.take(index.unsqueeze(0))
        weights, logged = self.weigh(batch, log_probs.detach())
        self.n_batches += 1
        if weights is None or not real.any():
            return logged
        weights = weights * chosen
        loss = -(weights * log_probs).mean()
        logged |= _summary(weights, found.detach(), loss.detach())
        if self.options.ent_weight and entropies is not None:
            loss = loss - self.options.ent_weight * entropies.mean()
        backward_from(loss, th.ones_like(loss))
        self._optimizer.step()
        for parameter in self._parameters:  # as zero_grad(), without its overhead
            parameter.grad = None
        return logged

    def state_dict(self) -> dict[str, Any]:
        """Everything that further training depends on, without the data."""
        return {
            "policy": copy.deepcopy(self.policy.state_dict()),
            "optimizer": copy.deepcopy(self._optimizer.state_dict()),
            "streams": self.streams.state_dict(),
            "batches": self.n_batches,
            "method": self.extra_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned, of an instance with the same data."""
        self.policy.load_state_dict(state["policy"])
        load_optimizer_state(self._optimizer, state["optimizer"])
        self.streams.load_state_dict(state["streams"])
        self.n_batches = state["batches"]
        self.load_extra_state(state["method"])


def _summary(weights: th.Tensor, log_probs: th.Tensor, loss: th.Tensor) -> dict[str, th.Tensor]:
    share = weights.mean().square() / weights.square().mean().clamp_min(1e-12)
    return {"loss": loss, "log_prob": log_probs.mean(), "effective_share": share}
