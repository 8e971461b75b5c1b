"""The actors and critics of several seeds as one batched network, with explicit backward passes.

`imitbench.rl.actor_critic` is the network of a single seed. Here each operation computes all seeds.
Every tensor has the seed as its first axis, and the parameters of a seed are a row of one matrix in
the order of `Parameters`. All of it computes on a GPU too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch as th

from imitbench.rl.actor_critic import Architecture, Array, Parameters

_HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True)
class _Layer:
    """A linear layer of all seeds, and its gradient.

    Attributes:
        weight: Shape (seeds, inputs, outputs).
        bias: Shape (seeds, 1, outputs).
        by_weight: Like `weight`.
        by_bias: Like `bias`.
    """

    weight: th.Tensor
    bias: th.Tensor
    by_weight: th.Tensor
    by_bias: th.Tensor


class _Tower:
    """The hidden layers and the last layer of all actors, or of all critics."""

    def __init__(self, layers: list[_Layer], *, relu: bool) -> None:
        self._layers = layers
        self._relu = relu
        self._trace: list[th.Tensor] = []

    def forward(self, features: th.Tensor) -> th.Tensor:
        """Evaluates features, shape (seeds, batch, features), and keeps what `backward` needs."""
        x, self._trace = features, [features]
        for layer in self._layers[:-1]:
            x = self._activate(th.baddbmm(layer.bias, x, layer.weight))
            self._trace.append(x)
        last = self._layers[-1]
        # Products with a few columns take several times as long as their transpose on the CPU.
        output = th.bmm(last.weight.transpose(1, 2), x.transpose(1, 2)).transpose(1, 2)
        return output.contiguous().add_(last.bias)

    def backward(self, by_output: th.Tensor) -> None:
        """Writes the gradient, given the derivative of each seed's loss by the last result."""
        last, x = self._layers[-1], self._trace[-1]
        last.by_weight.copy_(th.bmm(by_output.transpose(1, 2), x).transpose(1, 2))
        th.sum(by_output, dim=1, keepdim=True, out=last.by_bias)
        if len(self._layers) == 1:
            return
        weight_t = last.weight.transpose(1, 2)
        delta = by_output * weight_t if by_output.shape[2] == 1 else th.bmm(by_output, weight_t)
        for depth in range(len(self._layers) - 2, -1, -1):
            layer = self._layers[depth]
            delta = self._through_activation(delta, self._trace[depth + 1])
            th.bmm(self._trace[depth].transpose(1, 2), delta, out=layer.by_weight)
            th.sum(delta, dim=1, keepdim=True, out=layer.by_bias)
            if depth:
                delta = th.bmm(delta, layer.weight.transpose(1, 2))

    def _activate(self, x: th.Tensor) -> th.Tensor:
        if self._relu:
            return x.relu_()
        if x.device.type != "cpu":
            return x.tanh_()
        np.tanh(x.numpy(), out=x.numpy())  # several times as fast as torch's
        return x

    def _through_activation(self, delta: th.Tensor, activated: th.Tensor) -> th.Tensor:
        through: th.Tensor = (
            th.ops.aten.threshold_backward(delta, activated, 0)
            if self._relu
            else th.ops.aten.tanh_backward(delta, activated)
        )
        return through


class StackedActorCritic:
    """The actors and critics of several seeds.

    Args:
        architecture: Layers and activations, the same for all seeds.
        seeds: Number of seeds.
        device: Where to compute.
        dtype: Data type of parameters and results.

    Attributes:
        architecture: As given.
        parameters: Shape (seeds, architecture.size); initially zero.
        gradient: Result of `backward` and of the head's, same shape.
        actor: Maps features, shape (seeds, batch, features), to logits or means, shape
            (seeds, batch, outputs).
        critic: Maps features to values, shape (seeds, batch, 1).
        log_std: Logarithms of the standard deviations, shape (seeds, 1, outputs), or empty; a view
            of `parameters`.
        by_log_std: Their gradient.
    """

    def __init__(
        self,
        architecture: Architecture,
        seeds: int,
        device: str | th.device = "cpu",
        dtype: th.dtype = th.float32,
    ) -> None:
        self.architecture = architecture
        self.parameters = th.zeros(seeds, architecture.size, device=device, dtype=dtype)
        self.gradient = th.zeros_like(self.parameters)
        places = Parameters(architecture, np.arange(architecture.size))
        layers: dict[str, list[_Layer]] = {}
        for names, group in zip(architecture.towers, places.towers, strict=True):
            for stack, name in enumerate(names):
                layers[name] = [
                    self._layer(weight[stack], bias[stack, 0]) for weight, bias in group
                ]
        weight, bias = places.value
        layers["policy_net"].append(self._layer(*places.action))
        layers["value_net"].append(self._layer(weight[:, None], bias))
        self.actor = _Tower(layers["policy_net"], relu=architecture.relu)
        self.critic = _Tower(layers["value_net"], relu=architecture.relu)
        self._acting = (
            [(layer.weight.numpy(), layer.bias.numpy()) for layer in layers["policy_net"]]
            if self.parameters.device.type == "cpu"
            else []
        )
        self.log_std, self.by_log_std = (
            _view(matrix, places.log_std).unsqueeze(1)
            for matrix in (self.parameters, self.gradient)
        )

    def act(self, features: Array) -> Array:
        """Evaluates only the actors, on the CPU, in NumPy: for a step it has less overhead.

        Args:
            features: Shape (seeds, batch, features).

        Returns:
            Logits or means, shape (seeds, batch, outputs), a new array.
        """
        x = features
        for depth, (weight, bias) in enumerate(self._acting):
            if depth:
                if self.architecture.relu:
                    np.maximum(x, 0, out=x)
                else:
                    np.tanh(x, out=x)
            x = np.matmul(x, weight)
            x += bias
        return x

    def _layer(self, weight: Array, bias: Array) -> _Layer:
        """Returns a layer from the places of its parameters in a row."""
        both = self.parameters, self.gradient
        weights = [_view(matrix, weight) for matrix in both]
        biases = [_view(matrix, bias).unsqueeze(1) for matrix in both]
        return _Layer(weights[0], biases[0], weights[1], biases[1])


