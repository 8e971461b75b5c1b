"""Rewards of all states of a tabular environment, and their gradient by a network's parameters."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt
import torch as th
from torch import nn

from imitbench.data.tabular import TabularModel
from imitbench.rewards.reward_nets import BasicRewardNet, RewardNet
from imitbench.rewards.tabular import TabularRewardNet
from imitbench.rl.mlp import stack_of
from imitbench.util.gradients import backward_from
from imitbench.util.networks import SqueezeLayer, evaluating

Floats = npt.NDArray[np.float64]
_OTHER_INPUTS = ("use_action", "use_next_state", "use_done")


class StateRewards(ABC):
    """Rewards of all states, as a function of a network's parameters."""

    @abstractmethod
    def compute(self) -> Floats:
        """Rewards by the current parameters, shape (states,), float64."""

    @abstractmethod
    def differentiate(self, by_reward: Floats) -> float:
        """Replaces `grad` of the parameters.

        Args:
            by_reward: Derivative of the loss by each reward of the last `compute`, shape
                (states,).

        Returns:
            L2 norm of the gradient.
        """


class _NetworkRewards(StateRewards):
    """Rewards of any network, by automatic differentiation.

    Args:
        net: Reward network of the state alone.
        states: Encoded observations of all states.
    """

    def __init__(self, net: RewardNet, states: th.Tensor) -> None:
        self._net = net
        self._states = states
        self._parameters = [parameter for parameter in net.parameters() if parameter.requires_grad]
        self._output = th.zeros(len(states))

    def compute(self) -> Floats:
        self._output = rewards_of_states(self._net, self._states)
        rewards: Floats = self._output.detach().cpu().numpy().astype(np.float64)
        return rewards

    def differentiate(self, by_reward: Floats) -> float:
        for parameter in self._parameters:  # in place, so that the optimizer keeps its references
            if parameter.grad is not None:
                parameter.grad.zero_()
        backward_from(self._output, th.from_numpy(by_reward).to(self._output))
        gradients = [parameter.grad for parameter in self._parameters if parameter.grad is not None]
        return float(th.nn.utils.get_total_norm(gradients))


class _TableRewards(StateRewards):
    """Rewards of a `TabularRewardNet` on the CPU: the parameters themselves.

    Args:
        values: Reward of each state, shape (states,).
    """

    def __init__(self, values: nn.Parameter) -> None:
        self._values = values.detach().numpy()
        self._gradient = np.zeros_like(self._values)
        values.grad = th.from_numpy(self._gradient)

    def compute(self) -> Floats:
        return self._values.astype(np.float64)

    def differentiate(self, by_reward: Floats) -> float:
        np.copyto(self._gradient, by_reward, casting="same_kind")
        return math.sqrt(np.dot(self._gradient, self._gradient))


class _MLPRewards(StateRewards):
    """Rewards of linear layers with ReLU between them, with gradients in closed form.

    Args:
        layers: Linear layers, whose memory is shared.
        states: Encoded observations of all states, shape (states, size).
    """

    def __init__(self, layers: list[nn.Linear], states: th.Tensor) -> None:
        count = len(states)
        self._weights = [layer.weight.detach().numpy() for layer in layers]
        self._biases = [layer.bias.detach().numpy() for layer in layers]
        dtype = self._weights[0].dtype
        # The input of each layer, then the output.
        self._values = [np.ascontiguousarray(states.flatten(1).numpy(), dtype=dtype)]
        self._values += [np.empty((count, len(weight)), dtype) for weight in self._weights]
        self._by_value = [np.empty_like(values) for values in self._values]
        self._is_positive = [np.empty(values.shape, bool) for values in self._values]
        self._ones = np.ones(count, dtype)
        # All gradients share one vector, so that its norm takes one call.
        parameters = [parameter for layer in layers for parameter in (layer.weight, layer.bias)]
        self._gradient = np.zeros(sum(parameter.numel() for parameter in parameters), dtype)
        self._parts: list[npt.NDArray[Any]] = []
        offset = 0
        for parameter in parameters:
            part = self._gradient[offset : offset + parameter.numel()]
            self._parts.append(part.reshape(tuple(parameter.shape)))
            parameter.grad = th.from_numpy(self._parts[-1])
            offset += parameter.numel()

    def compute(self) -> Floats:
        last = len(self._weights) - 1
        for index, (weight, bias) in enumerate(zip(self._weights, self._biases, strict=True)):
            out = self._values[index + 1]
            np.dot(self._values[index], weight.T, out)
            np.add(out, bias, out)
            if index < last:
                mask = self._is_positive[index + 1]
                np.greater(out, 0, mask)
                np.multiply(out, mask, out)
        return self._values[-1][:, 0].astype(np.float64)

    def differentiate(self, by_reward: Floats) -> float:
        self._by_value[-1][:, 0] = by_reward
        for index in range(len(self._weights) - 1, -1, -1):
            by_output, read = self._by_value[index + 1], self._values[index]
            np.dot(by_output.T, read, self._parts[2 * index])
            self._ones.dot(by_output, self._parts[2 * index + 1])
            if index:
                np.dot(by_output, self._weights[index], self._by_value[index])
                np.multiply(self._by_value[index], self._is_positive[index], self._by_value[index])
        return math.sqrt(np.dot(self._gradient, self._gradient))


