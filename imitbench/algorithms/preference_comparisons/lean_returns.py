"""Returns of fragments under a perceptron, in fewer passes over memory than its layers take.

A return is a sum of rewards, and the last layer is linear, so that hidden units may be summed
over a fragment's steps before it: `sum_t (w·h_t + b) = w·(sum_t h_t) + T b`. The gradient is
written out by hand. Numbers are those of the layers up to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch as th
from torch import nn
from torch.autograd.function import once_differentiable

from imitbench.algorithms.preference_comparisons.fragment_batch import FragmentBatch, discounts
from imitbench.rewards.reward_nets import BasicRewardNet, RewardNet
from imitbench.rl.mlp import Stack, stack_of
from imitbench.rl.products import affine, product
from imitbench.util.networks import BaseNorm, SqueezeLayer

# Inputs up to which MKL finds a weight's gradient faster transposed.
_NARROW = 8


def lean_returns(net: RewardNet, batch: FragmentBatch, discount_factor: float) -> th.Tensor | None:
    """Computes returns if the network is a plain perceptron.

    Args:
        net: Any reward network.
        batch: Steps of pairs of fragments.
        discount_factor: Weight of a step relative to the one before it.

    Returns:
        Shape `(2 * n_pairs,)`, with gradient; `None` for other networks than an unchanged
        `BasicRewardNet` with float32 on the CPU, and for fragments of different lengths.
    """
    length = batch.common_length
    plain = _plain_layers(net)
    if plain is None or length is None:
        return None
    normalize, stack = plain
    inputs = _inputs(cast(BasicRewardNet, net), batch)
    if normalize is not None:
        inputs = normalize(inputs)
    weights = [each.weight for each in stack.layers]
    biases = [each.bias for each in stack.layers]
    decay = None if discount_factor == 1 else discounts(length, discount_factor, inputs)
    returns: th.Tensor = _PerceptronReturns.apply(  # type: ignore[no-untyped-call]
        _Pass(inputs, length, decay, stack.tanh), *weights, *biases
    )
    return returns


def _plain_layers(net: RewardNet) -> tuple[BaseNorm | None, Stack] | None:
    """The layers of a perceptron: one that normalizes, or none, and the others."""
    if type(net) is not BasicRewardNet or type(net.mlp) is not nn.Sequential:
        return None
    modules = list(net.mlp)
    if any(
        each._forward_hooks or each._forward_pre_hooks or each._backward_hooks
        for each in (net, net.mlp, *modules)
    ):
        return None
    first = modules[0]
    normalize = first if isinstance(first, BaseNorm) else None
    last = modules.pop()
    stack = stack_of(modules[1:] if normalize is not None else modules)
    if stack is None or stack.activate_last or type(last) is not SqueezeLayer:
        return None
    weight = stack.layers[0].weight  # the parts of a network are moved and converted together
    if weight.dtype != th.float32 or weight.device.type != "cpu":
        return None
    return normalize, stack


def _inputs(net: BasicRewardNet, batch: FragmentBatch) -> th.Tensor:
    state, action, next_state, done = net.preprocess(
        batch.obs, batch.acts, batch.next_obs, batch.dones
    )
    used = [
        part.reshape(len(part), -1)
        for part, is_used in (
            (state, net.use_state),
            (action, net.use_action),
            (next_state, net.use_next_state),
            (done, net.use_done),
        )
        if is_used
    ]
    return th.cat(used, dim=1) if len(used) > 1 else used[0]


@dataclass(frozen=True)
class _Pass:
    """What a pass through the layers needs besides their parameters.

    Attributes:
        inputs: Shape `(fragments * length, features)`.
        length: Steps of each fragment.
        decay: Weight of each step in a return, shape `(length,)`; `None` if all are 1.
        tanh: Whether activations are hyperbolic tangents; otherwise units are rectified.
    """

    inputs: th.Tensor
    length: int
    decay: th.Tensor | None
    tanh: bool

    def hidden(self, weights: list[th.Tensor], biases: list[th.Tensor]) -> list[th.Tensor]:
        """The inputs and the units of each hidden layer."""
        trace = [self.inputs]
        for weight, bias in zip(weights, biases, strict=True):
            x = affine(trace[-1], weight, bias)
            trace.append(th.tanh_(x) if self.tanh else th.relu_(x))
        return trace

    def summed(self, units: th.Tensor) -> th.Tensor:
        """Adds units up over the steps of each fragment, shape `(fragments, width)`."""
        by_fragment = units.view(-1, self.length, units.shape[1])
        return by_fragment.sum(1) if self.decay is None else self.decay @ by_fragment

    def spread(self, by_sums: th.Tensor) -> th.Tensor:
        """Derivatives by the units from those by their sums; the opposite of `summed`."""
        by_step = by_sums.unsqueeze(1).expand(-1, self.length, -1)
        return by_step if self.decay is None else by_step * self.decay.unsqueeze(1)

    def through_activation(self, delta: th.Tensor, units: th.Tensor) -> th.Tensor:
        """Derivatives by what an activation got from those by what it gave."""
        units = units.view(delta.shape)
        if self.tanh:
            return delta - delta * units.square()
        return th.ops.aten.threshold_backward(delta, units, 0)  # type: ignore[no-any-return]


class _PerceptronReturns(th.autograd.Function):
    @staticmethod
    def forward(ctx: Any, layout: _Pass, *parameters: th.Tensor) -> th.Tensor:
        depth = len(parameters) // 2
        weights, biases = list(parameters[:depth]), list(parameters[depth:])
        trace = layout.hidden(weights[:-1], biases[:-1])
        sums = layout.summed(trace[-1])
        ctx.layout = layout
        ctx.save_for_backward(*weights, *trace, sums)
        total = layout.length if layout.decay is None else layout.decay.sum()
        return (sums @ weights[-1].t() + biases[-1] * total).squeeze(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_returns: th.Tensor) -> tuple[Any, ...]:
        layout: _Pass = ctx.layout
        saved = list(ctx.saved_tensors)
        depth = len(saved) // 2
        weights, trace, sums = saved[:depth], saved[depth:-1], saved[-1]
        column = by_returns.unsqueeze(1)
        total = layout.length if layout.decay is None else layout.decay.sum()
        by_weights = [column.t() @ sums]
        by_biases = [column.sum(0) * total]
        delta = layout.spread(column * weights[-1])
        for index in range(depth - 2, -1, -1):
            delta = layout.through_activation(delta, trace[index + 1]).flatten(0, -2)
            by_weights.append(_by_weight(delta, trace[index]))
            by_biases.append(delta.sum(0))
            if index > 0:
                delta = product(delta, weights[index])
        return (None, *reversed(by_weights), *reversed(by_biases))


def _by_weight(delta: th.Tensor, inputs: th.Tensor) -> th.Tensor:
    if inputs.shape[1] <= _NARROW:
        return (inputs.t() @ delta).t()
    return delta.t() @ inputs
