"""Base classes of reward networks, which encode transitions and predict their rewards."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy.typing as npt
import torch as th
from torch import nn

from imitbench.data.types import AnyTensor
from imitbench.rewards.encoding import make_encoder
from imitbench.rewards.reward_function import check_reward_shape
from imitbench.util.networks import evaluating
from imitbench.util.util import safe_to_tensor

Array = npt.NDArray[Any]


@contextmanager
def frozen(module: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; the mode of every submodule is restored on exit."""
    with evaluating(module), th.no_grad():
        yield


class RewardNet(nn.Module, ABC):
    """A network that maps transitions to rewards.

    `forward` computes rewards to train the network; `predict_processed` computes rewards to
    train a policy, which wrappers may have normalized or otherwise changed. All methods named
    `predict*` run in evaluation mode without gradients, and restore the mode.

    Args:
        observation_space: Box, Discrete, MultiDiscrete or MultiBinary.
        action_space: One of the same types.
        normalize_images: Whether uint8 images are scaled from [0, 255] to [0, 1].

    Raises:
        ValueError: A space is of another type.
    """

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        normalize_images: bool = True,
    ) -> None:
        super().__init__()
        self.observation_space = observation_space
        self.action_space = action_space
        self.normalize_images = normalize_images
        self._encode_state = make_encoder(
            observation_space,
            argument="observation_space",
            name="state",
            normalize_images=normalize_images,
        )
        self._encode_action = make_encoder(
            action_space, argument="action_space", name="action", normalize_images=normalize_images
        )

    @abstractmethod
    def forward(
        self, state: th.Tensor, action: th.Tensor, next_state: th.Tensor, done: th.Tensor
    ) -> th.Tensor:
        """Computes rewards with gradients, from the output of `preprocess`.

        Args:
            state: Encoded observations, shape `(n, *encoded_observation_shape)`.
            action: Encoded actions, shape `(n, *encoded_action_shape)`.
            next_state: Encoded observations after the actions, same shape as `state`.
            done: 1 where the episode ended, else 0, shape `(n,)`.

        Returns:
            Rewards, shape `(n,)`.
        """

    @property
    def device(self) -> th.device:
        """Device of the first parameter or buffer; the CPU if there is none."""
        return self._device_and_dtype()[0]

    @property
    def dtype(self) -> th.dtype:
        """Data type of the first floating-point parameter or buffer; torch's default if none."""
        return self._device_and_dtype()[1]

    def _device_and_dtype(self) -> tuple[th.device, th.dtype]:
        """Both in one pass, because iterating over parameters is slow."""
        device = None
        for tensor in itertools.chain(self.parameters(), self.buffers()):
            device = device or tensor.device
            if tensor.is_floating_point():
                return device, tensor.dtype
        return device or th.device("cpu"), th.get_default_dtype()

    def preprocess(
        self, state: AnyTensor, action: AnyTensor, next_state: AnyTensor, done: AnyTensor
    ) -> tuple[th.Tensor, th.Tensor, th.Tensor, th.Tensor]:
        """Encodes transitions for `forward`: `net(*net.preprocess(…))`.

        Discrete values become one-hot vectors, images are scaled, and everything becomes a
        tensor with the network's device and data type. Tensors that already match are not copied.

        Args:
            state: Observations, shape `(n, *observation_shape)`.
            action: Actions, shape `(n, *action_shape)`; discrete ones may have shape `(n, 1)`.
            next_state: Observations after the actions, same shape as `state`.
            done: Whether the episode ended, shape `(n,)`.

        Returns:
            Encoded observations, actions, next observations and episode ends.

        Raises:
            ValueError: Shapes do not match the spaces, lengths differ, or a discrete value on
                the CPU is not in its space.
        """
        device, dtype = self._device_and_dtype()
        number = len(state)
        if not number == len(action) == len(next_state) == len(done):
            raise ValueError(
                f"lengths differ: {number} states, {len(action)} actions, {len(next_state)} next "
                f"states, {len(done)} dones"
            )
        done_th = safe_to_tensor(done, device=device, dtype=dtype)
        if done_th.ndim != 1:
            raise ValueError(f"done has shape {tuple(done_th.shape)}; it needs (n,)")
        return (
            self._encode_state(state, device, dtype),
            self._encode_action(action, device, dtype),
            self._encode_state(next_state, device, dtype, "next_state"),
            done_th,
        )

    def predict_th(
        self, state: AnyTensor, action: AnyTensor, next_state: AnyTensor, done: AnyTensor
    ) -> th.Tensor:
        """Computes rewards as a tensor on the network's device, shape `(n,)`.

        Arguments and errors as in `preprocess`.

        Raises:
            ValueError: `forward` returned another shape than `(n,)`.
        """
        with frozen(self):
            rewards: th.Tensor = self(*self.preprocess(state, action, next_state, done))
        check_reward_shape(tuple(rewards.shape), len(state))
        return rewards

    def predict(
        self, state: AnyTensor, action: AnyTensor, next_state: AnyTensor, done: AnyTensor
    ) -> Array:
        """Computes rewards as an array, shape `(n,)`; arguments and errors as in `predict_th`."""
        rewards: Array = self.predict_th(state, action, next_state, done).cpu().numpy()
        return rewards

    def predict_processed(
        self,
        state: AnyTensor,
        action: AnyTensor,
        next_state: AnyTensor,
        done: AnyTensor,
        **kwargs: Any,
    ) -> Array:
        """Computes rewards to train a policy, shape `(n,)`; here the same as `predict`.

        Arguments as in `preprocess`. Wrappers use the keyword arguments that they know and pass
        on the others.
        """
        return self.predict(state, action, next_state, done)


class RewardNetWithVariance(RewardNet):
    """A reward network that estimates its uncertainty."""

    @abstractmethod
    def predict_reward_moments(
        self,
        state: AnyTensor,
        action: AnyTensor,
        next_state: AnyTensor,
        done: AnyTensor,
        **kwargs: Any,
    ) -> tuple[Array, Array]:
        """Computes mean and variance of the reward of each transition.

        Arguments as in `preprocess`; keyword arguments are for subclasses.

        Returns:
            Means and variances, each of shape `(n,)`.
        """
