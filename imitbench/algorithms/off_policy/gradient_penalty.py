"""The gradient penalty of Wasserstein GANs.

Source: Gulrajani et al. 2017, "Improved Training of Wasserstein GANs".
"""

from __future__ import annotations

import torch as th

from imitbench.algorithms.off_policy.randomness import SeedStreams
from imitbench.algorithms.off_policy.stacked_mlp import StackedMlp


def gradient_penalty(
    net: StackedMlp, theirs: th.Tensor, ours: th.Tensor, streams: SeedStreams
) -> th.Tensor:
    """Squared distance of the gradient's norm from 1, at points between samples.

    Args:
        net: One perceptron of each seed, with one output.
        theirs: Inputs, shape (seeds, batch, inputs).
        ours: As many others.
        streams: Randomness of each seed.

    Returns:
        The mean over the batch, with derivatives by the net's parameters; shape (seeds,).
    """
    share = streams.uniform(theirs.shape[1], 1)
    gradient = net.input_gradients(th.lerp(ours, theirs, share))
    norms = (gradient.square().sum(dim=-1) + 1e-12).sqrt()
    return (norms - 1).square().mean(dim=1)
