"""Normalization layers, and builders of small networks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast

import torch as th
from torch import nn
from torch.nn.utils import parametrizations, parametrize


@contextmanager
def training_mode(m: nn.Module, mode: bool = False) -> Iterator[nn.Module]:
    """Sets a module to training or evaluation mode, and restores its mode on exit.

    Args:
        m: The module.
        mode: `True` for training.

    Yields:
        The module.
    """
    # Saved for each submodule: one may be in evaluation mode inside a module in training mode.
    changed = [part for part in m.modules() if part.training is not mode]
    for part in changed:
        part.training = mode
    try:
        yield m
    finally:
        for part in changed:
            part.training = not mode


def training(m: nn.Module, *, mode: bool = True) -> AbstractContextManager[nn.Module]:
    """Sets a module to training mode, or to `mode`, within a `with` block."""
    return training_mode(m, mode)


def evaluating(m: nn.Module, *, mode: bool = False) -> AbstractContextManager[nn.Module]:
    """Sets a module to evaluation mode, or to `mode`, within a `with` block."""
    return training_mode(m, mode)


class SqueezeLayer(nn.Module):
    """Reshapes a batch from (batch, 1) to (batch,)."""

    def forward(self, x: th.Tensor) -> th.Tensor:
        """Drops the last dimension.

        Args:
            x: Shape (batch, 1).

        Returns:
            Shape (batch,).
        """
        if x.ndim != 2 or x.shape[1] != 1:
            raise ValueError(f"x has shape {tuple(x.shape)}; it needs (batch, 1)")
        return x.squeeze(1)


class BaseNorm(nn.Module, ABC):
    """Normalizes inputs to mean 0 and variance 1 by running statistics.

    Statistics are updated only in training mode, before the batch is normalized.

    Args:
        num_features: Length of the last dimension.
        eps: Added to the variance.

    Attributes:
        fixed: Whether statistics are not updated in training mode either. It is not saved.
    """

    running_mean: th.Tensor
    running_var: th.Tensor
    count: th.Tensor

    def __init__(self, num_features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.fixed = False
        self.register_buffer("running_mean", th.zeros(num_features))
        self.register_buffer("running_var", th.ones(num_features))
        self.register_buffer("count", th.zeros((), dtype=th.int))

    def reset_running_stats(self) -> None:
        """Resets the statistics; the layer is then the identity (up to `eps`)."""
        self.running_mean.zero_()
        self.running_var.fill_(1.0)
        self.count.zero_()

    def forward(self, x: th.Tensor) -> th.Tensor:
        """Updates statistics in training mode, then normalizes.

        Args:
            x: Shape (batch, num_features).

        Returns:
            The same shape.
        """
        # An empty batch has no variance.
        if self.training and not self.fixed and len(x) > 0:
            with th.no_grad():
                self.update_stats(x)
        return (x - self.running_mean) * th.rsqrt(self.running_var + self.eps)

    @abstractmethod
    def update_stats(self, batch: th.Tensor) -> None:
        """Adds a batch to the statistics, shape (batch, num_features)."""


def _moments(batch: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
    """Returns mean and variance of each feature, several times faster than `torch.var_mean`."""
    mean = batch.mean(dim=0)
    return mean, (batch - mean).square().mean(dim=0)


class RunningNorm(BaseNorm):
    """Normalizes by the mean and variance of all samples so far, with equal weights.

    Source: Chan, Golub and LeVeque 1979, "Updating Formulae and a Pairwise Algorithm for
    Computing Sample Variances".
    """

    def update_stats(self, batch: th.Tensor) -> None:
        """Adds a batch to the statistics; exact for any split of the data into batches."""
        self.merge(*_moments(batch), batch.shape[0])

    def merge(self, batch_mean: th.Tensor, batch_var: th.Tensor, number: int) -> None:
        """Adds samples to the statistics, given only their moments.

        Args:
            batch_mean: Mean of the samples, shape (num_features,).
            batch_var: Variance of the samples, shape (num_features,).
            number: Number of samples.
        """
        if number == 0:
            return
        # Assigning to attributes of a module is slower than this arithmetic.
        mean, var, count = self.running_mean, self.running_var, self.count
        delta = batch_mean - mean
        total = count + number
        share = number / total
        mean += delta * share
        # Weighted variances within both sets of samples, plus the variance of their means.
        var += share * (batch_var - var + (count / total) * delta.square())
        count += number


class EMANorm(BaseNorm):
    """Normalizes by exponentially weighted statistics.

    Args:
        num_features: Length of the last dimension.
        decay: Factor of all earlier weights at each new sample, in (0, 1).
        eps: Added to the variance.

    Raises:
        ValueError: `decay` is out of range.

    Source: Finch 2009, "Incremental calculation of weighted mean and variance", §9, in batches:
    the samples of a batch share its weight equally.
    """

    inv_learning_rate: th.Tensor
    num_batches: th.Tensor

    def __init__(self, num_features: int, decay: float = 0.99, eps: float = 1e-5) -> None:
        super().__init__(num_features, eps)
        if not 0 < decay < 1:
            raise ValueError(f"decay must lie in (0, 1), not {decay}")
        self.decay = decay
        self.register_buffer("inv_learning_rate", th.zeros(()))
        self.register_buffer("num_batches", th.zeros((), dtype=th.int))

    def reset_running_stats(self) -> None:
        """Resets the statistics."""
        super().reset_running_stats()
        self.inv_learning_rate.zero_()
        self.num_batches.zero_()

    def update_stats(self, batch: th.Tensor) -> None:
        """Adds a batch to the statistics."""
        # The weights of all batches sum to inv_learning_rate, so that its inverse is the weight of
        # the latest batch; this corrects the bias of the first batches.
        self.inv_learning_rate += self.decay**self.num_batches
        share = 1 / self.inv_learning_rate
        batch_mean, batch_var = _moments(batch)
        delta = batch_mean - self.running_mean
        if self.num_batches == 0:
            self.running_mean.copy_(batch_mean)
            self.running_var.copy_(batch_var)
        else:
            self.running_mean += share * delta
            self.running_var += share * (
                batch_var - self.running_var + (1 - share) * delta.square()
            )
        self.count += batch.shape[0]
        self.num_batches += 1


class _Factor(nn.Module):
    """Weights that are multiplied by a number when they are used."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, weight: th.Tensor) -> th.Tensor:
        return weight * self.factor

    def right_inverse(self, weight: th.Tensor) -> th.Tensor:
        return weight / self.factor


