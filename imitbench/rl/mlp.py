"""Multilayer perceptrons of a torch policy, with forward and backward passes written out by hand.

The parameters stay the policy's own: they become views of one vector, so that an optimizer's
step, or a step of a target network, is a single operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch as th
from torch import nn

from imitbench.rl.products import affine, product


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
        gradient: Their gradient; whoever computes it writes it here.
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
        parameters: Where their parameters and gradients are.
    """

    def __init__(self, stack: Stack, parameters: FlatParameters) -> None:
        self._weights = [layer.weight.data for layer in stack.layers]
        self._biases = [layer.bias.data for layer in stack.layers]
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
            to_inputs: Whether to go on to the inputs.

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
