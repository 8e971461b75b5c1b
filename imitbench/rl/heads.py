"""What a network's outputs say about actions: sampling, log-probabilities and gradients."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch as th

from imitbench.rl.network import Network

Array = npt.NDArray[Any]
_HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


class Head(Protocol):
    """A distribution of actions given by the outputs of an actor."""

    def sample(self, outputs: Array) -> Array:
        """Draws actions, from torch's global generator just as torch's distributions do."""

    def encode(self, actions: Array) -> Array:
        """Writes actions, shape (n, …), as a matrix, shape (n, outputs), of the network's type."""

    def log_prob(self, outputs: Array, encoded: Array) -> tuple[Array, Array]:
        """Evaluates actions and remembers what `backward` needs.

        Args:
            outputs: Shape (n, outputs).
            encoded: Actions, as `encode` gives them.

        Returns:
            Log-probabilities and entropies, each shape (n,).
        """

    def backward(self, by_log_prob: Array, by_entropy: float) -> Array:
        """Differentiates a loss; `log_prob` was called for the same batch.

        Args:
            by_log_prob: Derivative of the loss by each log-probability, shape (n,).
            by_entropy: Derivative of the loss by each entropy.

        Returns:
            Derivative by the outputs, shape (n, outputs). That by the standard deviations goes
            into the network's gradient.
        """


def make_head(network: Network) -> Head:
    """The distribution that a network's outputs are for."""
    return _Gaussian(network) if network.architecture.gaussian else _Categorical(network)


class _Categorical:
    def __init__(self, network: Network) -> None:
        self._dtype = network.dtype
        self._choices = network.architecture.outputs

    def sample(self, outputs: Array) -> Array:
        probs = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        probs /= probs.sum(axis=1, keepdims=True)
        # The race of exponential clocks that torch.multinomial runs for a single draw.
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
    def __init__(self, network: Network) -> None:
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
