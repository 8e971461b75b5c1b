"""Multilayer perceptrons of a torch policy with explicit forward and backward passes.

The policy's parameters become views of one vector, so that a step of an optimizer or of a target
network is a single operation.

DQN, SAC and reward training, with large batches and layers, use this engine. PPO uses
`imitbench.rl.actor_critic`: with this engine, its updates would take a third longer, and its
published runs would not be reproduced.

Matrix products on one thread use the faster library for their size. Torch has the MKL, which does
not use all instructions of some processors, and oneDNN, which does but has more overhead per call.
The choice depends only on sizes, so that results are reproducible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch as th
from torch import nn

# Multiplications from which oneDNN is faster despite its overhead.
_LARGE = 2**22


@dataclass(frozen=True)
class Stack:
    """Linear layers with an activation after each, or after each except the last.

    Attributes:
        layers: The linear layers.
        tanh: Whether activations are Tanh; otherwise ReLU.
        activate_last: Whether an activation follows the last layer.
    """

    layers: tuple[nn.Linear, ...]
    tanh: bool
    activate_last: bool


def stack_of(modules: Sequence[nn.Module]) -> Stack | None:
    """Converts a sequence of modules to a stack; `None` if it has other modules."""
    layers, activations = modules[::2], modules[1::2]
    kinds = {type(activation) for activation in activations}
    if len(kinds) > 1 or not kinds <= {nn.Tanh, nn.ReLU}:
        return None
    linear = tuple(layer for layer in layers if type(layer) is nn.Linear and layer.bias is not None)
    if len(linear) < len(layers) or not linear:
        return None
    return Stack(linear, nn.Tanh in kinds, len(activations) == len(layers))


class FlatParameters:
    """Makes parameters views of one vector, with another vector for their gradient.

    Args:
        parameters: Parameters, float32 on the CPU; their `data` is replaced.

    Attributes:
        parameters: The parameters.
        vector: Their values, shape (size,).
        gradient: Their gradient, shape (size,), written by `Mlp.backward`.
    """

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self.parameters = list(parameters)
        with th.no_grad():
            self.vector = th.cat([parameter.reshape(-1) for parameter in self.parameters])
        self.gradient = th.zeros_like(self.vector)
        self._gradients: dict[th.Tensor, th.Tensor] = {}
        for parameter, view, gradient in zip(
            self.parameters, self.split(self.vector), self.split(self.gradient), strict=True
        ):
            parameter.data = view
            self._gradients[parameter] = gradient
        self._addresses = [parameter.data_ptr() for parameter in self.parameters]

    def split(self, vector: th.Tensor) -> list[th.Tensor]:
        """Returns views of a vector of shape (size,), one with the shape of each parameter."""
        parts = th.split(vector, [parameter.numel() for parameter in self.parameters])
        return [
            part.view(parameter.shape)
            for part, parameter in zip(parts, self.parameters, strict=True)
        ]

    def gradient_of(self, parameter: th.Tensor) -> th.Tensor:
        """Returns the part of the gradient that belongs to a parameter."""
        return self._gradients[parameter]

    def are_views(self) -> bool:
        """Whether the parameters are still views of the vector.

        Only the first and the last are checked, because operations that replace parameters replace
        all of them.
        """
        return (
            self.parameters[0].data_ptr() == self._addresses[0]
            and self.parameters[-1].data_ptr() == self._addresses[-1]
        )


class Mlp:
    """Evaluates a stack of layers without autograd.

    Args:
        stack: The layers.
        parameters: Receives gradients in `backward`; `None` if it is not called.
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
        """Evaluates the layers for inputs of shape (batch, features), float32."""
        return self.trace(inputs)[-1]

    def trace(self, inputs: th.Tensor) -> list[th.Tensor]:
        """Evaluates the layers; returns the inputs and the result of each layer."""
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
        """Computes derivatives of a loss.

        Args:
            trace: Result of `trace`.
            by_output: Derivative of the loss by the last layer's result.
            to_parameters: Whether to write the gradient of the parameters.
            to_inputs: Whether to compute the derivative by the inputs.

        Returns:
            Derivative by the inputs; without `to_inputs`, by the result of the first layer.
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
    return delta * activated.sign()  # faster than a comparison, which creates booleans


def _find_onednn() -> bool:
    """Whether this build of torch has oneDNN's linear layer, and it works."""
    try:
        one = th.ones(1, 1)
        return bool(th.ops.mkldnn._linear_pointwise(one, one, one[0], "none", [], "") == 2.0)
    except (AttributeError, RuntimeError):
        return False


_HAS_ONEDNN = _find_onednn()


def _by_onednn(rows: int, columns: int, depth: int) -> bool:
    return _HAS_ONEDNN and rows * columns * depth >= _LARGE


def affine(x: th.Tensor, weight: th.Tensor, bias: th.Tensor) -> th.Tensor:
    """Computes a linear layer.

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
    """Multiplies two matrices, shapes (rows, depth) and (depth, columns)."""
    if _by_onednn(a.shape[0], *b.shape):
        result: th.Tensor = th.ops.mkldnn._linear_pointwise(a, b.t(), None, "none", [], "")
        return result
    return th.mm(a, b)
