"""Evaluation episodes of one policy, and of a run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Episodes:
    """Evaluation episodes, one entry each.

    Attributes:
        returns: Undiscounted sums of the environment's reward, shape (episodes,), float64.
        lengths: Numbers of steps, shape (episodes,), int64.
        terminated: Whether each ended in a terminal state, shape (episodes,), bool.
        deterministic: Whether the policy acted deterministically.
    """

    returns: npt.NDArray[np.float64]
    lengths: npt.NDArray[np.int64]
    terminated: npt.NDArray[np.bool_]
    deterministic: bool


@dataclass(frozen=True)
class EpisodeTable:
    """Evaluation episodes of a run, one entry each; all arrays have the same length."""

    returns: npt.NDArray[np.float64]
    lengths: npt.NDArray[np.int64]
    terminated: npt.NDArray[np.bool_]
    deterministic: npt.NDArray[np.bool_]
