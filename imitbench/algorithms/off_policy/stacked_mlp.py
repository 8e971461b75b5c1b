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
        current: Views of each layer's part of `vector`, without derivatives; see `layers`.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        generators: Sequence[th.Generator],
        device: str | th.device = "cpu",
    ) -> None:
        rows = [_initial(tuple(sizes), generator) for generator in generators]
        self._hold(sizes, th.stack(rows).to(device).requires_grad_())

    def _hold(self, sizes: Sequence[int], vector: th.Tensor) -> None:
        self.members = len(vector)
        self.sizes = tuple(sizes)
        self.vector = vector
        self._fixed = vector.detach()
        # Views, made once: every pass uses them, and steps write to the same memory.
        self.current = self.layers(self._fixed)

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

    def member(self, number: int) -> list[tuple[th.Tensor, th.Tensor]]:
        """One perceptron's weights, shape (inputs, outputs), and biases, on the CPU."""
        return [(weight[number].cpu(), bias[number, 0].cpu()) for weight, bias in self.current]

    def __call__(self, x: th.Tensor, more: th.Tensor | None = None) -> th.Tensor:
        """Passes a batch through each member.

        Args:
            x: Shape (members, batch, inputs), or (groups, batch, inputs) if several members share
                their inputs: member i has those of group i modulo the number of groups.
            more: Inputs that follow those of `x`, of the same shape but for the last axis.

        Returns:
            Shape (members, batch, outputs); first derivatives only.
        """
        result: th.Tensor = _Pass.apply(x, more, self.vector, self)  # type: ignore[no-untyped-call]
        return result

    def frozen(self, x: th.Tensor, more: th.Tensor | None = None) -> th.Tensor:
        """As a call, without derivatives by the parameters."""
        result: th.Tensor = _Pass.apply(x, more, self._fixed, self)  # type: ignore[no-untyped-call]
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
        result: th.Tensor = _InputGradients.apply(x, self.vector, self)  # type: ignore[no-untyped-call]
        return result

    def copy(self) -> StackedMlp:
        """The same perceptrons with parameters of their own, and without derivatives."""
        copied = StackedMlp.__new__(StackedMlp)
        copied._hold(self.sizes, self._fixed.clone())
        return copied

    def follow(self, other: StackedMlp, rate: float) -> None:
        """Moves the parameters towards those of another stack by a share `rate`."""
        with th.no_grad():
            self.vector.lerp_(other.vector, rate)


Layer = tuple[th.Tensor, th.Tensor]
"""Weight, shape (members, inputs, outputs), and bias, shape (members, 1, outputs)."""


def _initial(sizes: Sequence[int], generator: th.Generator) -> th.Tensor:
    parts = []
    for inputs, outputs in itertools.pairwise(sizes):
        bound = 1 / math.sqrt(inputs)
        count = (inputs + 1) * outputs
        parts.append(th.empty(count).uniform_(-bound, bound, generator=generator))
    return th.cat(parts)