def _view(matrix: th.Tensor, places: Array) -> th.Tensor:
    """Returns a view of some columns of a matrix.

    Args:
        matrix: Shape (seeds, size).
        places: Consecutive columns, in the shape of a parameter.
    """
    start = int(places.flat[0]) if places.size else 0
    return matrix[:, start : start + places.size].view(len(matrix), *places.shape)


class StackedGaussian:
    """Normal distributions of all seeds' actions; see `imitbench.rl.actor_critic.Head`.

    Args:
        network: Its outputs are the means.
    """

    def __init__(self, network: StackedActorCritic) -> None:
        self._network = network
        self._dims = network.architecture.outputs

    def sample(self, outputs: Array, generators: Sequence[th.Generator]) -> Array:
        """Samples actions; each seed draws from its generator what it would draw alone."""
        noise = th.empty(outputs.shape)
        for own, generator in zip(noise.unbind(), generators, strict=True):
            own.normal_(generator=generator)
        return np.asarray(outputs + noise.numpy() * np.exp(self._network.log_std.numpy()))

    def log_prob(self, outputs: th.Tensor, encoded: th.Tensor) -> th.Tensor:
        """Log-probabilities of encoded actions, shape (seeds, batch); kept for `backward`."""
        log_std = self._network.log_std
        self._precision = log_std.neg().exp_()
        self._z = th.sub(encoded, outputs).mul_(self._precision)
        self._squares = self._z.square()
        constant = log_std.sum(dim=2) + self._dims * _HALF_LOG_TAU
        return self._squares.sum(dim=2).mul_(-0.5).sub_(constant)

    def backward(self, by_log_prob: th.Tensor, by_entropy: float) -> th.Tensor:
        """Derivative of each seed's loss by its outputs; that by the deviations is written.

        Args:
            by_log_prob: Derivative by each log-probability, shape (seeds, batch).
            by_entropy: Derivative by each entropy.
        """
        by_deviations = th.bmm(by_log_prob.unsqueeze(1), self._squares)
        by_deviations -= by_log_prob.sum(dim=1)[:, None, None]
        by_deviations += by_entropy * by_log_prob.shape[1]
        self._network.by_log_std.copy_(by_deviations)
        return self._z.mul_(by_log_prob.unsqueeze(2)).mul_(self._precision)


class StackedCategorical:
    """Distributions of all seeds' discrete actions; see `imitbench.rl.actor_critic.Head`."""

    def sample(self, outputs: Array, generators: Sequence[th.Generator]) -> Array:
        """Samples actions; each seed draws from its generator what it would draw alone."""
        probs = np.exp(outputs - outputs.max(axis=2, keepdims=True))
        probs /= probs.sum(axis=2, keepdims=True)
        clocks = th.empty(outputs.shape)
        for own, generator in zip(clocks.unbind(), generators, strict=True):
            own.exponential_(generator=generator)
        return np.asarray((probs / clocks.numpy()).argmax(axis=2))

    def log_prob(self, outputs: th.Tensor, encoded: th.Tensor) -> th.Tensor:
        """Log-probabilities of encoded actions, shape (seeds, batch); kept for `backward`."""
        self._encoded = encoded
        self._log_probs = outputs.log_softmax(dim=2)
        return (self._log_probs * encoded).sum(dim=2)

    def backward(self, by_log_prob: th.Tensor, by_entropy: float) -> th.Tensor:
        """Derivative of each seed's loss by its outputs; arguments as of `StackedGaussian`."""
        probs = self._log_probs.exp()
        gradient = (self._encoded - probs).mul_(by_log_prob.unsqueeze(2))
        if by_entropy:
            weighted = probs * self._log_probs
            # dH/dz = -p (log p + H)
            gradient -= by_entropy * (weighted - probs * weighted.sum(dim=2, keepdim=True))
        return gradient


StackedHead = StackedGaussian | StackedCategorical


def make_stacked_head(network: StackedActorCritic) -> StackedHead:
    """Returns the distributions of all seeds' actions."""
    return StackedGaussian(network) if network.architecture.gaussian else StackedCategorical()
