"""Actor-critic networks with explicit forward and backward passes.

For layers of 64 units and batches of 64, training frameworks spend most of the time on overhead
around matrix products of a few microseconds. Here, memory for intermediate results is allocated
once, actor and critic of equal shape share each operation, and all parameters are views of one
vector. `imitbench.rl.mlp` is the engine for larger batches.

A head is the distribution over actions: sampling, log-probabilities and gradients.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch as th

Array = npt.NDArray[Any]
Layer = tuple[Array, Array]
_HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True)
class Architecture:
    """Architecture of an actor and a critic with the same features.

    Attributes:
        features: Number of features.
        actor: Sizes of the actor's hidden layers.
        critic: Sizes of the critic's hidden layers.
        outputs: Number of logits or means.
        gaussian: Whether the outputs are means; the standard deviations are parameters.
        relu: Whether activations are ReLU; otherwise Tanh.
    """

    features: int
    actor: tuple[int, ...]
    critic: tuple[int, ...]
    outputs: int
    gaussian: bool
    relu: bool

    @property
    def towers(self) -> tuple[tuple[str, ...], ...]:
        """Groups of hidden stacks that share each operation, by name."""
        return (
            (("policy_net", "value_net"),)
            if self.actor == self.critic
            else (("policy_net",), ("value_net",))
        )

    def widths(self, tower: str) -> tuple[int, ...]:
        """Returns the sizes of a stack's layers, from the features to the last hidden layer."""
        return (self.features, *(self.actor if tower == "policy_net" else self.critic))

    @property
    def size(self) -> int:
        """Number of parameters."""
        hidden = sum(
            (before + 1) * after
            for names in self.towers
            for name in names
            for before, after in pairwise(self.widths(name))
        )
        heads = (self.widths("policy_net")[-1] + 1) * self.outputs
        heads += self.widths("value_net")[-1] + 1
        return hidden + heads + self.gaussian * self.outputs


class Parameters:
    """The parameters of a network, or their gradient, as views of one vector.

    Args:
        architecture: Architecture of the network.
        vector: Shape (architecture.size,); the views share its memory.

    Attributes:
        vector: Shape (architecture.size,).
        towers: For each group of stacks, the weights, shape (stacks, inputs, outputs), and
            biases, shape (stacks, 1, outputs), of its layers.
        action: Weight, shape (inputs, outputs), and bias of the actor's last layer.
        value: Weight, shape (inputs,), and bias, shape (1,), of the critic's last layer.
        log_std: Logarithms of the standard deviations, shape (outputs,); empty if there are
            none.
        named: All parameters with the names and shapes of an `ActorCriticPolicy`.
    """

    def __init__(self, architecture: Architecture, vector: Array) -> None:
        self.vector = vector
        self.named: dict[str, Array] = {}
        self._used = 0
        self.towers: list[list[Layer]] = []
        for names in architecture.towers:
            layers = []
            for depth, shape in enumerate(pairwise(architecture.widths(names[0]))):
                weight = self._take(len(names), *shape)
                bias = self._take(len(names), 1, shape[1])
                layers.append((weight, bias))
                for stack, name in enumerate(names):
                    # Linear layers have even indices, because an activation follows each.
                    prefix = f"mlp_extractor.{name}.{2 * depth}"
                    self.named[f"{prefix}.weight"] = weight[stack].T
                    self.named[f"{prefix}.bias"] = bias[stack, 0]
            self.towers.append(layers)
        width = architecture.widths("policy_net")[-1]
        self.action = self._take(width, architecture.outputs), self._take(architecture.outputs)
        self.value = self._take(architecture.widths("value_net")[-1]), self._take(1)
        self.log_std = self._take(architecture.outputs * architecture.gaussian)
        self.named["action_net.weight"] = self.action[0].T
        self.named["action_net.bias"] = self.action[1]
        self.named["value_net.weight"] = self.value[0][None]
        self.named["value_net.bias"] = self.value[1]
        if architecture.gaussian:
            self.named["log_std"] = self.log_std

    def _take(self, *shape: int) -> Array:
        size = int(np.prod(shape))
        self._used += size
        return self.vector[self._used - size : self._used].reshape(shape)

    def load(self, named: Mapping[str, Array]) -> None:
        """Copies parameters from arrays, by name."""
        for name, view in self.named.items():
            view[...] = named[name]

    def store(self, named: Mapping[str, Array]) -> None:
        """Copies the parameters to arrays with the same names."""
        for name, view in self.named.items():
            named[name][...] = view


