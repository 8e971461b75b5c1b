"""Actions as Stable-Baselines3 stores them and computes with them."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch as th
from gymnasium import spaces

Array = npt.NDArray[Any]


def scale_actions(acts: Array, space: gym.Space[Any]) -> Array:
    """From the bounds of a box to [-1, 1], which off-policy algorithms store.

    Actions of other spaces stay as they are.

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


def action_rows(acts: th.Tensor, space: gym.Space[Any]) -> th.Tensor:
    """Actions in the form in which distributions tell their probability.

    Args:
        acts: Shape (n, *action_shape).
        space: Space of one action.

    Returns:
        Shape (n,) for single choices, else (n, numbers); binary ones as float32.
    """
    if isinstance(space, spaces.Discrete):
        return acts
    acts = acts.reshape(len(acts), -1)  # a box may have no dimension at all
    # Torch's Bernoulli distribution takes nothing but floating-point numbers.
    return acts.float() if isinstance(space, spaces.MultiBinary) else acts
