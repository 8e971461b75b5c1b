"""Multilayer perceptrons of a torch policy, with forward and backward passes written out by hand.

The parameters stay the policy's own: they become views of one vector, so that an optimizer's
step, or a step of a target network, is a single operation.

This is the engine of DQN, SAC and reward training, whose batches and layers may be large. PPO has
its own, `imitbench.rl.actor_critic`: its updates would take a third longer with this one, and its
published runs would not come out the same.

Products of matrices, on one thread, are left to whichever library is the faster for their size.
Torch multiplies with the MKL, which does not use all that some processors can do, and with
oneDNN, which does but takes longer to start. The choice depends on sizes alone, so that a program
gives the same numbers each time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch as th
from torch import nn

# Multiplications from which oneDNN is worth its start.
_LARGE = 2**22


@dataclass(frozen=True)
class Stack:
    """Linear layers with activations after each of them, or after each but the last.

    Attributes:
        layers: The linear layers.
        tanh: Whether activations are hyperbolic tangents; otherwise units are rectified.
        activate_last: Whether one follows the last layer.
    """

    layers: tuple[nn.Linear, ...]
    tanh: bool
    activate_last: bool


def stack_of(modules: Sequence[nn.Module]) -> Stack | None:
    """Reads a sequence of modules as a stack; `None` if it is none."""
    layers, activations = modules[::2], modules[1::2]
    kinds = {type(each) for each in activations}
    if len(kinds) > 1 or not kinds <= {nn.Tanh, nn.ReLU}:
        return None
    linear = tuple(each for each in layers if type(each) is nn.Linear and each.bias is not None)
    if len(linear) < len(layers) or not linear:
        return None
    return Stack(linear, nn.Tanh in kinds, len(activations) == len(layers))


class FlatParameters:
    """Parameters as views of one vector, with a vector of the same shape for their gradient.

    Args:
        parameters: The parameters, float32 on the CPU; their `data` is replaced.

    Attributes:
        parameters: As given.
        vector: All of them, shape (size,).
        gradient: Their gradient, shape (size,), which `Mlp.backward` writes.
    """

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self.parameters = list(parameters)
        with th.no_grad():
            self.vector = th.cat([each.reshape(-1) for each in self.parameters])
        self.gradient = th.zeros_like(self.vector)
        self._gradients: dict[th.Tensor, th.Tensor] = {}
        for parameter, view, gradient in zip(
            self.parameters, self.split(self.vector), self.split(self.gradient), strict=True
        ):
            parameter.data = view
            self._gradients[parameter] = gradient
        self._places = [each.data_ptr() for each in self.parameters]

    def split(self, vector: th.Tensor) -> list[th.Tensor]:
        """Views of a vector of the same size, one for each parameter and of its shape."""
        parts = th.split(vector, [each.numel() for each in self.parameters])
        return [part.view(each.shape) for part, each in zip(parts, self.parameters, strict=True)]

    def gradient_of(self, parameter: th.Tensor) -> th.Tensor:
        """The gradient's part that belongs to a parameter."""
        return self._gradients[parameter]

    def in_place(self) -> bool:
        """Whether the parameters are still views of the vector.

        The ends stand for all: whatever moves a policy's parameters moves all of them.
        """
        return (
            self.parameters[0].data_ptr() == self._places[0]
            and self.parameters[-1].data_ptr() == self._places[-1]
        )


class Mlp:
    """A stack of layers that computes without a graph.

    Args:
        stack: The layers.
        parameters: Where `backward` writes their gradients; `None` if it is not needed.
    """

    def __init__(self, stack: Stack, parameters: FlatParameters | None = None) -> None:
        self._weights = [layer.weight.data for layer in stack.layers]
        self._biases = [layer.bias.data for layer in stack.layers]
        if parameters is not None:
            self._by_weights = [parameters.gradient_of(layer.weight) for layer in stack.layers]
            self._by_biases = [parameters.gradient_of(layer.bias) for layer in stack.layers]
        self._activate = th.tanh_ if stack.tanh else th.relu_
        self._differentiate: Callable[[th.Tensor, th.Tensor], th.Tensor] = (
            _through_tanh if stack.tanh else _through_relu
        )
        depth = len(stack.layers)
        self._activated = [index + 1 < depth or stack.activate_last for index in range(depth)]

    def __call__(self, inputs: th.Tensor) -> th.Tensor:
        """Passes inputs, shape (batch, features), float32, through the layers."""
        return self.trace(inputs)[-1]

    def trace(self, inputs: th.Tensor) -> list[th.Tensor]:
        """As a call, but returns the inputs and the results of each layer."""
        results = [inputs]
        for weight, bias, activated in zip(
            self._weights, self._biases, self._activated, strict=True
        ):
            x = affine(results[-1], weight, bias)
            results.append(self._activate(x) if activated else x)
        return results

    def backward(
        self,
        trace: list[th.Tensor],
        by_output: th.Tensor,
        *,
        to_parameters: bool = True,
        to_inputs: bool = False,
    ) -> th.Tensor:
        """Finds derivatives of a loss.

        Args:
            trace: What `trace` returned.
            by_output: Derivative by its last entry.
            to_parameters: Whether to write the gradient.
            to_inputs: Whether to continue to the inputs.

        Returns:
            Derivative by the inputs, or else by the result of the first layer.
        """
        delta = by_output
        for depth in range(len(self._weights) - 1, -1, -1):
            if self._activated[depth]:
                delta = self._differentiate(delta, trace[depth + 1])
            if to_parameters:
                self._by_weights[depth].copy_(product(delta.t(), trace[depth]))
                th.sum(delta, 0, out=self._by_biases[depth])
            if depth > 0 or to_inputs:
                delta = product(delta, self._weights[depth])
        return delta


def _through_tanh(delta: th.Tensor, activated: th.Tensor) -> th.Tensor:
    return th.addcmul(delta, delta, activated.square(), value=-1)


def _through_relu(delta: th.Tensor, activated: th.Tensor) -> th.Tensor:
    return delta * activated.sign()  # faster than a comparison, which makes booleans


def _find_onednn() -> bool:
    """Whether this build of torch has oneDNN's linear layer, and computes with it."""
    try:
        one = th.ones(1, 1)
        return bool(th.ops.mkldnn._linear_pointwise(one, one, one[0], "none", [], "") == 2.0)
    except (AttributeError, RuntimeError):
        return False


_HAS_ONEDNN = _find_onednn()


def _by_onednn(rows: int, columns: int, depth: int) -> bool:
    return _HAS_ONEDNN and rows * columns * depth >= _LARGE


def affine(x: th.Tensor, weight: th.Tensor, bias: th.Tensor) -> th.Tensor:
    """A linear layer.

    Args:
        x: Shape (batch, inputs).
        weight: Shape (outputs, inputs).
        bias: Shape (outputs,).

    Returns:
        Shape (batch, outputs).
    """
    if _by_onednn(x.shape[0], *weight.shape):
        result: th.Tensor = th.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
        return result
    return th.addmm(bias, x, weight.t())


def product(a: th.Tensor, b: th.Tensor) -> th.Tensor:
    """The product of two matrices, shapes (rows, depth) and (depth, columns)."""
    if _by_onednn(a.shape[0], *b.shape):
        result: th.Tensor = th.ops.mkldnn._linear_pointwise(a, b.t(), None, "none", [], "")
        return result
    return th.mm(a, b)
