"""Regularization of the discriminator: gradient penalty, label smoothing, input noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch as th

from imitbench.algorithms.adversarial.expert_batches import FIELDS, Array
from imitbench.rewards.reward_nets import RewardNet
from imitbench.util.networks import evaluating

Inputs = tuple[th.Tensor, th.Tensor, th.Tensor, th.Tensor]
"""Encoded observations, actions, next observations and ends of episodes."""


@dataclass(frozen=True)
class Regularization:
    """Settings of the discriminator's regularization; all are off by default.

    Attributes:
        gradient_penalty: Weight of the squared distance of the gradient's norm from 1, between
            samples of both kinds (Gulrajani et al. 2017, "Improved Training of Wasserstein GANs",
            equation 3; Kostrikov et al. 2019, "Discriminator-Actor-Critic", for imitation).
        label_smoothing: Target probability of the wrong label, in [0, 0.5) (Szegedy et al. 2016,
            "Rethinking the Inception Architecture for Computer Vision", §7): the logits of a
            perfect discriminator then lie within ±log((1 - s) / s).
        input_noise: Standard deviation of Gaussian noise on observations and actions, in standard
            deviations of each input (Arjovsky and Bottou 2017, "Towards Principled Methods for
            Training Generative Adversarial Networks", §3).

    Raises:
        ValueError: A value is out of range.
    """

    gradient_penalty: float = 0.0
    label_smoothing: float = 0.0
    input_noise: float = 0.0

    def __post_init__(self) -> None:
        for name in ("gradient_penalty", "input_noise"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must be at least 0, not {getattr(self, name)}")
        if not 0 <= self.label_smoothing < 0.5:
            raise ValueError(f"label_smoothing must lie in [0, 0.5), not {self.label_smoothing}")


def gradient_penalty(
    net: RewardNet,
    expert: Mapping[str, Array],
    generated: Mapping[str, Array],
    rng: np.random.Generator,
) -> th.Tensor:
    """Penalizes gradient norms other than 1 at random points between expert and generator samples.

    Gradients are by standardized inputs, so that units of observations do not matter. Statistics of
    normalizing layers do not change.

    Args:
        net: Network of the logits.
        expert: Samples of the expert under `FIELDS`.
        generated: As many of the generator.
        rng: Draws the position of each point between its two samples.

    Returns:
        The mean squared distance, a scalar with gradients.
    """
    sides = [net.preprocess(*(batch[name] for name in FIELDS)) for batch in (expert, generated)]
    share = th.as_tensor(rng.random(len(expert["acts"])), dtype=net.dtype, device=net.device)
    along = [share.reshape(-1, *[1] * (each.ndim - 1)) for each in sides[0]]
    points = [theirs + part * (own - theirs)
              for own, theirs, part in zip(*sides, along, strict=True)]  # fmt: skip
    # Whether the episode ended is not a continuous input.
    moved = [point.requires_grad_() for point in points[:3]]
    with evaluating(net):
        logits: th.Tensor = net(*moved, points[3])
    gradients = th.autograd.grad(logits.sum(), moved, create_graph=True, allow_unused=True)
    squares = logits.new_zeros(len(logits))
    for gradient, *pair in zip(gradients, *sides, strict=False):
        if gradient is not None:
            scaled = gradient * deviations(*pair)
            squares = squares + scaled.flatten(1).square().sum(dim=1)
    # The root of 0 has no derivative.
    return ((squares + 1e-12).sqrt() - 1).square().mean()


def with_noise(inputs: Inputs, amount: float, rng: np.random.Generator) -> Inputs:
    """Adds noise to encoded observations and actions.

    Args:
        inputs: A batch, each part of shape (batch, …).
        amount: Standard deviation of the noise, in standard deviations of each input.
        rng: Draws the noise.
    """

    def noisy(batch: th.Tensor) -> th.Tensor:
        noise = th.from_numpy(rng.standard_normal(batch.shape, dtype=np.float32)).to(batch)
        return batch + amount * deviations(batch) * noise

    state, action, next_state, done = inputs
    return noisy(state), noisy(action), noisy(next_state), done


def deviations(*batches: th.Tensor) -> th.Tensor:
    """Standard deviation of each entry over the rows of several batches."""
    joined = th.cat(batches) if len(batches) > 1 else batches[0]
    return joined.std(dim=0, correction=0)
