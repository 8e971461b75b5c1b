"""Mixtures of Gaussians and flows, for single actions and for chunks of them.

Networks of `imitbench.policies.action_heads` and of `imitbench.policies.sequences` end with these.
All numbers are in scaled actions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch as th
from torch import nn
from torch.nn import functional

HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)
# Softplus of it is a standard deviation of 0.13.
_NARROW = -2.0


class Mixture(NamedTuple):
    """Mixtures of Gaussians with diagonal covariances, one for each row.

    Source: Bishop 1994, "Mixture Density Networks".

    Attributes:
        log_weights: Logarithms of the components' weights, shape (batch, components).
        means: Shape (batch, components, actions).
        stds: Standard deviations, shape (batch, components, actions).
    """

    log_weights: th.Tensor
    means: th.Tensor
    stds: th.Tensor

    @classmethod
    def of(cls, outputs: th.Tensor, n_components: int, min_std: float) -> Mixture:
        """Reads the outputs of a network.

        Args:
            outputs: Shape (batch, components * (1 + 2 * actions)).
            n_components: Number of Gaussians.
            min_std: Least standard deviation.
        """
        logits, rest = outputs[:, :n_components], outputs[:, n_components:]
        parts = rest.reshape(len(rest), n_components, -1)
        means, spread = parts.chunk(2, 2)
        return cls(logits.log_softmax(dim=1), means, functional.softplus(spread) + min_std)

    def loss(self, actions: th.Tensor) -> th.Tensor:
        """Negative log-density in nats, shape (batch,).

        Args:
            actions: Shape (batch, actions).
        """
        z = (actions.unsqueeze(1) - self.means) / self.stds
        by_component = -(0.5 * z.square() + self.stds.log() + HALF_LOG_TAU).sum(dim=2)
        return -(self.log_weights + by_component).logsumexp(dim=1)

    def choose(self, deterministic: bool, low_noise: bool) -> th.Tensor:
        """The mean of the heaviest component, or a sample; shape (batch, actions).

        Args:
            deterministic: Whether to take the heaviest; else torch's generator draws one.
            low_noise: Whether a sample is the mean of the drawn component, without its noise.
        """
        log_weights, means, stds = self
        if not deterministic:
            # The largest of log-weights with Gumbel noise has the probability of its weight.
            log_weights = log_weights - th.empty_like(log_weights).exponential_().log()
        chosen = log_weights.argmax(dim=1)
        rows = th.arange(len(chosen), device=chosen.device)
        mean = means[rows, chosen]
        if deterministic or low_noise:
            return mean
        return mean + stds[rows, chosen] * th.randn_like(mean)


def spread_components(last: nn.Linear, n_components: int, n_actions: int) -> None:
    """Starts with narrow components all over the range of actions.

    Wide components at the same position all move to the mean of the data, and stay there.

    Args:
        last: Layer whose outputs `Mixture.of` reads; its bias is changed.
        n_components: Number of Gaussians.
        n_actions: Entries of an action.
    """
    with th.no_grad():
        rest = last.bias[n_components:].view(n_components, 2, n_actions)
        rest[:, 0].uniform_(-1.0, 1.0)
        rest[:, 1] = _NARROW


Velocity = Callable[[th.Tensor, th.Tensor], th.Tensor]
"""Velocity at points, shape (batch, …), and times in [0, 1], shape (batch, 1); shape (batch, …)."""


def flow_loss(velocity: Velocity, target: th.Tensor, rng: np.random.Generator) -> th.Tensor:
    """Squared error of a velocity at one random point of each line from noise to its target.

    That is |v_t(x_t) - (a - x_0)|^2 at x_t = (1 - t) x_0 + t a, averaged over all entries, with
    noise x_0 and a uniform t.

    Args:
        velocity: The learned velocity.
        target: a, shape (batch, …).
        rng: Draws noise and times.

    Returns:
        Shape (batch,).

    Source: Lipman et al. 2023, "Flow Matching for Generative Modeling", equations 22 and 23 with
    sigma_min = 0.
    """
    noise = normal_like(target, rng)
    time = th.from_numpy(rng.random((len(target), 1), dtype=np.float32)).to(target)
    share = time.reshape(-1, *[1] * (target.ndim - 1))
    point = (1 - share) * noise + share * target
    error = velocity(point, time) - (target - noise)
    return error.square().flatten(1).mean(dim=1)


def follow_flow(velocity: Velocity, start: th.Tensor, steps: int) -> th.Tensor:
    """Follows a flow from noise to actions in Euler steps.

    Args:
        velocity: The learned velocity.
        start: Noise, shape (batch, …).
        steps: Number of steps.

    Returns:
        The same shape.
    """
    point = start
    for step in range(steps):
        time = point.new_full((len(point), 1), step / steps)
        point = point + velocity(point, time) / steps
    return point


def normal_like(target: th.Tensor, rng: np.random.Generator) -> th.Tensor:
    """Standard normal numbers of a generator, with the shape and the device of a tensor."""
    return th.from_numpy(rng.standard_normal(target.shape, dtype=np.float32)).to(target)
