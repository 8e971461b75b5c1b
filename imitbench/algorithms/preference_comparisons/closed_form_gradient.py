"""The cross-entropy gradient of a perceptron's preferences, in closed form.

Up to rounding, it is the gradient of `CrossEntropyRewardLoss` on a `PreferenceModel`, without a
graph and in fewer passes over memory. A return is a sum of rewards and the last layer is linear, so
hidden units can be summed over a fragment's steps before it: `sum_t (w·h_t + b) = w·(sum_t h_t) + T
b`.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch as th
from scipy import special
from torch import nn

from imitbench.algorithms.preference_comparisons.fragment_batch import (
    FragmentBatch,
    FragmentPairs,
    JoinedSteps,
    discounts,
)
from imitbench.algorithms.preference_comparisons.preference_model import (
    CrossEntropyRewardLoss,
    PreferenceModel,
    RewardLoss,
    check_finite,
)
from imitbench.rewards.reward_nets import BasicRewardNet, NormalizedRewardNet
from imitbench.rl.mlp import Mlp, Stack, product, stack_of
from imitbench.util.networks import BaseNorm, SqueezeLayer

Array = npt.NDArray[Any]

# Largest number of elements for which a whole dataset is encoded in advance.
_LARGEST_ENCODED = 2**26
# Largest number of inputs for which MKL computes a weight's gradient faster transposed.
_NARROW = 8


def closed_form_gradient(
    loss: RewardLoss, preference_model: PreferenceModel, pairs: FragmentPairs
) -> ClosedFormGradient | None:
    """Returns the fast gradient if it applies.

    Args:
        loss: Loss of the reward trainer.
        preference_model: Model to train.
        pairs: All pairs of fragments; batches are parts of it.

    Returns:
        `None` unless loss, model and network are exactly `CrossEntropyRewardLoss`,
        `PreferenceModel` and `BasicRewardNet` (perhaps in a `NormalizedRewardNet`) without hooks,
        all parameters are float32 on the CPU and trainable, and all fragments have the same length.
    """
    if type(loss) is not CrossEntropyRewardLoss or type(preference_model) is not PreferenceModel:
        return None
    if any(_is_hooked(module) for module in (loss, *preference_model.modules())):
        return None
    net = preference_model.model
    while type(net) is NormalizedRewardNet:  # its normalization is only for policies
        net = net.base
    length = pairs.common_length
    plain = _plain_layers(net)
    if plain is None or length is None:
        return None
    normalize, stack = plain
    own = {id(parameter) for layer in stack.layers for parameter in (layer.weight, layer.bias)}
    for parameter in preference_model.parameters():
        is_usual = parameter.dtype == th.float32 and parameter.device.type == "cpu"
        if id(parameter) not in own or not is_usual or not parameter.requires_grad:
            return None
    return ClosedFormGradient(preference_model, cast(BasicRewardNet, net), normalize, stack, length)


def _is_hooked(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks)


def _plain_layers(net: nn.Module) -> tuple[BaseNorm | None, Stack] | None:
    """The layers of a perceptron: the normalizing one, or `None`, and the others."""
    if type(net) is not BasicRewardNet or type(net.mlp) is not nn.Sequential:
        return None
    modules = list(net.mlp)
    last = modules.pop()
    normalize = modules.pop(0) if isinstance(modules[0], BaseNorm) else None
    stack = stack_of(modules)
    if stack is None or stack.activate_last or type(last) is not SqueezeLayer:
        return None
    return cast("BaseNorm | None", normalize), stack


class ClosedFormGradient:
    """Adds the gradient of the loss on a batch to `grad` of the parameters.

    Args:
        preference_model: A model of one network.
        net: The network of `preference_model`.
        normalize: Layer that normalizes the inputs, or `None`.
        stack: The other layers of `net`.
        length: Steps of each fragment.
    """

    def __init__(
        self,
        preference_model: PreferenceModel,
        net: BasicRewardNet,
        normalize: BaseNorm | None,
        stack: Stack,
        length: int,
    ) -> None:
        self._model = preference_model
        self._net = net
        self._normalize = normalize
        self._tanh = stack.tanh
        self._hidden = Mlp(Stack(stack.layers[:-1], stack.tanh, activate_last=True))
        self._length = length
        self._features = stack.layers[0].in_features
        self._parameters = [layer.weight for layer in stack.layers]
        self._parameters += [layer.bias for layer in stack.layers]
        self._weights = [layer.weight.detach() for layer in stack.layers]
        self._last_bias = stack.layers[-1].bias.detach()
        gamma = preference_model.discount_factor
        # Weight of each step in a return; `None` if all are 1.
        self._decay = None if gamma == 1 else discounts(length, gamma, self._last_bias)
        self._total = length if self._decay is None else float(self._decay.sum())
        for parameter in self._parameters:
            parameter.grad = th.zeros_like(parameter)
        self._gradients = [cast(th.Tensor, parameter.grad) for parameter in self._parameters]

    def zero(self) -> None:
        """Sets the gradient to zero, in place."""
        th._foreach_zero_(self._gradients)

    def add(
        self,
        pairs: FragmentPairs,
        preferences: Array,
        share: float,
        weights: Array | None = None,
    ) -> dict[str, float]:
        """Adds `share` times the gradient of the loss to `grad` of the parameters.

        Args:
            pairs: A batch of `n` pairs of fragments.
            preferences: Probabilities that the first of each is preferred, shape `(n,)`.
            share: Factor on the loss.
            weights: Factor on each pair's loss, shape `(n,)`; all 1 when `None`.

        Returns:
            The loss without that factor, and its metrics.

        Raises:
            ValueError: A return is not finite.
        """
        batch = pairs.batch
        inputs = self._inputs(batch)
        if self._normalize is not None:
            inputs = self._normalize(inputs)
        trace = self._hidden.trace(inputs)
        sums = self._summed(trace[-1])
        returns = th.addmm(self._last_bias * self._total, sums, self._weights[-1].t()).squeeze(1)
        check_finite(returns, batch)
        first, second = returns.numpy().astype(np.float64).reshape(2, -1)
        losses, by_difference = cross_entropies(self._model, first - second, preferences)
        if weights is not None:
            losses, by_difference = losses * weights, by_difference * weights
        scaled = by_difference * (share / len(losses))
        by_returns = th.from_numpy(np.concatenate([scaled, -scaled]).astype(np.float32))
        th._foreach_add_(self._gradients, self._backward(by_returns, trace, sums))
        agreed = 1 - np.abs(np.sign(first - second) - np.sign(preferences - 0.5)) / 2
        metrics = {"loss": float(losses.mean()), "accuracy": float(agreed.mean())}
        true = batch.true_returns(self._model.discount_factor)
        if true is not None:
            first, second = true.numpy().reshape(2, -1)
            true_losses, _ = cross_entropies(self._model, first - second, preferences)
            metrics["gt_reward_loss"] = float(true_losses.mean())
        return metrics

    def _inputs(self, batch: FragmentBatch) -> th.Tensor:
        """Inputs of the network, shape `(steps, features)`.

        Encoding does not depend on parameters, so steps that are joined for many batches are
        encoded once, unless that needs much memory.
        """
        joined = batch.joined
        if batch.fragments is None or len(joined.dones) * self._features > _LARGEST_ENCODED:
            return self._encode(batch.steps)
        every = joined.encoded.get(self._net)
        if every is None:
            every = joined.encoded[self._net] = self._encode(joined)
        by_fragment = every.view(-1, self._length * self._features)
        return by_fragment[th.from_numpy(batch.fragments)].view(-1, self._features)

    def _encode(self, steps: JoinedSteps) -> th.Tensor:
        net = self._net
        encoded = net.preprocess(steps.obs, steps.acts, steps.next_obs, steps.dones)
        is_used = (net.use_state, net.use_action, net.use_next_state, net.use_done)
        used = [
            part.reshape(len(part), -1)
            for part, wanted in zip(encoded, is_used, strict=True)
            if wanted
        ]
        return th.cat(used, dim=1).contiguous()

    def _summed(self, units: th.Tensor) -> th.Tensor:
        """Sums activations over the steps of each fragment, shape `(fragments, width)`."""
        by_fragment = units.view(-1, self._length, units.shape[1])
        return by_fragment.sum(1) if self._decay is None else self._decay @ by_fragment

    def _backward(
        self, by_returns: th.Tensor, trace: list[th.Tensor], sums: th.Tensor
    ) -> list[th.Tensor]:
        """Derivatives by all weights, then by all biases, given those by the returns."""
        column = by_returns.unsqueeze(1)
        by_weights = [column.t() @ sums]
        by_biases = [column.sum(0) * self._total]
        delta = (column * self._weights[-1]).unsqueeze(1).expand(-1, self._length, -1)
        if self._decay is not None:
            delta = delta * self._decay.unsqueeze(1)
        for index in range(len(trace) - 2, -1, -1):
            units = trace[index + 1].view(delta.shape)
            if self._tanh:
                delta = delta - delta * units.square()
            else:
                delta = th.ops.aten.threshold_backward(delta, units, 0)
            delta = delta.view(-1, delta.shape[-1])
            by_weights.append(_by_weight(delta, trace[index]))
            by_biases.append(delta.sum(0))
            if index > 0:
                delta = product(delta, self._weights[index])
        return by_weights[::-1] + by_biases[::-1]


def _by_weight(delta: th.Tensor, inputs: th.Tensor) -> th.Tensor:
    if inputs.shape[1] <= _NARROW:
        return (inputs.t() @ delta).t()
    return delta.t() @ inputs


def cross_entropies(
    model: PreferenceModel, difference: Array, preferences: Array
) -> tuple[Array, Array]:
    """Computes `PreferenceModel.cross_entropies` and its derivative, in closed form.

    Args:
        model: Model whose `noise_prob` and `threshold` are used.
        difference: Returns of first minus second fragments, shape `(n,)`, float64.
        preferences: Probabilities that the first is preferred, shape `(n,)`.

    Returns:
        Cross-entropies and their derivatives by `difference`, each of shape `(n,)`.
    """
    clipped = np.clip(difference, -model.threshold, model.threshold)
    is_inside = np.abs(difference) < model.threshold
    first = special.expit(clipped)
    if model.noise_prob == 0:
        losses = np.logaddexp(0, -clipped) + (1 - preferences) * clipped
        return losses, (first - preferences) * is_inside
    second = special.expit(-clipped)
    constant, share = model.noise_prob / 2, 1 - model.noise_prob
    p, q = constant + share * first, constant + share * second
    losses = -preferences * np.log(p) - (1 - preferences) * np.log(q)
    return losses, share * first * second * (p - preferences) / (p * q) * is_inside