def build_mlp(
    in_size: int,
    hid_sizes: Iterable[int],
    out_size: int = 1,
    name: str | None = None,
    activation: type[nn.Module] = nn.ReLU,
    dropout_prob: float = 0.0,
    squeeze_output: bool = False,
    flatten_input: bool = False,
    normalize_input_layer: type[nn.Module] | None = None,
    spectral_norm: bool = False,
    lipschitz: float = 1.0,
) -> nn.Sequential:
    """Builds a multi-layer perceptron.

    Args:
        in_size: Length of an input vector.
        hid_sizes: Sizes of the hidden layers.
        out_size: Length of an output vector.
        name: Prefix of the layers' names.
        activation: Non-linearity after each hidden layer.
        dropout_prob: Dropout after each hidden layer; 0 for none.
        squeeze_output: Whether the output has shape (batch,) instead of (batch, 1).
        flatten_input: Whether inputs are flattened first.
        normalize_input_layer: Layer class applied to the input, built from `in_size`.
        spectral_norm: Whether weights are divided by their largest singular value (Miyato et al.
            2018, "Spectral Normalization for Generative Adversarial Networks").
        lipschitz: With spectral normalization, the factor of the last layer's weights: an upper
            bound of the Lipschitz constant of what follows `normalize_input_layer`, if the
            activation has slopes of at most 1 (Gouk et al. 2021, "Regularisation of Neural
            Networks by Enforcing Lipschitz Continuity").

    Raises:
        ValueError: `squeeze_output` with more than one output, `lipschitz` without
            `spectral_norm`, or `normalize_input_layer` cannot be built from `in_size`.
    """
    if squeeze_output and out_size != 1:
        raise ValueError(f"squeeze_output needs out_size 1, not {out_size}")
    if lipschitz != 1.0 and not spectral_norm:
        raise ValueError("lipschitz needs spectral_norm=True")
    prefix = f"{name}_" if name is not None else ""

    def linear(inputs: int, outputs: int, factor: float = 1.0) -> nn.Module:
        if spectral_norm:
            return _normalized_linear(inputs, outputs, factor)
        return nn.Linear(inputs, outputs)

    layers: OrderedDict[str, nn.Module] = OrderedDict()
    if flatten_input:
        layers[f"{prefix}flatten"] = nn.Flatten()
    if normalize_input_layer is not None:
        layers[f"{prefix}normalize_input"] = _normalizer(normalize_input_layer, in_size)
    width = in_size
    for index, size in enumerate(hid_sizes):
        layers[f"{prefix}dense{index}"] = linear(width, size)
        layers[f"{prefix}act{index}"] = activation()
        if dropout_prob > 0.0:
            layers[f"{prefix}dropout{index}"] = nn.Dropout(dropout_prob)
        width = size
    layers[f"{prefix}dense_final"] = linear(width, out_size, lipschitz)
    if squeeze_output:
        layers[f"{prefix}squeeze"] = SqueezeLayer()
    return nn.Sequential(layers)


