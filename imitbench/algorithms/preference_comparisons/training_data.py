"""Comparisons in the form that reward trainers use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from imitbench.algorithms.preference_comparisons.fragment_batch import FragmentPairs
from imitbench.data.types import TrajectoryWithRewPair

Array = npt.NDArray[Any]


class ComparisonDataset(Protocol):
    """Any dataset of comparisons, such as `PreferenceDataset`."""

    def __len__(self) -> int:
        """Number of comparisons."""

    def __getitem__(self, key: int, /) -> Any:
        """Returns `((fragment1, fragment2), probability that the first is preferred)`."""


def preference_collate_fn(
    batch: Sequence[tuple[TrajectoryWithRewPair, float]],
) -> tuple[Sequence[TrajectoryWithRewPair], npt.NDArray[Any]]:
    """Collates entries of a `PreferenceDataset`; the `collate_fn` of a `DataLoader`.

    Args:
        batch: Comparisons, at least one.

    Returns:
        The pairs of fragments, and the preferences, shape `(len(batch),)`.
    """
    pairs, preferences = zip(*batch, strict=True)
    return list(pairs), np.array(preferences)


@dataclass(frozen=True)
class TrainingData:
    """Comparisons whose steps are joined only once, for all epochs.

    Attributes:
        pairs: The pairs of fragments.
        preferences: Probabilities that the first of each is preferred, shape `(n,)`, float32.
        origins: Index of each comparison in the dataset, shape `(n,)`; a bag has duplicates.
        weights: Factor on each comparison's loss, shape `(n,)`, float32, with mean 1 over the
            dataset; `None` if all are 1.
    """

    pairs: FragmentPairs
    preferences: npt.NDArray[np.float32]
    origins: Array
    weights: npt.NDArray[np.float32] | None = None

    @classmethod
    def of(cls, dataset: ComparisonDataset) -> TrainingData:
        """All comparisons of a dataset.

        Raises:
            ValueError: The dataset is empty, or a preference is outside [0, 1].
        """
        if isinstance(dataset, cls):
            return dataset
        number = len(dataset)
        if not number:
            raise ValueError("dataset is empty: push comparisons into it before training")
        pairs, preferences = preference_collate_fn([dataset[index] for index in range(number)])
        checked = preferences.astype(np.float32)
        odd = np.flatnonzero(~((checked >= 0) & (checked <= 1)))
        if len(odd):
            raise ValueError(
                f"dataset: the preference of comparison {odd[0]} is {checked[odd[0]]}; it must "
                "lie in [0, 1]"
            )
        return cls(FragmentPairs(pairs), checked, np.arange(number), _relative_weights(dataset))

    def __len__(self) -> int:
        """Number of comparisons."""
        return len(self.preferences)

    def __getitem__(self, key: int) -> tuple[Any, float]:
        """A comparison, as in `PreferenceDataset`."""
        return self.pairs[key], float(self.preferences[key])

    def take(self, indices: Array) -> TrainingData:
        """Selects comparisons by index, in the given order; may have duplicates."""
        return TrainingData(
            self.pairs.take(indices),
            self.preferences[indices],
            self.origins[indices],
            self.weights_of(indices),
        )

    def weights_of(self, indices: Array) -> npt.NDArray[np.float32] | None:
        """Weights of some comparisons, or `None`."""
        return None if self.weights is None else self.weights[indices]

    def split(self, share: float, rng: np.random.Generator) -> tuple[TrainingData, TrainingData]:
        """Splits the comparisons at random; duplicates stay in the same part.

        Args:
            share: Share of the second part, in (0, 1), rounded down.
            rng: Draws the split.

        Raises:
            ValueError: A part would be empty.
        """
        different = np.unique(self.origins)
        size = int(len(different) * share)
        if not 0 < size < len(different):
            raise ValueError(
                f"dataset: {len(different)} comparisons are too few to validate on a share of "
                f"{share}; gather more before the first training (initial_comparison_frac), or "
                "change val_split"
            )
        second = np.isin(self.origins, rng.permutation(different)[:size])
        return self.take(np.flatnonzero(~second)), self.take(np.flatnonzero(second))


def _relative_weights(dataset: ComparisonDataset) -> npt.NDArray[np.float32] | None:
    """Weights with mean 1, so that the size of steps does not depend on their unit."""
    weights = getattr(dataset, "weights", None)
    if weights is None or (weights == weights[0]).all():
        return None
    relative: npt.NDArray[np.float32] = (weights / weights.mean(dtype=np.float64)).astype(
        np.float32
    )
    return relative


def in_batches(order: Array, size: int) -> Iterator[Array]:
    """Splits an order of comparisons into batches; the last may be smaller."""
    for start in range(0, len(order), size):
        yield order[start : start + size]