class _Layer:
    """A layer of one or two stacks: parameters, gradient, and buffers for a batch's results.

    Matrix products use torch, whose number of threads can be set at run time: for matrices of
    this size, a second thread makes them slower. Other operations use NumPy, which has less
    overhead. Both share the memory.
    """

    def __init__(self, parameters: Layer, gradient: Layer, batch: int) -> None:
        weight, bias = (th.from_numpy(parameter) for parameter in parameters)
        self.weight, self.bias = weight, bias
        self.weight_t = weight.transpose(1, 2)
        self.by_weight = th.from_numpy(gradient[0])
        self.by_bias = th.from_numpy(gradient[1])
        shape = (len(weight), batch, weight.shape[2])
        self.hidden, self.delta, self.slope = (
            np.empty(shape, parameters[0].dtype) for _ in range(3)
        )
        self.out, self.by_out = th.from_numpy(self.hidden), th.from_numpy(self.delta)
        self.out_t = self.out.transpose(1, 2)


class _Workspace:
    """Buffers for batches of one size."""

    def __init__(self, network: ActorCritic, batch: int) -> None:
        self.towers = [
            [_Layer(*both, batch) for both in zip(*layers, strict=True)]
            for layers in zip(network.parameters.towers, network.gradient.towers, strict=True)
        ]
        self.actor = self.towers[0][-1] if self.towers[0] else None
        self.critic = self.towers[-1][-1] if self.towers[-1] else None


