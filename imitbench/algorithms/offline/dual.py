"""Weights from a dual problem: how often the best policy would be where the data are.

Both methods here maximize a reward, which a discriminator estimates, minus a divergence of the
policy's discounted distribution d of states and actions from that of the data, dU. With nu(s), the
multiplier of the constraint that d is some policy's, the dual problem is (Nachum and Dai 2020,
"Reinforcement Learning via Fenchel-Rockafellar Duality")

    min over nu of (1 - gamma) E_start[nu(s)] + E_dU[f*(e)],  e = r + gamma nu(s') - nu(s),

and d / dU, the weight of each transition, is the derivative of f*.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch as th

from imitbench.algorithms.off_policy.agent import Adam
from imitbench.algorithms.off_policy.stacked_mlp import StackedMlp
from imitbench.algorithms.off_policy.transitions import Batch
from imitbench.algorithms.offline.weighted_cloning import DiscriminatorOptions, WeightedCloning

Divergence = Literal["kl", "chi2"]


@dataclass(frozen=True)
class DualOptions:
    """Settings of the dual problem.

    Attributes:
        gamma: Discount factor, in [0, 1).
        hidden_sizes: Units of each hidden layer of nu.
        learning_rate: Learning rate of nu.
        gradient_penalty: Weight of the mean squared gradient of nu.

    Raises:
        ValueError: A value is out of range.
    """

    gamma: float = 0.99
    hidden_sizes: tuple[int, ...] = (64, 64)
    learning_rate: float = 3e-4
    gradient_penalty: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.gamma < 1:
            raise ValueError(f"gamma must lie in [0, 1), not {self.gamma}")


class DualCloning(WeightedCloning):
    """Base of methods whose weights come from the dual problem.

    Args:
        divergence: `kl`, of Kullback and Leibler, or `chi2`, half of Pearson's.
        temperature: Weight of the divergence, relative to the reward.
        use_actions: Whether the discriminator sees actions.
        disc_batches: Batches after which the discriminator does not change. Until then the policy
            learns nothing; `None` to learn all together from the start.
        dual: Settings of the dual problem.
        discriminator: Settings of the discriminator.
        **kwargs: As for `WeightedCloning`.

    Attributes:
        discriminator: The discriminator of expert and union.
        disc_batches: As given; may be replaced before training.
    """

    def __init__(
        self,
        *,
        divergence: Divergence = "kl",
        temperature: float = 1.0,
        use_actions: bool = True,
        disc_batches: int | None = None,
        dual: DualOptions | None = None,
        discriminator: DiscriminatorOptions | None = None,
        **kwargs: Any,
    ) -> None:
        if not temperature > 0:
            raise ValueError(f"temperature must be positive, not {temperature}")
        super().__init__(**kwargs)
        self._divergence, self._temperature = divergence, temperature
        self.disc_batches = disc_batches
        self._dual = dual or DualOptions()
        self.discriminator = self.make_discriminator(
            discriminator or DiscriminatorOptions(), use_actions=use_actions
        )
        sizes = (self.data.features, *self._dual.hidden_sizes, 1)
        self._nu = StackedMlp(sizes, self.streams.torch, self.streams.device)
        self._adam = Adam(self._nu.vector, self._dual.learning_rate)
        self._initial = self.data.union.take(self.data.starts[np.newaxis]).obs
        self._drop_constant()

    def weigh(
        self, batch: Batch, log_probs: th.Tensor
    ) -> tuple[th.Tensor | None, dict[str, th.Tensor]]:
        """Takes a step of the discriminator or of nu, or of both, and returns the weights."""
        del log_probs
        logged: dict[str, th.Tensor] = {}
        alone = self.disc_batches is not None and self.n_batches < self.disc_batches
        if alone or self.disc_batches is None:
            found = self.discriminator.update(batch, self.draw_expert())
            logged = {name: value.mean() for name, value in found.items()}
        if alone:
            return None, logged
        residuals = self._step_nu(batch)
        weights = dual_weights(residuals, self._divergence, self._temperature)
        return weights, logged | {"residual": residuals.mean()}

    def residuals(self, batch: Batch) -> th.Tensor:
        """The e of each transition, without derivatives; shape (batch,)."""
        with th.no_grad():
            nu = self._nu(th.cat([batch.obs, batch.next_obs], dim=1))[0, :, 0]
        return self._residuals(batch, *nu.chunk(2))

    def _residuals(self, batch: Batch, here: th.Tensor, after: th.Tensor) -> th.Tensor:
        rewards = self.log_ratio(self.discriminator, batch)
        return rewards + self._dual.gamma * (1 - batch.terminal[0]) * after - here

    def _step_nu(self, batch: Batch) -> th.Tensor:
        """Takes a step down the dual objective, and returns the residuals before it."""
        count, dual = batch.obs.shape[1], self._dual
        nu = self._nu(th.cat([batch.obs, batch.next_obs, self._starts(count)], dim=1))[0, :, 0]
        here, after, first = nu[:count], nu[count : 2 * count], nu[2 * count :]
        residuals = self._residuals(batch, here, after)
        loss = (1 - dual.gamma) * first.mean() + dual_value(
            residuals, self._divergence, self._temperature
        )
        if dual.gradient_penalty:
            slopes = self._nu.input_gradients(batch.obs)
            loss = loss + dual.gradient_penalty * slopes.square().sum(dim=-1).mean()
        self._adam.step(loss)
        self._drop_constant()
        return residuals.detach()

    def _starts(self, most: int) -> th.Tensor:
        """Encoded initial states: all of them, or as many as a batch has, drawn at random."""
        states = self._initial
        if states.shape[1] <= most:
            return states
        chosen = self.streams.indices([states.shape[1]], most)[0]
        return states[:, th.from_numpy(chosen).to(states.device)]

    def _drop_constant(self) -> None:
        """Keeps the last bias of nu at 0 where the objective does not change with it.

        Adam would turn the rounding errors of its derivative into steps.
        """
        if self._divergence == "kl":
            with th.no_grad():
                self._nu.vector[:, -1] = 0.0

    def extra_state(self) -> dict[str, Any]:
        """State of discriminator and nu."""
        return {
            "discriminator": self.discriminator.state_dict(),
            "nu": self._nu.vector.detach().cpu().clone(),
            "adam": self._adam.state_dict(),
        }

    def load_extra_state(self, state: Mapping[str, Any]) -> None:
        """Restores what `extra_state` returned."""
        self.discriminator.load_state_dict(state["discriminator"])
        with th.no_grad():
            self._nu.vector.copy_(state["nu"])
        self._adam.load_state_dict(state["adam"])


def dual_value(residuals: th.Tensor, divergence: Divergence, temperature: float) -> th.Tensor:
    """The part of the dual objective that depends on the data.

    With the temperature t, n residuals e, and weights that are never negative, it is

        kl:   t log mean exp(e / t)
        chi2: t mean (max(e / t + 1, 0)² - 1) / 2

    The first also knows that the weights have mean 1.

    Args:
        residuals: Shape (n,).
        divergence: The divergence.
        temperature: Its weight.

    Returns:
        A scalar.
    """
    scaled = residuals / temperature
    if divergence == "kl":
        return temperature * (scaled.logsumexp(dim=0) - math.log(len(scaled)))
    return temperature * ((scaled + 1).clamp_min(0).square().mean() - 1) / 2


def dual_weights(residuals: th.Tensor, divergence: Divergence, temperature: float) -> th.Tensor:
    """The derivative of `dual_value` by each residual, times their number.

    Args:
        residuals: Shape (n,).
        divergence: The divergence.
        temperature: Its weight.

    Returns:
        Shape (n,), never negative.
    """
    scaled = residuals / temperature
    if divergence == "kl":
        return len(scaled) * scaled.softmax(dim=0)
    return (scaled + 1).clamp_min(0)
