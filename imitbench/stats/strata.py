"""Groups scores by environment, as input of all aggregates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Strata:
    """Scores of one algorithm with one stratum per environment, of one sample or of a batch.

    Environments may have different numbers of runs; no run is dropped to make them equal.

    Attributes:
        values: Scores, shape (..., runs), float64: the runs of the first environment, then those
            of the second, and so on. Leading axes are a batch of samples of the same layout.
        sizes: Number of runs of each environment, at least one each; their sum is `runs`.
    """

    values: FloatArray
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, scores: Scores) -> Strata:
        """Groups scores; the result does not depend on the order of environments or runs.

        Args:
            scores: A mapping from environment to its scores, shape (runs of it,); or a matrix of
                shape (runs, environments), as in rliable; or strata, which are returned
                unchanged.

        Returns:
            The scores as one unbatched sample.

        Raises:
            ValueError: There are no environments, one has no runs or more than one axis, or a
                score is not finite.
        """
        if isinstance(scores, Strata):
            return scores
        if isinstance(scores, Mapping):
            columns = {name: np.asarray(scores[name], dtype=np.float64) for name in sorted(scores)}
        else:
            matrix = np.asarray(scores, dtype=np.float64)
            if matrix.ndim != 2:
                raise ValueError(
                    f"scores: a matrix needs the shape (runs, environments), not {matrix.shape}"
                )
            columns = {f"column {i}": column for i, column in enumerate(matrix.T)}
        if not columns:
            raise ValueError("scores: no environments")
        for name, column in columns.items():
            if column.ndim != 1 or not column.size:
                raise ValueError(
                    f"scores: {name} needs the shape (runs,) with at least one run, "
                    f"not {column.shape}"
                )
            if not np.isfinite(column).all():
                raise ValueError(f"scores: {name} contains a value that is not finite")
        # Sorted runs make sums, and so every printed digit, independent of the order of rows.
        values = np.concatenate([np.sort(column) for column in columns.values()])
        return cls(values, tuple(column.size for column in columns.values()))

    @property
    def starts(self) -> npt.NDArray[np.intp]:
        """Returns the index of each environment's first run, shape (environments,)."""
        return np.concatenate([[0], np.cumsum(self.sizes[:-1])]).astype(np.intp)

    def means(self) -> FloatArray:
        """Returns the mean score of each environment, shape (..., environments)."""
        sums: FloatArray = np.add.reduceat(self.values, self.starts, axis=-1)
        return sums / np.asarray(self.sizes, dtype=np.float64)

    def columns(self) -> list[FloatArray]:
        """Returns the scores of each environment, each of shape (..., its runs)."""
        return np.split(self.values, self.starts[1:], axis=-1)

    @property
    def weights(self) -> FloatArray:
        """Returns the weight of each run if environments weigh 1 each, shape (runs,)."""
        return np.repeat(1 / np.asarray(self.sizes, dtype=np.float64), self.sizes)

    def ascending(self) -> tuple[FloatArray, FloatArray]:
        """Returns scores in ascending order, with their weights.

        Returns:
            Scores, and the weight of each in every sample, which the caller may overwrite. Each
            has the shape (..., runs), without the leading axes if it is the same in all
            samples.
        """
        order = np.argsort(self.values, axis=-1)
        return np.take_along_axis(self.values, order, axis=-1), self.weights.take(order)


@dataclass(frozen=True, eq=False)
class Resamples(Strata):
    """A batch drawn with replacement from one sample.

    It has the order of the sample, so that it needs no new sorting.

    Attributes:
        drawn: Index of the drawn run, in ascending order of the sample's scores; the shape of
            `values`.
        sample: Scores and weights of the sample in that order, each of shape (runs,).
    """

    drawn: npt.NDArray[np.intp]
    sample: tuple[FloatArray, FloatArray]

    def ascending(self) -> tuple[FloatArray, FloatArray]:
        """Returns scores in ascending order, with their weights; runs not drawn have weight 0."""
        scores, weights = self.sample
        rows, runs = self.drawn.shape
        positions = self.drawn + np.arange(rows)[:, None] * runs
        counts = np.bincount(positions.ravel(), minlength=positions.size).reshape(rows, runs)
        return scores, counts * weights


Scores: TypeAlias = Strata | Mapping[str, npt.ArrayLike] | FloatArray
"""Input of aggregates; see `Strata.of`."""


def matched(first: Scores, second: Scores) -> tuple[Strata, Strata]:
    """Groups the scores of two algorithms on the same environments.

    Args:
        first: Scores of one algorithm, see `Strata.of`.
        second: Scores of another. Run counts may differ.

    Returns:
        Strata of both, with environments in the same order.

    Raises:
        ValueError: Scores are unusable, or environments differ: see
            `imitbench.stats.coverage.compared_coverage`, which restricts them to the common ones.
    """
    if isinstance(first, Mapping) and isinstance(second, Mapping) and set(first) != set(second):
        apart = sorted(set(first) ^ set(second))
        raise ValueError(f"second: environments differ from first; only one has {', '.join(apart)}")
    one, other = Strata.of(first), Strata.of(second)
    if len(one.sizes) != len(other.sizes):
        raise ValueError(
            f"second: has {len(other.sizes)} environments, but first has {len(one.sizes)}"
        )
    return one, other
