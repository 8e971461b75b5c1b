"""Generalized advantage estimation.

Source: Schulman et al. 2016, "High-Dimensional Continuous Control Using Generalized Advantage
Estimation", equation 16.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def estimate_advantages(
    rewards: Array, values: Array, last_values: Array, dones: Array, gamma: float, lam: float
) -> Array:
    """Estimates advantages of whole rollouts, all environments at once.

    Args:
        rewards: Shape (T, n), float32.
        values: Values of the observations that were acted on, shape (T, n), float32.
        last_values: Values of the observations after the last step, shape (n,), float32.
        dones: Whether a step ended its episode, shape (T, n), bool.
        gamma: Discount factor.
        lam: Weight of longer estimates, in [0, 1].

    Returns:
        Shape (T, n), float32. Add `values` for the targets of the critic.
    """
    continues = np.float32(1) - dones
    advantages = np.empty_like(values)
    advantages[:-1] = values[1:]
    advantages[-1] = last_values
    advantages *= gamma
    advantages *= continues
    advantages += rewards
    advantages -= values
    continues *= gamma * lam
    following = np.zeros_like(last_values)
    for advantage, weight in zip(advantages[::-1], continues[::-1], strict=True):
        np.multiply(following, weight, out=following)
        advantage += following
        following[...] = advantage
    return advantages
