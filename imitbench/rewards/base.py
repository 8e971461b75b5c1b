"""Base classes of reward networks, which encode transitions and predict their rewards."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch as th
from gymnasium import spaces
from stable_baselines3.common.preprocessing import is_image_space
from torch import nn

from imitbench.data.types import AnyTensor
from imitbench.rewards.reward_function import check_reward_shape
from imitbench.util.networks import evaluating
from imitbench.util.util import safe_to_tensor

Array = npt.NDArray[Any]

_LARGEST_TABLE = 512
"""Largest number n of discrete values with a table of all encodings, of n² entries."""


class SpaceEncoder(ABC):
    """Encodes batches of a space's elements.

    Args:
        shape: Shape of one element of the space.
        encoded_shape: Shape of one encoded element.
        name: Name of batches in errors.
    """

    def __init__(self, shape: tuple[int, ...], encoded_shape: tuple[int, ...], name: str) -> None:
        self.shape = shape
        self.encoded_shape = encoded_shape
        self.name = name

    @abstractmethod
    def __call__(
        self, batch: AnyTensor, device: th.device, dtype: th.dtype, name: str | None = None
    ) -> th.Tensor:
        """Encodes a batch.

        Args:
            batch: Shape `(n, *shape)`. A tensor that already has the device and data type is not
                copied.
            device: Device of the result.
            dtype: Floating-point type of the result.
            name: Name of the batch in errors; by default that of the encoder.

        Returns:
            Shape `(n, *encoded_shape)`.

        Raises:
            ValueError: The batch has another shape or holds values that are not in the space.
        """

    def _wrong_shape(self, batch: th.Tensor, name: str | None) -> ValueError:
        return ValueError(
            f"{name or self.name} has shape {tuple(batch.shape)}; it needs "
            f"(n, {', '.join(map(str, self.shape))})"
        )


class BoxEncoder(SpaceEncoder):
    """Encodes numbers unchanged, and images optionally divided by 255.

    Elements of shape `()` become vectors of length one.

    Args:
        space: Space of the elements.
        name: Name of batches in errors.
        normalize_images: Whether uint8 images are scaled to [0, 1].
    """

    def __init__(
        self, space: spaces.Box | spaces.MultiBinary, name: str, normalize_images: bool
    ) -> None:
        super().__init__(space.shape, space.shape or (1,), name)
        self._scale = normalize_images and is_image_space(space)

    def __call__(
        self, batch: AnyTensor, device: th.device, dtype: th.dtype, name: str | None = None
    ) -> th.Tensor:
        """See `SpaceEncoder`."""
        if device.type == "cpu":
            tensor = safe_to_tensor(batch, dtype=dtype)
        else:  # converted on the device, because bytes are a quarter of the data to transfer
            tensor = safe_to_tensor(batch).to(device).to(dtype)
        if tensor.shape[1:] != self.shape or not tensor.ndim:
            raise self._wrong_shape(tensor, name)
        if not self.shape:
            tensor = tensor[:, None]
        return tensor / 255.0 if self._scale else tensor


class DiscreteEncoder(SpaceEncoder):
    """Encodes discrete values as concatenated one-hot vectors.

    Args:
        space: Space of the elements.
        name: Name of batches in errors.
    """

    def __init__(self, space: spaces.Discrete | spaces.MultiDiscrete, name: str) -> None:
        if isinstance(space, spaces.Discrete):
            sizes = np.array([space.n], dtype=np.int64)
        else:
            sizes = space.nvec.astype(np.int64).ravel()
        super().__init__(space.shape or (), (int(sizes.sum()),), name)
        starts = np.broadcast_to(getattr(space, "start", 0), space.shape or ()).ravel()
        self._sizes = th.from_numpy(sizes)
        self._starts = th.from_numpy(starts.astype(np.int64))
        self._offsets = self._sizes.cumsum(0) - self._sizes
        self._has_starts = bool(starts.any())
        # Copying rows of a small table is fastest, and fails for values out of range.
        is_small = len(sizes) == 1 and sizes[0] <= _LARGEST_TABLE
        self._table = th.eye(int(sizes[0]), device="cpu") if is_small else None

    def __call__(
        self, batch: AnyTensor, device: th.device, dtype: th.dtype, name: str | None = None
    ) -> th.Tensor:
        """See `SpaceEncoder`."""
        tensor = safe_to_tensor(batch)
        number = len(tensor) if tensor.ndim else 0
        # Replay buffers hold discrete values as columns, shape (n, 1).
        if not tensor.ndim or tensor.numel() != number * len(self._sizes):
            raise self._wrong_shape(tensor, name)
        chosen = tensor.reshape(number, len(self._sizes)).long()
        if self._has_starts:
            chosen = chosen - self._starts.to(chosen.device)
        if chosen.device.type == "cpu":
            if self._table is not None:
                return self._look_up(self._table, chosen, name).to(device).to(dtype)
            self._check_range(chosen, name)  # on other devices this would synchronize
        if len(self._sizes) > 1:
            chosen = chosen + self._offsets.to(chosen.device)
        encoded = th.zeros((number, *self.encoded_shape), device=device, dtype=dtype)
        return encoded.scatter_(1, chosen.to(device), 1.0)

    def _look_up(self, table: th.Tensor, chosen: th.Tensor, name: str | None) -> th.Tensor:
        try:
            return th.index_select(table, 0, chosen.flatten())
        except (IndexError, RuntimeError):
            raise self._out_of_range(name) from None

    def _check_range(self, chosen: th.Tensor, name: str | None) -> None:
        if not len(chosen):
            return
        lowest, highest = chosen.aminmax(dim=0)
        if bool((lowest < 0).any()) or bool((highest >= self._sizes).any()):
            raise self._out_of_range(name)

    def _out_of_range(self, name: str | None) -> ValueError:
        return ValueError(f"{name or self.name} holds a value that is not in its space")


def make_encoder(
    space: gym.Space[Any], *, argument: str, name: str, normalize_images: bool
) -> SpaceEncoder:
    """Makes the encoder of a space.

    Args:
        space: Box, Discrete, MultiDiscrete or MultiBinary.
        argument: Name of the space in errors.
        name: Name of batches in errors.
        normalize_images: Whether uint8 images are scaled to [0, 1].

    Raises:
        ValueError: The space is of another type.
    """
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        return BoxEncoder(space, name, normalize_images)
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return DiscreteEncoder(space, name)
    raise ValueError(
        f"{argument}: {type(space).__name__} spaces are not supported by reward networks; "
        "use Box, Discrete, MultiDiscrete or MultiBinary"
    )


def encoded_size(space: gym.Space[Any], argument: str) -> int:
    """Length of an encoded, flattened element; arguments and errors as for `make_encoder`."""
    encoder = make_encoder(space, argument=argument, name=argument, normalize_images=False)
    return int(np.prod(encoder.encoded_shape))


class ObservationMask:
    """Flattens encoded observations and drops entries that a network must not see.

    Args:
        size: Length of a flat encoded observation.
        hidden: Indices of the entries to drop, from 0.

    Attributes:
        size: Number of remaining entries.

    Raises:
        ValueError: An index is out of range or duplicated.
    """

    def __init__(self, size: int, hidden: Sequence[int]) -> None:
        if len(set(hidden)) != len(hidden) or any(not 0 <= entry < size for entry in hidden):
            raise ValueError(
                f"hidden_entries must be different numbers from 0 to {size - 1}, "
                f"not {', '.join(map(str, hidden))}"
            )
        self.size = size - len(hidden)
        kept = [entry for entry in range(size) if entry not in hidden]
        # Stored networks are built on the meta device, where this would have no data.
        self._kept = th.tensor(kept, device="cpu")
        self._all = not hidden

    def __call__(self, state: th.Tensor) -> th.Tensor:
        """Remaining entries of a batch, shape `(n, size)`."""
        flat = state.flatten(1)
        if self._all:
            return flat
        self._kept = self._kept.to(flat.device)
        return flat.index_select(1, self._kept)


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