class _Pass(th.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: th.Tensor, more: th.Tensor | None, vector: th.Tensor, stack: StackedMlp
    ) -> th.Tensor:
        ctx.stack, ctx.groups, ctx.split = stack, len(x), x.shape[2]
        if more is not None:
            x = th.cat([x, more], dim=2)
        if ctx.groups < stack.members:
            x = th.cat([x] * (stack.members // ctx.groups))
        trace = _hidden(x, stack)
        ctx.save_for_backward(vector, *trace)
        return _last(trace[-1], stack.current[-1])

    @staticmethod
    @th.autograd.function.once_differentiable
    def backward(
        ctx: Any, delta: th.Tensor
    ) -> tuple[th.Tensor | None, th.Tensor | None, th.Tensor | None, None]:
        vector, *trace = ctx.saved_tensors
        stack, (to_x, to_more, to_parameters, _) = ctx.stack, ctx.needs_input_grad
        gradient = th.empty_like(vector) if to_parameters else None
        slots = stack.layers(gradient) if gradient is not None else None
        for depth in range(len(trace) - 1, 0, -1):
            if slots is not None:
                _fill(slots[depth], trace[depth], delta)
            delta = _back(delta, stack.current[depth][0])
            delta = _gated(delta, trace[depth])
        if slots is not None:
            _fill(slots[0], trace[0], delta)
        if not (to_x or to_more):
            return None, None, gradient, None
        weight = stack.current[0][0]
        first, last = (0 if to_x else ctx.split), (weight.shape[1] if to_more else ctx.split)
        by_inputs = _back(delta, weight[:, first:last])
        if ctx.groups < stack.members:
            by_inputs = by_inputs.view(-1, ctx.groups, *by_inputs.shape[1:]).sum(dim=0)
        split = ctx.split - first
        return (
            by_inputs[..., :split] if to_x else None,
            by_inputs[..., split:] if to_more else None,
            gradient,
            None,
        )


class _InputGradients(th.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: th.Tensor, vector: th.Tensor, stack: StackedMlp) -> th.Tensor:
        trace = _hidden(x, stack)
        delta = stack.current[-1][0].transpose(1, 2).expand(-1, x.shape[1], -1)
        deltas = []
        for depth in range(len(trace) - 1, 0, -1):
            deltas.append(_gated(delta, trace[depth]))
            delta = _back(deltas[-1], stack.current[depth - 1][0])
        ctx.stack = stack
        ctx.save_for_backward(vector, *trace[1:], *reversed(deltas))
        return delta

    @staticmethod
    @th.autograd.function.once_differentiable
    def backward(ctx: Any, by_result: th.Tensor) -> tuple[None, th.Tensor, None]:
        vector, *saved = ctx.saved_tensors
        current = ctx.stack.current
        gradient = th.zeros_like(vector)  # biases have no influence
        slots = ctx.stack.layers(gradient)
        hidden = len(current) - 1
        for depth, (on, delta) in enumerate(zip(saved[:hidden], saved[hidden:], strict=True)):
            th.bmm(by_result.transpose(1, 2), delta, out=slots[depth][0])
            by_result = _gated(th.bmm(by_result, current[depth][0]), on)
        th.sum(by_result, 1, keepdim=True, out=slots[-1][0].transpose(1, 2))
        return None, gradient, None


def _hidden(x: th.Tensor, stack: StackedMlp) -> list[th.Tensor]:
    """Returns the inputs of every layer."""
    trace = [x]
    for weight, bias in stack.current[:-1]:
        trace.append(th.relu_(th.baddbmm(bias, trace[-1], weight)))
    return trace


# Products with a single column: batched routines take several times as long as element by element.


def _last(x: th.Tensor, layer: Layer) -> th.Tensor:
    weight, bias = layer
    if len(weight) > 1 and weight.shape[2] == 1:
        return (x * weight.transpose(1, 2)).sum(dim=2, keepdim=True).add_(bias)
    return th.baddbmm(bias, x, weight)


def _fill(slots: Layer, inputs: th.Tensor, delta: th.Tensor) -> None:
    """Writes the derivatives by the weight and the bias of a layer."""
    by_weight, by_bias = slots
    if len(delta) > 1 and delta.shape[2] == 1:
        th.sum(inputs * delta, 1, keepdim=True, out=by_weight.transpose(1, 2))
    else:
        th.bmm(inputs.transpose(1, 2), delta, out=by_weight)
    th.sum(delta, 1, keepdim=True, out=by_bias)


def _back(delta: th.Tensor, weight: th.Tensor) -> th.Tensor:
    """Derivatives by the inputs of a layer."""
    if weight.shape[2] == 1:
        return delta * weight.transpose(1, 2)
    return th.bmm(delta, weight.transpose(1, 2))


def _gated(delta: th.Tensor, activated: th.Tensor) -> th.Tensor:
    """Derivatives before rectification, from those after it."""
    result: th.Tensor = th.ops.aten.threshold_backward(delta, activated, 0)
    return result
