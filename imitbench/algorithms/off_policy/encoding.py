"""Observations as the agent sees them: standardized vectors, with a mark for absorbing states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from stable_baselines3.common.preprocessing import is_image_space

from imitbench.algorithms.density_model import flatten_batch

Array = npt.NDArray[Any]

# An entry that hardly varies in the data may vary a lot later.
_LEAST_DEVIATION = 0.01


class ObservationEncoder:
    """Encodes observations of one seed.

    Statistics are fixed once, before the first update, so that stored transitions stay valid.

    Args:
        space: Space of one observation: vectors or choices.
        absorbing: Whether a last entry marks the absorbing state, which follows the end of an
            episode (Kostrikov et al. 2019, "Discriminator-Actor-Critic", section 4.2).
        hidden: Entries of flat observations that are always 0.

    Attributes:
        absorbing: As given.
        size: Entries of an observation, without the mark.
        features: Entries of an encoded observation.
        mean: What is subtracted from each entry, shape (size,), float64.
        scale: What each entry is then divided by, shape (size,), float64; infinite for hidden ones.

    Raises:
        ValueError: Observations are dictionaries or images.
    """

    def __init__(
        self, space: gym.Space[Any], *, absorbing: bool, hidden: Sequence[int] = ()
    ) -> None:
        if isinstance(space, spaces.Dict) or is_image_space(space):
            kind = "dictionaries" if isinstance(space, spaces.Dict) else "images"
            raise ValueError(
                f"observation_space: observations are {kind}; off-policy methods need vectors"
            )
        self._space = space
        self.absorbing = absorbing
        self.size = spaces.flatdim(space)
        self.features = self.size + absorbing
        self.mean = np.zeros(self.size)
        self.scale = np.ones(self.size)
        self._hidden = list(hidden)
        self.scale[self._hidden] = np.inf

    def flatten(self, obs: Array) -> Array:
        """Observations as vectors that are not standardized.

        Args:
            obs: Shape (n, *observation_shape).

        Returns:
            Shape (n, size), float64.
        """
        return flatten_batch(self._space, obs).astype(np.float64)

    def standardize(self, *kinds: Array) -> None:
        """Fixes the statistics: those of a mixture with equal parts of each kind.

        Args:
            *kinds: From `flatten`, shape (n, size).
        """
        mean = np.mean([kind.mean(axis=0) for kind in kinds], axis=0)
        square = np.mean([np.square(kind - mean).mean(axis=0) for kind in kinds], axis=0)
        self.mean, self.scale = mean, np.maximum(np.sqrt(square), _LEAST_DEVIATION)
        self.scale[self._hidden] = np.inf

    def __call__(self, obs: Array) -> Array:
        """Encodes observations.

        Args:
            obs: Shape (n, *observation_shape).

        Returns:
            Shape (n, features), float32.
        """
        rows: Array = encode_each([self], obs)[0]
        return rows

    def decode(self, rows: Array) -> Array:
        """Flat observations that were encoded; hidden entries are at their mean.

        Args:
            rows: Shape (n, features).

        Returns:
            Shape (n, size), float64.
        """
        scale = np.where(np.isfinite(self.scale), self.scale, 0.0)
        decoded: Array = rows[:, : self.size] * scale + self.mean
        return decoded

    def absorbing_states(self, count: int) -> Array:
        """Encoded absorbing states, shape (count, features), float32."""
        rows = np.zeros((count, self.features), np.float32)
        rows[:, -1] = 1.0
        return rows

    def state_dict(self) -> dict[str, Any]:
        """The statistics."""
        return {"mean": self.mean.copy(), "scale": self.scale.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        self.mean, self.scale = np.array(state["mean"]), np.array(state["scale"])


def encode_each(encoders: Sequence[ObservationEncoder], obs: Array) -> Array:
    """Encodes observations of several seeds at once.

    Args:
        encoders: Encoder of each seed, of the same space.
        obs: As many of each seed: those of the first, those of the second, and so on; shape
            (seeds * n, *observation_shape).

    Returns:
        Shape (seeds, n, features), float32.
    """
    first = encoders[0]
    flat = first.flatten(obs).reshape(len(encoders), -1, first.size)
    mean = np.array([encoder.mean for encoder in encoders])[:, np.newaxis]
    scale = np.array([encoder.scale for encoder in encoders])[:, np.newaxis]
    rows = np.zeros((*flat.shape[:2], first.features), np.float32)
    rows[..., : first.size] = (flat - mean) / scale
    return rows
