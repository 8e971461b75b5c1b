"""Actions as off-policy algorithms of Stable-Baselines3 store them: a box as [-1, 1]."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

Array = npt.NDArray[Any]


def scale_actions(acts: Array, space: gym.Space[Any]) -> Array:
    """From the bounds of a box to [-1, 1]; actions of other spaces stay as they are.

    Args:
        acts: Shape (n, *action_shape); clipped to the bounds first.
        space: Space of one action; a box has finite bounds.

    Returns:
        The same shape.
    """
    if not isinstance(space, spaces.Box):
        return acts
    low, high = space.low, space.high
    return np.asarray(2.0 * (np.clip(acts, low, high) - low) / (high - low) - 1.0)


def unscale_actions(acts: Array, space: gym.Space[Any]) -> Array:
    """The way back: from [-1, 1] to the bounds of a box.

    Args:
        acts: Shape (n, *action_shape).
        space: As for `scale_actions`.

    Returns:
        The same shape.
    """
    if not isinstance(space, spaces.Box):
        return acts
    # Term by term as Stable-Baselines3 computes what it executes, so that not a bit differs.
    return np.asarray(space.low + (0.5 * (acts + 1.0) * (space.high - space.low)))
