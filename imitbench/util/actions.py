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
    """Scales actions from the bounds of a box to [-1, 1], the form off-policy algorithms store.

    Actions of other spaces are returned unchanged.

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
    """Inverts `scale_actions`: scales from [-1, 1] to the bounds of a box.

    Args:
        acts: Shape (n, *action_shape).
        space: As for `scale_actions`.

    Returns:
        The same shape.
    """
    if not isinstance(space, spaces.Box):
        return acts
    # The same formula as in Stable-Baselines3, so that results are bitwise equal.
    return np.asarray(space.low + (0.5 * (acts + 1.0) * (space.high - space.low)))


def action_rows(acts: th.Tensor, space: gym.Space[Any]) -> th.Tensor:
    """Returns actions in the form that `log_prob` of Stable-Baselines3's distributions expects.

    Args:
        acts: Shape (n, *action_shape).
        space: Space of one action.

    Returns:
        Shape (n,) for Discrete, else (n, size); float32 for MultiBinary.
    """
    if isinstance(space, spaces.Discrete):
        return acts
    acts = acts.reshape(len(acts), -1)  # a box may have shape ()
    # Torch's Bernoulli distribution accepts only floating-point numbers.
    return acts.float() if isinstance(space, spaces.MultiBinary) else acts