class ActorCritic:
    """An actor and a critic.

    Args:
        architecture: Layers and activations.
        dtype: Data type of parameters and results.

    Attributes:
        architecture: Layers and activations.
        parameters: The parameters; initially zero.
        gradient: Result of `backward`.
    """

    def __init__(self, architecture: Architecture, dtype: npt.DTypeLike = np.float32) -> None:
        self.architecture = architecture
        self.dtype = np.dtype(dtype)
        self.parameters = Parameters(architecture, np.zeros(architecture.size, dtype))
        self.gradient = Parameters(architecture, np.zeros(architecture.size, dtype))
        self._workspaces: dict[int, _Workspace] = {}
        self._heads, self._by_heads = (
            [th.from_numpy(array) for array in (*which.action, *which.value)]
            for which in (self.parameters, self.gradient)
        )
        self._actor = [
            (th.from_numpy(weight[0]), th.from_numpy(bias[0]))
            for weight, bias in self.parameters.towers[0]
        ]

    def act(self, features: Array) -> Array:
        """Evaluates only the actor.

        Args:
            features: Shape (batch, features).

        Returns:
            Logits or means, shape (batch, outputs), a new array.
        """
        x = th.from_numpy(features)
        for weight, bias in self._actor:
            x = th.addmm(bias, x, weight)
            self._activate(x.numpy())
        weight, bias, _, _ = self._heads
        return np.asarray(th.addmm(bias, x, weight).numpy())

    def evaluate(self, features: Array, rows: int = 512) -> tuple[Array, Array]:
        """Evaluates actor and critic on any number of observations.

        Args:
            features: Shape (n, features).
            rows: Batch size; small enough that intermediate results stay in the CPU's cache.

        Returns:
            See `forward`.
        """
        outputs = np.empty((len(features), self.architecture.outputs), self.dtype)
        values = np.empty(len(features), self.dtype)
        for start in range(0, len(features), rows):
            part = slice(start, start + rows)
            outputs[part], values[part] = self.forward(features[part])
        return outputs, values

    def forward(self, features: Array) -> tuple[Array, Array]:
        """Evaluates actor and critic, and keeps intermediate results for `backward`.

        Args:
            features: Shape (batch, features).

        Returns:
            Logits or means, shape (batch, outputs), and values, shape (batch,); new arrays.
        """
        space = self._workspace(len(features))
        inputs = th.from_numpy(features)
        for layers in space.towers:
            x = inputs
            for layer in layers:
                if x is inputs:
                    x = inputs.expand(len(layer.weight), -1, -1)
                th.baddbmm(layer.bias, x, layer.weight, out=layer.out)
                self._activate(layer.hidden)
                x = layer.out
        actor, critic = self._last_hidden(space, inputs)
        weight, bias, value_weight, value_bias = self._heads
        output = th.addmm(bias, actor, weight)
        values = th.addmv(value_bias, critic, value_weight)
        return np.asarray(output.numpy()), np.asarray(values.numpy())

    def backward(self, features: Array, by_output: Array, by_values: Array) -> None:
        """Computes the gradient of a loss for the parameters of both networks, except `log_std`.

        Args:
            features: Argument of the last call of `forward`.
            by_output: Derivative of the loss by the actor's output, shape (batch, outputs).
            by_values: Derivative of the loss by the values, shape (batch,).
        """
        space = self._workspace(len(features))
        inputs = th.from_numpy(features)
        actor, critic = self._last_hidden(space, inputs)
        by_actor, by_critic = th.from_numpy(by_output), th.from_numpy(by_values)
        by_weight, _, by_value_weight, _ = self._by_heads
        th.mm(actor.t(), by_actor, out=by_weight)
        np.add.reduce(by_output, axis=0, out=self.gradient.action[1])
        th.mv(critic.t(), by_critic, out=by_value_weight)
        np.add.reduce(by_values, keepdims=True, out=self.gradient.value[1])
        if space.actor is not None:
            th.mm(by_actor, self._heads[0].t(), out=space.actor.by_out[0])
        if space.critic is not None:
            np.multiply(by_values[:, None], self.parameters.value[0], out=space.critic.delta[-1])
        for layers in space.towers:
            self._backward_through(layers, inputs)

    def _backward_through(self, layers: list[_Layer], inputs: th.Tensor) -> None:
        for depth in range(len(layers) - 1, -1, -1):
            layer = layers[depth]
            self._differentiate(layer.hidden, layer.slope)
            layer.delta *= layer.slope
            if depth > 0:
                before = layers[depth - 1]
                th.bmm(before.out_t, layer.by_out, out=layer.by_weight)
                th.bmm(layer.by_out, layer.weight_t, out=before.by_out)
            else:
                transposed = inputs.t().expand(len(layer.weight), -1, -1)
                th.bmm(transposed, layer.by_out, out=layer.by_weight)
            th.sum(layer.by_out, dim=1, keepdim=True, out=layer.by_bias)

    def _last_hidden(self, space: _Workspace, inputs: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        actor = inputs if space.actor is None else space.actor.out[0]
        critic = inputs if space.critic is None else space.critic.out[-1]
        return actor, critic

    def _activate(self, x: Array) -> None:
        if self.architecture.relu:
            np.maximum(x, 0, out=x)
        else:
            np.tanh(x, out=x)

    def _differentiate(self, activated: Array, out: Array) -> None:
        """Writes the activation's derivative, given its result."""
        if self.architecture.relu:
            np.sign(activated, out=out)
        else:
            np.multiply(activated, activated, out=out)
            np.subtract(1, out, out=out)

    def _workspace(self, batch: int) -> _Workspace:
        space = self._workspaces.get(batch)
        if space is None:
            space = self._workspaces[batch] = _Workspace(self, batch)
        return space


class Head(Protocol):
    """A distribution over actions, parameterized by the outputs of an actor."""

    def sample(self, outputs: Array) -> Array:
        """Samples the same actions as torch's distributions, from torch's global generator."""

    def encode(self, actions: Array) -> Array:
        """Encodes actions, shape (n, …), as a matrix, shape (n, outputs), of the network's type."""

    def log_prob(self, outputs: Array, encoded: Array) -> tuple[Array, Array]:
        """Evaluates actions, and keeps intermediate results for `backward`.

        Args:
            outputs: Shape (n, outputs).
            encoded: Result of `encode`.

        Returns:
            Log-probabilities and entropies, each shape (n,).
        """

    def backward(self, by_log_prob: Array, by_entropy: float) -> Array:
        """Computes the derivative of a loss, after `log_prob` for the same batch.

        Args:
            by_log_prob: Derivative of the loss by each log-probability, shape (n,).
            by_entropy: Derivative of the loss by each entropy.

        Returns:
            Derivative by the outputs, shape (n, outputs). The derivative by the standard
            deviations is written to the network's gradient.
        """


def make_head(network: ActorCritic) -> Head:
    """Returns the distribution of a network's actions."""
    return _Gaussian(network) if network.architecture.gaussian else _Categorical(network)


class _Categorical:
    def __init__(self, network: ActorCritic) -> None:
        self._dtype = network.dtype
        self._choices = network.architecture.outputs

    def sample(self, outputs: Array) -> Array:
        probs = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        probs /= probs.sum(axis=1, keepdims=True)
        # The exponential race that torch.multinomial uses for a single sample.
        clocks = th.empty(probs.shape, dtype=th.float32).exponential_()
        return np.asarray((probs / clocks.numpy()).argmax(axis=1))

    def encode(self, actions: Array) -> Array:
        chosen = actions.reshape(-1, 1).astype(np.int64)
        return np.asarray(chosen == np.arange(self._choices), dtype=self._dtype)

    def log_prob(self, outputs: Array, encoded: Array) -> tuple[Array, Array]:
        log_probs = outputs - np.maximum.reduce(outputs, axis=1, keepdims=True)
        probs = np.exp(log_probs)
        total = np.add.reduce(probs, axis=1, keepdims=True)
        probs /= total
        log_probs -= np.log(total)
        weighted = probs * log_probs
        entropy = -np.add.reduce(weighted, axis=1)
        self._kept = encoded, probs, weighted, entropy
        log_probs *= encoded
        return np.add.reduce(log_probs, axis=1), entropy

    def backward(self, by_log_prob: Array, by_entropy: float) -> Array:
        encoded, probs, weighted, entropy = self._kept
        gradient: Array = encoded - probs
        gradient *= by_log_prob[:, None]
        if by_entropy:
            # dH/dz = -p (log p + H)
            gradient -= by_entropy * (weighted + probs * entropy[:, None])
        return gradient


class _Gaussian:
    def __init__(self, network: ActorCritic) -> None:
        self._dtype = network.dtype
        self._dims = network.architecture.outputs
        self._log_std = network.parameters.log_std
        self._by_log_std = network.gradient.log_std

    def sample(self, outputs: Array) -> Array:
        noise = th.empty(outputs.shape, dtype=th.float32).normal_().numpy()
        return np.asarray(outputs + noise * np.exp(self._log_std))

    def encode(self, actions: Array) -> Array:
        return actions.reshape(len(actions), self._dims).astype(self._dtype, copy=False)

    def log_prob(self, outputs: Array, encoded: Array) -> tuple[Array, Array]:
        precision = np.exp(-self._log_std)
        z = encoded - outputs
        z *= precision
        squares = z * z
        constant = float(self._log_std.sum()) + self._dims * _HALF_LOG_TAU
        log_prob = np.add.reduce(squares, axis=1)
        log_prob *= -0.5
        log_prob -= constant
        self._kept = z, squares, precision
        return log_prob, np.full(len(outputs), constant + 0.5 * self._dims, self._dtype)

    def backward(self, by_log_prob: Array, by_entropy: float) -> Array:
        z, squares, precision = self._kept
        np.einsum("i,ij->j", by_log_prob, squares, out=self._by_log_std)
        self._by_log_std += by_entropy * len(z) - by_log_prob.sum()
        z *= by_log_prob[:, None]
        z *= precision
        return z
