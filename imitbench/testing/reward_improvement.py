"""Did rewards improve, and could that be luck?"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_MOST_SPLITS = 20_000
"""Up to so many ways to split rewards into two groups are all tried."""
_DRAWN_SPLITS = 9_999
_CHUNK = 2_000_000


def is_significant_reward_improvement(
    old_rewards: Iterable[float], new_rewards: Iterable[float], p_value: float = 0.05
) -> bool:
    """Whether new rewards are better than old ones beyond what luck explains.

    A one-sided permutation test on the difference of means. If old and new did not differ, every
    split of all rewards into two such groups would be as likely as the one that was seen. Small
    samples have all splits tried; for larger ones 9,999 are drawn, always the same ones.

    Args:
        old_rewards: Rewards of some episodes, before training for example.
        new_rewards: Rewards of other episodes, after training for example.
        p_value: The probability of a wrong "yes" that is tolerated when nothing improved.

    Returns:
        Whether fewer than this share of splits are as good as the one that was seen.

    Raises:
        ValueError: There are no rewards, some are not finite, or `p_value` is not in (0, 1).

    Example:
        >>> is_significant_reward_improvement((5, 6, 7, 4, 4), (7, 5, 9, 9, 12))
        True
        >>> is_significant_reward_improvement((5, 6, 7, 4, 4), (7, 5, 9, 7, 4))
        False
        >>> is_significant_reward_improvement((5, 6, 7, 4, 4), (7, 5, 9, 7, 4), p_value=0.3)
        True

    Source: Fisher 1935, "The Design of Experiments"; for drawn splits the seen one counts as one
    of them, see Phipson and Smyth 2010, "Permutation P-values Should Never Be Zero".
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
        old_rews: Rewards of some episodes, before training for example.
        new_rews: Rewards of other episodes, after training for example.
        min_improvement: By how much the mean must have risen.

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
    """Probability of a difference like that of `new` and `old`, or a greater one, by luck."""
    # Centred, so that rounding does not depend on where zero is.
    rewards = np.concatenate([old, new])
    rewards -= rewards.mean()
    seen = rewards[len(old) :].sum()
    # The same rewards in another order may add up to something slightly different.
    seen -= 1e-10 * np.abs(rewards).sum()
    splits = math.comb(len(rewards), len(new))
    if splits <= _MOST_SPLITS:
        # The sum over the new group decides; choosing the smaller group is less work.
        size = min(len(old), len(new))
        chosen = np.fromiter(
            itertools.chain.from_iterable(itertools.combinations(range(len(rewards)), size)),
            dtype=np.intp,
            count=splits * size,
        )
        sums = rewards[chosen.reshape(splits, size)].sum(axis=1)
        # The whole adds up to zero, so the other group has minus this sum.
        sums_of_new = sums if size == len(new) else -sums
        return float(np.count_nonzero(sums_of_new >= seen)) / splits
    return (1 + _count_drawn(rewards, len(new), seen)) / (1 + _DRAWN_SPLITS)


def _count_drawn(rewards: Floats, size: int, seen: float) -> int:
    """How many drawn groups of that size reach the sum seen."""
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
        raise ValueError(f"{argument}: needs at least one number, and nothing but numbers")
    if not np.isfinite(array).all():
        raise ValueError(f"{argument}: holds numbers that are not finite")
    return array
