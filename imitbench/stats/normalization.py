"""Normalizes raw returns to scores: 0 for random actions, 1 for the expert."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def has_scale(random: float, expert: float) -> bool:
    """Whether references define scores: both are finite, and the expert's is above random's.

    Args:
        random: Mean return of uniformly random actions.
        expert: Mean return of the expert.
    """
    return math.isfinite(random) and random < expert < math.inf


@overload
def normalize(raw_return: float, random: float, expert: float) -> float: ...
@overload
def normalize(
    raw_return: npt.NDArray[np.float64], random: float, expert: float
) -> npt.NDArray[np.float64]: ...
def normalize(
    raw_return: float | npt.NDArray[np.float64], random: float, expert: float
) -> float | npt.NDArray[np.float64]:
    """Converts returns to the scale on which random actions score 0 and the expert scores 1.

    Every score is computed here. It is undefined if `has_scale` is false: NaN in arrays and
    rows, NULL in the database, null in JSON.

    Args:
        raw_return: Undiscounted return or an array of them, any shape. Scores are not clipped:
            a policy may be worse than random (below 0) or better than the expert (above 1).
        random: Mean return of uniformly random actions.
        expert: Mean return of the expert.

    Returns:
        (raw_return - random) / (expert - random), in the shape of `raw_return`; NaN if it is
        undefined.

    Source: the human-normalized score of Mnih et al. 2015, "Human-level control through deep
    reinforcement learning", Methods, with the expert in place of the human.
    """
    if not has_scale(random, expert):
        return raw_return * math.nan
    return (raw_return - random) / (expert - random)
