"""Tests whether rewards improved, beyond chance or by a given amount."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from imitbench.stats.mean_test import choices

Floats = npt.NDArray[np.float64]

_MOST_SPLITS = 20_000
"""Largest number of splits of the rewards into two groups that are all evaluated."""
_DRAWN_SPLITS = 9_999
_CHUNK = 2_000_000


def is_significant_reward_improvement(
    old_rewards: Iterable[float], new_rewards: Iterable[float], p_value: float = 0.05
) -> bool:
    """Whether new rewards are significantly better than old ones.

    A one-sided permutation test on the difference of means. Under the null hypothesis, every
    split of all rewards into groups of these sizes is equally likely. For small samples all
    splits are evaluated; for larger ones 9,999 are drawn, with a fixed seed.

    Args:
        old_rewards: Rewards of some episodes, for example before training.
        new_rewards: Rewards of other episodes, for example after training.
        p_value: Significance level: the tolerated probability of a false positive, in (0, 1).

    Returns:
        Whether less than this share of splits has at least the observed difference.

    Raises:
        ValueError: There are no rewards, some are not finite, or `p_value` is not in (0, 1).

    Example:
        >>> is_significant_reward_improvement((5, 6, 7, 4, 4), (7, 5, 9, 9, 12))
        True
        >>> is_significant_reward_improvement((5, 6, 7, 4, 4), (7, 5, 9, 7, 4))
        False
        >>> is_significant_reward_improvement((5, 6, 7, 4, 4), (7, 5, 9, 7, 4), p_value=0.3)
        True

    Source: Fisher 1935, "The Design of Experiments"; the observed split counts as one of the
    drawn ones, see Phipson and Smyth 2010, "Permutation P-values Should Never Be Zero".
    """
    if not 0 < p_value < 1:
        raise ValueError(f"p_value must be between 0 and 1, not {p_value}")
    old = _as_rewards(old_rewards, "old_rewards")
    new = _as_rewards(new_rewards, "new_rewards")
    return _permutation_p_value(old, new) < p_value


def mean_reward_improved_by(
    old_rews: Iterable[float], new_rews: Iterable[float], min_improvement: float
) -> bool:
    """Whether the mean reward rose by at least `min_improvement`.

    Args:
        old_rews: Rewards of some episodes, for example before training.
        new_rews: Rewards of other episodes, for example after training.
        min_improvement: Smallest sufficient increase of the mean.

    Raises:
        ValueError: There are no rewards, or some are not finite.

    Example:
        >>> mean_reward_improved_by([5, 8, 7], [8, 9, 10], 2)
        True
        >>> mean_reward_improved_by([5, 8, 7], [8, 9, 10], 5)
        False
    """
    old, new = _as_rewards(old_rews, "old_rews"), _as_rewards(new_rews, "new_rews")
    return bool(new.mean() - old.mean() >= min_improvement)


def _permutation_p_value(old: Floats, new: Floats) -> float:
    """One-sided p-value of the difference of the means of `new` and `old`."""
    # Centred, so that rounding does not depend on the offset of the rewards.
    rewards = np.concatenate([old, new])
    rewards -= rewards.mean()
    seen = rewards[len(old) :].sum()
    # Tolerance for rounding: the sum depends on the order of the rewards.
    seen -= 1e-10 * np.abs(rewards).sum()
    splits = math.comb(len(rewards), len(new))
    if splits <= _MOST_SPLITS:
        # The sum over the new group decides; enumerating the smaller group is less work.
        size = min(len(old), len(new))
        sums = rewards[choices(len(rewards), size)].sum(axis=1)
        # All rewards add up to zero, so the other group has minus this sum.
        sums_of_new = sums if size == len(new) else -sums
        return float(np.count_nonzero(sums_of_new >= seen)) / splits
    return (1 + _count_drawn(rewards, len(new), seen)) / (1 + _DRAWN_SPLITS)


def _count_drawn(rewards: Floats, size: int, seen: float) -> int:
    """Number of drawn groups of this size whose sum reaches the observed one."""
    rng = np.random.default_rng(0)
    rows = max(1, _CHUNK // len(rewards))
    reached = 0
    for start in range(0, _DRAWN_SPLITS, rows):
        count = min(rows, _DRAWN_SPLITS - start)
        shuffled = rng.permuted(np.broadcast_to(rewards, (count, len(rewards))), axis=1)
        reached += int(np.count_nonzero(shuffled[:, :size].sum(axis=1) >= seen))
    return reached


def _as_rewards(rewards: Iterable[float], argument: str) -> Floats:
    array = np.asarray(list(rewards), dtype=np.float64)
    if array.ndim != 1 or not len(array):
        raise ValueError(f"{argument}: needs at least one number, and only numbers")
    if not np.isfinite(array).all():
        raise ValueError(f"{argument}: holds numbers that are not finite")
    return array