def make_state_rewards(net: RewardNet, states: th.Tensor) -> StateRewards:
    """Chooses the fastest way to compute the rewards of all states and their gradients.

    Args:
        net: Reward network of the state alone.
        states: Encoded observations of all states.
    """
    if type(net) is TabularRewardNet and _is_plain(net):
        return _TableRewards(net.values)
    layers = _plain_layers(net)
    return _NetworkRewards(net, states) if layers is None else _MLPRewards(layers, states)


def encode_states(net: RewardNet, model: TabularModel) -> th.Tensor:
    """Encodes all states as a reward network reads them.

    Args:
        net: Reward network of the state alone.
        model: Dynamics of the environment.

    Raises:
        ValueError: The network has other spaces, or uses more than the state.
    """
    for name in _OTHER_INPUTS:
        if getattr(net, name, False):
            raise ValueError(
                f"reward_net: it has {name}=True, but rewards must depend on the state alone; "
                f"make it with {name}=False"
            )
    if not getattr(net, "use_state", True):
        raise ValueError("reward_net: it has use_state=False, but rewards depend on the state")
    known = np.arange(model.states) if model.observations is None else model.observations
    count = len(known)
    start = int(getattr(net.action_space, "start", 0))
    actions = np.full(count, start, dtype=np.int64)
    try:
        states = net.preprocess(known, actions, known, np.zeros(count, dtype=bool))[0]
    except ValueError as error:
        raise ValueError(
            f"reward_net: it cannot read this environment's states: {error}"
        ) from error
    with th.no_grad(), evaluating(net):
        try:
            rewards_of_states(net, states)
        except (TypeError, AttributeError) as error:
            raise ValueError(
                f"reward_net: it must use only the state, as other inputs are None ({error})"
            ) from error
    return states


def rewards_of_states(net: RewardNet, states: th.Tensor) -> th.Tensor:
    """Computes rewards with gradients, shape (states,).

    Raises:
        ValueError: The network's output has another shape.
    """
    rewards = squeeze_r(net(states, None, None, None))
    if len(rewards) != len(states):
        raise ValueError(f"reward_net: gave {len(rewards)} rewards for {len(states)} states")
    return rewards


def squeeze_r(r_output: th.Tensor) -> th.Tensor:
    """Removes the second dimension of rewards, if there is one.

    Args:
        r_output: Shape (states,) or (states, 1).

    Returns:
        Shape (states,).

    Raises:
        ValueError: The shape is another.
    """
    if r_output.ndim == 2 and r_output.shape[1] == 1:
        return r_output.squeeze(1)
    if r_output.ndim != 1:
        raise ValueError(
            f"r_output has shape {tuple(r_output.shape)}; it needs (states,) or (states, 1)"
        )
    return r_output


def _plain_layers(net: RewardNet) -> list[nn.Linear] | None:
    """The linear layers of a perceptron without hooks on the CPU; `None` for any other network."""
    if type(net) is not BasicRewardNet or not _is_plain(net):
        return None
    layers = list(net.mlp)
    if layers and type(layers[-1]) is SqueezeLayer:
        layers.pop()
    stack = stack_of(layers)
    return None if stack is None or stack.tanh or stack.activate_last else list(stack.layers)


def _is_plain(net: RewardNet) -> bool:
    """Whether a network is a function of its parameters alone, and they are in CPU memory."""
    return not any(
        module._forward_hooks or module._forward_pre_hooks for module in net.modules()
    ) and all(
        parameter.device.type == "cpu"
        and parameter.requires_grad
        and parameter.is_contiguous()
        and parameter.dtype in (th.float32, th.float64)
        and not parameter._backward_hooks
        for parameter in net.parameters()
    )
