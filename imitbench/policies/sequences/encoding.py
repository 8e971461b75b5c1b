"""What networks see of observations and actions: normalized numbers, and features of images."""

from __future__ import annotations

import math
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch as th
from gymnasium import spaces
from stable_baselines3.common.preprocessing import (
    is_image_space,
    is_image_space_channels_first,
    preprocess_obs,
)
from torch import nn

Array = npt.NDArray[Any]

Normalization = Literal["range", "moments"]
"""`range` maps the data to [-1, 1]; `moments` gives them mean 0 and standard deviation 1."""

# An entry that varies less is constant for the network: a division would blow up noise. It is the
# bound of the diffusion policy's public code.
_CONSTANT = 1e-4
_IMAGE_CHANNELS = (16, 32, 32)


class Normalizer(nn.Module):
    """Maps numbers to a common scale and back, with statistics of the demonstrations.

    The statistics are buffers, which are stored with the weights. Until `fit`, they change nothing.

    Args:
        size: Entries of a vector.
        kind: Which statistics.
    """

    shift: th.Tensor
    scale: th.Tensor

    def __init__(self, size: int, kind: Normalization) -> None:
        super().__init__()
        self.kind = kind
        self.register_buffer("shift", th.zeros(size))
        self.register_buffer("scale", th.ones(size))

    def fit(self, data: Array) -> None:
        """Takes the statistics of data, shape (steps, size)."""
        rows = np.asarray(data, np.float64)
        if self.kind == "range":
            low, high = rows.min(axis=0), rows.max(axis=0)
            shift, scale = (high + low) / 2, (high - low) / 2
        else:
            shift, scale = rows.mean(axis=0), rows.std(axis=0)
        scale = np.where(scale < _CONSTANT, 1.0, scale)
        with th.no_grad():
            self.shift.copy_(th.from_numpy(shift))
            self.scale.copy_(th.from_numpy(scale))

    def forward(self, values: th.Tensor) -> th.Tensor:
        """Normalizes the last dimension."""
        return (values - self.shift) / self.scale

    def inverse(self, values: th.Tensor) -> th.Tensor:
        """Inverts `forward`."""
        return values * self.scale + self.shift


class ImageEncoder(nn.Module):
    """A small convolutional network whose features are positions in the image.

    Each channel of the last layer is read as a distribution over positions, and gives its mean:
    where something is, rather than how much of it. It suits any size of image.

    Args:
        space: Bytes, shape (height, width, channels) or (channels, height, width); the shortest
            side is that of the channels.
        features: Length of the result.

    Source: Finn et al. 2016, "Deep Spatial Autoencoders for Visuomotor Learning" (spatial softmax).
    """

    def __init__(self, space: spaces.Box, features: int) -> None:
        super().__init__()
        self._channels_first = is_image_space_channels_first(space)
        width = space.shape[0 if self._channels_first else 2]
        layers: list[nn.Module] = []
        for channels in _IMAGE_CHANNELS:
            layers += [nn.Conv2d(width, channels, 3, stride=2, padding=1), nn.ReLU()]
            width = channels
        self.convolutions = nn.Sequential(*layers)
        self.output = nn.Linear(2 * width, features)

    def forward(self, images: th.Tensor) -> th.Tensor:
        """Features of images, shape (batch, features).

        Args:
            images: Bytes in [0, 255], shape (batch, *space.shape).
        """
        first = images if self._channels_first else images.movedim(3, 1)
        maps = self.convolutions(first.float() / 255)
        weights = maps.flatten(2).softmax(dim=2).view_as(maps)
        rows, columns = (
            th.linspace(-1.0, 1.0, size, device=maps.device) for size in maps.shape[2:]
        )
        positions = [(weights.sum(3) * rows).sum(2), (weights.sum(2) * columns).sum(2)]
        features: th.Tensor = self.output(th.cat(positions, dim=1))
        return features


class ObservationEncoder(nn.Module):
    """Maps observations to vectors: normalized numbers, choices as 0 and 1, features of images.

    Args:
        space: Space of one observation: a box, choices, or an image of bytes.
        kind: Statistics that normalize the numbers of a box.
        image_features: Features of an image.

    Attributes:
        size: Length of the vectors.

    Raises:
        ValueError: The space is of another kind.
    """

    def __init__(self, space: gym.Space[Any], kind: Normalization, image_features: int) -> None:
        super().__init__()
        if not isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete):
            raise ValueError(
                f"observation_space: {type(space).__name__} is not supported; wrap the environment "
                "in gymnasium.wrappers.FlattenObservation"
            )
        self.space = space
        self.image: ImageEncoder | None = None
        self.normalizer: Normalizer | None = None
        if isinstance(space, spaces.Box) and is_image_space(space):
            self.image, self.size = ImageEncoder(space, image_features), image_features
        else:
            self.size = spaces.flatdim(space)
            if isinstance(space, spaces.Box):
                self.normalizer = Normalizer(math.prod(space.shape), kind)

    def fit(self, observations: Array) -> None:
        """Takes the statistics of observations, shape (steps, *space.shape)."""
        if self.normalizer is not None:
            self.normalizer.fit(observations.reshape(len(observations), -1))

    def forward(self, observations: th.Tensor) -> th.Tensor:
        """Vectors, shape (batch, size).

        Args:
            observations: Shape (batch, *space.shape).
        """
        if self.image is not None:
            features: th.Tensor = self.image(observations)
            return features
        numbers = preprocess_obs(observations, self.space)
        assert isinstance(numbers, th.Tensor), "only dictionaries give dictionaries"
        flat = numbers.flatten(1)
        return flat if self.normalizer is None else self.normalizer(flat)
