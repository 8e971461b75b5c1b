"""Evaluation episodes of one policy, and of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Episodes:
    """Evaluation episodes, one entry own.

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

    @classmethod
    def of(cls, evaluations: Sequence[Episodes]) -> EpisodeTable:
        """Returns the episodes of several evaluations, in order."""
        return cls(
            returns=np.concatenate([own.returns for own in evaluations]),
            lengths=np.concatenate([own.lengths for own in evaluations]),
            terminated=np.concatenate([own.terminated for own in evaluations]),
            deterministic=np.concatenate(
                [np.full(len(own.returns), own.deterministic) for own in evaluations]
            ),
        )

    @property
    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Columns of `episodes.parquet` by name."""
        return {
            "episode": np.arange(len(self.returns), dtype=np.int64),
            "deterministic": self.deterministic,
            "raw_return": self.returns,
            "length": self.lengths,
            "terminated": self.terminated,
            "truncated": ~self.terminated,
        }
