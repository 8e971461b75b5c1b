"""From raw returns to scores: where 0 and 1 lie."""

from __future__ import annotations

import math
from typing import overload

import numpy as np
import numpy.typing as npt

from imitbench.errors import InputError


@overload
def normalize(raw_return: float, random: float, expert: float) -> float: ...
@overload
def normalize(
    raw_return: npt.NDArray[np.float64], random: float, expert: float
) -> npt.NDArray[np.float64]: ...
def normalize(
    raw_return: float | npt.NDArray[np.float64], random: float, expert: float
) -> float | npt.NDArray[np.float64]:
    """Puts returns on the scale where random actions score 0 and the expert scores 1.

    Args:
        raw_return: Undiscounted return or an array of them, any shape. Scores are not clipped:
            a policy may be worse than random (below 0) or better than the expert (above 1).
        random: Mean return of uniformly random actions.
        expert: Mean return of the expert.

    Returns:
        (raw_return - random) / (expert - random), in the shape of `raw_return`.

    Raises:
        InputError: A reference is not finite, or the expert is no better than random, so that
            the scale would be undefined or upside down.

    Source: the human-normalized score of Mnih et al. 2015, "Human-level control through deep
    reinforcement learning", Methods, with the expert in place of the human.
    """
    if not (math.isfinite(random) and math.isfinite(expert)):
        raise InputError(
            f"references random={random!r} and expert={expert!r} must be finite; measure them again"
        )
    if expert <= random:
        raise InputError(
            f"reference expert={expert!r} must exceed random={random!r}: no score is defined; "
            "use a better expert or another environment"
        )
    return (raw_return - random) / (expert - random)
