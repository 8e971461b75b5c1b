"""Ways to keep a discriminator from being too sure of itself."""

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
    """What is added to the discriminator's training; everything is off by default.

    Attributes:
        gradient_penalty: Weight of the squared distance of the gradient's norm from 1, between
            expert and generator (Gulrajani et al. 2017, "Improved Training of Wasserstein GANs",
            equation 3; Kostrikov et al. 2019, "Discriminator-Actor-Critic", for imitation).
        label_smoothing: Probability that is left to the wrong label, in [0, 0.5) (Szegedy et al.
            2016, "Rethinking the Inception Architecture for Computer Vision", §7): a perfect
            discriminator's logits then lie within ±log((1 - s) / s).
        input_noise: Deviation of Gaussian noise on observations and actions, in deviations of
            each input (Arjovsky and Bottou 2017, "Towards Principled Methods for Training
            Generative Adversarial Networks", §3).

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
    """How far the gradient's norm is from 1 at random points between expert and generator.

    Gradients are by standardized inputs, so that units of observations do not matter. The
    network's own normalizing layers stay as they are.

    Args:
        net: The network.
        expert: Samples of the expert under `FIELDS`.
        generated: As many of the generator.
        rng: Where on the way from one to the other the points lie.

    Returns:
        The mean squared distance, a single number with gradients.
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
        inputs: A batch.
        amount: Deviation of the noise in deviations of each input.
        rng: Source of the noise.
    """

    def noisy(batch: th.Tensor) -> th.Tensor:
        noise = th.from_numpy(rng.standard_normal(batch.shape, dtype=np.float32)).to(batch)
        return batch + amount * deviations(batch) * noise

    state, action, next_state, done = inputs
    return noisy(state), noisy(action), noisy(next_state), done


def deviations(*batches: th.Tensor) -> th.Tensor:
    """Standard deviation of each entry over several batches, without the batch's axis."""
    joined = th.cat(batches) if len(batches) > 1 else batches[0]
    return joined.std(dim=0, correction=0)
