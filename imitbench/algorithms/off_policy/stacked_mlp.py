"""Several multilayer perceptrons of one shape, computed together.

Twin critics are two members of one stack; seeds that are trained together are more. A pass through
the stack is a single node of torch's graph, with its backward pass written out, because building a
graph of every layer takes longer than the arithmetic of small networks.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch as th


class StackedMlp:
    """Multilayer perceptrons with rectified units and a linear last layer.

    Weights start as those of `torch.nn.Linear`.

    Args:
        sizes: Units of each layer, inputs first and outputs last.
        generators: One per member; draws its weights.
        device: Where to compute.

    Attributes:
        vector: All parameters, shape (members, parameters of one), float32. Each layer's weight
            stands before its bias.
        members: Number of perceptrons.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        generators: Sequence[th.Generator],
        device: str | th.device = "cpu",
    ) -> None:
        self.members = len(generators)
        self.sizes = tuple(sizes)
        rows = [_initial(self.sizes, generator) for generator in generators]
        self.vector = th.stack(rows).to(device).requires_grad_()

    def layers(self, vector: th.Tensor) -> list[tuple[th.Tensor, th.Tensor]]:
        """Views of each layer's part of a vector of the same shape as `vector`.

        Returns:
            Weights, shape (members, inputs, outputs), and biases, shape (members, 1, outputs).
        """
        shapes = list(itertools.pairwise(self.sizes))
        # One split, because the graph then has one node for all layers.
        lengths = [length for size, units in shapes for length in (size * units, units)]
        parts = iter(th.split(vector, lengths, dim=1))
        return [
            (next(parts).view(-1, size, units), next(parts).unsqueeze(1)) for size, units in shapes
        ]

    def __call__(self, x: th.Tensor) -> th.Tensor:
        """Passes a batch through each member.

        Args:
            x: Shape (members, batch, inputs).

        Returns:
            Shape (members, batch, outputs); first derivatives only.
        """
        result: th.Tensor = _Pass.apply(x, self.vector, self)  # type: ignore[no-untyped-call]
        return result

    def frozen(self, x: th.Tensor) -> th.Tensor:
        """As a call, without derivatives by the parameters."""
        result: th.Tensor = _Pass.apply(x, self.vector.detach(), self)  # type: ignore[no-untyped-call]
        return result

    def input_gradients(self, x: th.Tensor) -> th.Tensor:
        """Derivatives of the only output by the inputs, with derivatives by the parameters.

        Units are on or off, so that a pass back through the weights gives them without a second
        derivative.

        Args:
            x: Shape (members, batch, inputs).

        Returns:
            The same shape.
        """
        *hidden, (weight, _) = self.layers(self.vector)
        active = []
        with th.no_grad():
            for each, bias in hidden:
                x = th.relu_(th.baddbmm(bias, x, each))
                active.append(x.sign())
        delta = weight.transpose(1, 2).expand(-1, x.shape[1], -1)
        for (each, _), on in zip(reversed(hidden), reversed(active), strict=True):
            delta = th.bmm(delta * on, each.transpose(1, 2))
        return delta

    def copy(self) -> StackedMlp:
        """The same perceptrons with parameters of their own, and without derivatives."""
        twin = StackedMlp.__new__(StackedMlp)
        twin.members, twin.sizes = self.members, self.sizes
        twin.vector = self.vector.detach().clone()
        return twin

    def follow(self, other: StackedMlp, rate: float) -> None:
        """Moves the parameters towards those of another stack by a share `rate`."""
        with th.no_grad():
            self.vector.lerp_(other.vector, rate)


def _initial(sizes: Sequence[int], generator: th.Generator) -> th.Tensor:
    parts = []
    for inputs, outputs in itertools.pairwise(sizes):
        bound = 1 / math.sqrt(inputs)
        count = (inputs + 1) * outputs
        parts.append(th.empty(count).uniform_(-bound, bound, generator=generator))
    return th.cat(parts)


class _Pass(th.autograd.Function):
    """A pass through a stack."""

    @staticmethod
    def forward(ctx: Any, x: th.Tensor, vector: th.Tensor, stack: StackedMlp) -> th.Tensor:
        layers = stack.layers(vector)
        trace = [x]
        for depth, (weight, bias) in enumerate(layers):
            x = th.baddbmm(bias, x, weight)
            trace.append(x if depth + 1 == len(layers) else th.relu_(x))
        ctx.stack = stack
        ctx.save_for_backward(vector, *trace[:-1])
        return x

    @staticmethod
    @th.autograd.function.once_differentiable
    def backward(ctx: Any, delta: th.Tensor) -> tuple[th.Tensor | None, th.Tensor | None, None]:
        vector, *trace = ctx.saved_tensors
        to_inputs, to_parameters, _ = ctx.needs_input_grad
        gradient = th.empty_like(vector) if to_parameters else None
        by_layers = ctx.stack.layers(gradient) if gradient is not None else []
        layers = ctx.stack.layers(vector)
        for depth in range(len(layers) - 1, -1, -1):
            if by_layers:
                by_weight, by_bias = by_layers[depth]
                th.bmm(trace[depth].transpose(1, 2), delta, out=by_weight)
                th.sum(delta, 1, keepdim=True, out=by_bias)
            if depth > 0 or to_inputs:
                delta = th.bmm(delta, layers[depth][0].transpose(1, 2))
            if depth > 0:
                delta = delta * trace[depth].sign()
        return (delta if to_inputs else None), gradient, None