def _normalized_linear(inputs: int, outputs: int, factor: float) -> nn.Module:
    """Returns a layer whose weights are divided by their largest singular value when it is used.

    On the meta device, torch would import its compiler, a thousand modules, for the power iteration
    that estimates the value. A layer there is not used, so it gets shapes without an iteration.

    Args:
        inputs: Length of an input.
        outputs: Length of an output.
        factor: Number by which the weights are multiplied then.
    """
    layer = nn.Linear(inputs, outputs)
    if not layer.weight.is_meta:
        made = parametrizations.spectral_norm(layer)
        if factor != 1.0:
            parametrize.register_parametrization(made, "weight", _Factor(factor))
        return made
    with th.random.fork_rng(devices=[]), th.device("cpu"):
        small: Any = parametrizations.spectral_norm(nn.Linear(1, 1))
    small.in_features, small.out_features, small.bias = inputs, outputs, layer.bias
    steps = small.parametrizations.weight
    steps.original = layer.weight
    steps[0]._u, steps[0]._v = layer.weight.new_empty(outputs), layer.weight.new_empty(inputs)
    if factor != 1.0:
        steps.append(_Factor(factor))
    return cast(nn.Module, small)


def _normalizer(layer: type[nn.Module], in_size: int) -> nn.Module:
    try:
        return layer(in_size)
    except TypeError as error:
        raise ValueError(
            f"normalize_input_layer: {layer!r} cannot be built from in_size alone: {error}"
        ) from error


def build_cnn(
    in_channels: int,
    hid_channels: Iterable[int],
    out_size: int = 1,
    name: str | None = None,
    activation: type[nn.Module] = nn.ReLU,
    kernel_size: int = 3,
    stride: int = 1,
    padding: int | str = "same",
    dropout_prob: float = 0.0,
    squeeze_output: bool = False,
) -> nn.Sequential:
    """Builds a convolutional network with average pooling before its last layer.

    Args:
        in_channels: Channels of the image, shape (batch, channels, height, width).
        hid_channels: Channels after each convolution.
        out_size: Length of an output vector.
        name: Prefix of the layers' names.
        activation: Non-linearity after each convolution.
        kernel_size: Height and width of each kernel.
        stride: Stride of each convolution.
        padding: Padding of each convolution.
        dropout_prob: Dropout after each convolution; 0 for none.
        squeeze_output: Whether the output has shape (batch,) instead of (batch, 1).

    Raises:
        ValueError: `squeeze_output` with more than one output.
    """
    if squeeze_output and out_size != 1:
        raise ValueError(f"squeeze_output needs out_size 1, not {out_size}")
    prefix = f"{name}_" if name is not None else ""
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    channels = in_channels
    for index, size in enumerate(hid_channels):
        layers[f"{prefix}conv{index}"] = nn.Conv2d(
            channels, size, kernel_size, stride=stride, padding=padding
        )
        layers[f"{prefix}act{index}"] = activation()
        if dropout_prob > 0.0:
            layers[f"{prefix}dropout{index}"] = nn.Dropout(dropout_prob)
        channels = size
    layers[f"{prefix}avg_pool"] = nn.AdaptiveAvgPool2d(1)
    layers[f"{prefix}flatten"] = nn.Flatten()
    layers[f"{prefix}dense_final"] = nn.Linear(channels, out_size)
    if squeeze_output:
        layers[f"{prefix}squeeze"] = SqueezeLayer()
    return nn.Sequential(layers)
