"""Evaluation episodes of one policy, and of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
        success: Whether each was a success, shape (episodes,), bool; `None` if the environment has
            no such measure.
        measures: What the last infos measure, by the name of the entry, shape (episodes,), float64.
    """

    returns: npt.NDArray[np.float64]
    lengths: npt.NDArray[np.int64]
    terminated: npt.NDArray[np.bool_]
    deterministic: bool
    success: npt.NDArray[np.bool_] | None = None
    measures: Mapping[str, npt.NDArray[np.float64]] = field(default_factory=dict)

    @property
    def mean_measures(self) -> dict[str, float]:
        """Means of what is measured besides return and success."""
        return {name: float(values.mean()) for name, values in self.measures.items()}

    @property
    def success_rate(self) -> float | None:
        """Share of successful episodes; `None` if it is not measured."""
        return None if self.success is None else float(self.success.mean())


@dataclass(frozen=True)
class EpisodeTable:
    """Evaluation episodes of a run, one entry each; all arrays have the same length.

    `success` is `None` if the environment has no such measure.
    """

    returns: npt.NDArray[np.float64]
    lengths: npt.NDArray[np.int64]
    terminated: npt.NDArray[np.bool_]
    deterministic: npt.NDArray[np.bool_]
    success: npt.NDArray[np.bool_] | None = None

    @classmethod
    def of(cls, evaluations: Sequence[Episodes]) -> EpisodeTable:
        """Returns the episodes of several evaluations, in order."""
        success = [own.success for own in evaluations if own.success is not None]
        return cls(
            returns=np.concatenate([own.returns for own in evaluations]),
            lengths=np.concatenate([own.lengths for own in evaluations]),
            terminated=np.concatenate([own.terminated for own in evaluations]),
            deterministic=np.concatenate(
                [np.full(len(own.returns), own.deterministic) for own in evaluations]
            ),
            success=np.concatenate(success) if len(success) == len(evaluations) else None,
        )

    @property
    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Columns of `episodes.parquet` by name; `success` is there if it is measured."""
        columns: dict[str, npt.NDArray[Any]] = {
            "episode": np.arange(len(self.returns), dtype=np.int64),
            "deterministic": self.deterministic,
            "raw_return": self.returns,
            "length": self.lengths,
            "terminated": self.terminated,
            "truncated": ~self.terminated,
        }
        return columns if self.success is None else columns | {"success": self.success}
