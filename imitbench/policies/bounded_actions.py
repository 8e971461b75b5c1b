"""Log-densities of actions within bounds, where many actions lie exactly on a bound.

A normal distribution whose samples are clipped to the bounds puts the probability of each tail on
the bound itself. There it has no density in the usual sense, and the normal distribution's own
density, which says how likely the *unclipped* sample was, is not that of the action that the
environment gets: with a mean far beyond the bound it is close to 0 for an action that is almost
certain. Actions of a squashed normal distribution, tanh of its samples, never reach a bound, but
recorded actions do, and so the density of the last part before each bound is taken together.

Densities here are therefore taken with respect to a base measure, in each dimension: length inside
the bounds, and the weight `width` for each bound. At a bound, the density is the probability of the
tail, divided by `width`: as if clipped actions were spread evenly over an interval of that width
next to the bound. The total mass is 1, and ratios of two such densities are ratios of
probabilities, whatever the width. Two policies are only compared in this way.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch as th
from gymnasium import spaces

from imitbench.util.squashed_gaussian import TAIL_WIDTH

_LOG_ROOT_2_PI = 0.5 * math.log(2 * math.pi)
# Clipping in another precision may miss a bound by rounding.
_ROUNDING = 1e-6


def has_bounds(space: gym.Space[Any]) -> bool:
    """Whether a space is a `Box` whose bounds are all finite."""
    return isinstance(space, spaces.Box) and space.is_bounded()


class ActionBounds(NamedTuple):
    """Finite bounds of actions.

    Attributes:
        low: Lower bounds, shape (actions,), float32.
        high: Upper bounds, shape (actions,), float32.
    """

    low: th.Tensor
    high: th.Tensor

    @classmethod
    def of(cls, space: gym.Space[Any], device: th.device | str = "cpu") -> ActionBounds:
        """Returns the bounds of a space.

        Raises:
            ValueError: It has none: the space is not a `Box`, or a bound is not finite, or a lower
                one is not below the upper one.
        """
        if not isinstance(space, spaces.Box):
            raise ValueError(f"action space: must be a Box with bounds, not {space}")
        low, high = space.low.astype(np.float64).ravel(), space.high.astype(np.float64).ravel()
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise ValueError(f"action space: needs finite bounds, not {space}")
        if not (low < high).all():
            raise ValueError(f"action space: lower bounds must be below the upper ones in {space}")
        tensors = (th.as_tensor(bound, dtype=th.float32, device=device) for bound in (low, high))
        return cls(*tensors)

    @property
    def half_range(self) -> th.Tensor:
        """Half the distance between the bounds, shape (actions,)."""
        return (self.high - self.low) / 2

    def log_uniform(self) -> float:
        """Log-density of the distribution that is uniform in the base measure."""
        # Each bound adds the width of its tail to the length between them.
        return -float(th.log(2 * self.half_range * (1 + TAIL_WIDTH)).double().sum())


def clipped_log_prob(
    mean: th.Tensor, std: th.Tensor, actions: th.Tensor, bounds: ActionBounds
) -> th.Tensor:
    """Log-density of actions that are samples of a normal distribution, clipped to bounds.

    Args:
        mean: Means before clipping, shape (batch, actions).
        std: Standard deviations before clipping, shape (batch, actions) or (actions,).
        actions: Within the bounds, shape (batch, actions).
        bounds: Bounds that the actions were clipped to.

    Returns:
        With respect to the base measure of this module, shape (batch,).
    """
    scaled = (actions - mean) / std
    inside = -0.5 * scaled.square() - th.log(std) - _LOG_ROOT_2_PI
    width = TAIL_WIDTH * bounds.half_range
    slack = _ROUNDING * bounds.half_range
    at_low, at_high = actions <= bounds.low + slack, actions >= bounds.high - slack
    below = th.special.log_ndtr((bounds.low - mean) / std)
    above = th.special.log_ndtr((mean - bounds.high) / std)
    tail = th.where(at_high, above, below) - th.log(width)
    return th.where(at_low | at_high, tail, inside).sum(dim=-1)
