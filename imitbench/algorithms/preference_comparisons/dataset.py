"""The dataset of comparisons, and the form of it that reward trainers use."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, overload

import numpy as np
import numpy.typing as npt
from torch.utils.data import Dataset

from imitbench.algorithms.preference_comparisons import dataset_storage
from imitbench.algorithms.preference_comparisons.dataset_storage import (
    PreferenceArrays,
    fragment_digest,
)
from imitbench.algorithms.preference_comparisons.fragment_batch import FragmentPairs
from imitbench.data.trusted import unpickle_comparisons
from imitbench.data.types import (
    AnyPath,
    DictObs,
    Observation,
    Pair,
    TrajectoryWithRew,
    TrajectoryWithRewPair,
)
from imitbench.errors import InputError
from imitbench.util.text_line import one_line

Array = npt.NDArray[Any]
Preferences = npt.NDArray[np.float32]


class PreferenceDataset(Dataset[tuple[TrajectoryWithRewPair, float]]):
    """A torch `Dataset` of pairs of fragments with preferences; `push` adds to it.

    An integer index gives `((fragment1, fragment2), preference)`, a slice
    `((fragments1, fragments2), preferences)`.

    Fragments with the same content are stored once, as one object. `push` copies new fragments, so
    that they do not keep their whole trajectories in memory. Infos are dropped: training does not
    use them, and rendered frames in them are large.

    Args:
        max_size: Maximum number of comparisons; the oldest are dropped first. `None` for no limit.

    Attributes:
        fragments1: First fragments, oldest comparison first. Change only with `push`.
        fragments2: Second fragments, in the same order.
        preferences: Probabilities that the first is preferred, shape `(len(self),)`, float32.
        weights: How much each comparison counts in training, shape `(len(self),)`, float32.

    Raises:
        ValueError: `max_size` is not positive.
    """

    def __init__(self, max_size: int | None = None) -> None:
        if max_size is not None and max_size < 1:
            raise ValueError(f"max_size must be positive or None, not {max_size}")
        self.max_size = max_size
        self.fragments1: list[TrajectoryWithRew] = []
        self.fragments2: list[TrajectoryWithRew] = []
        self.preferences: Preferences = np.zeros(0, dtype=np.float32)
        self.weights: Preferences = np.zeros(0, dtype=np.float32)
        self._digests: list[tuple[bytes, bytes]] = []
        self._interned: dict[bytes, TrajectoryWithRew] = {}

    def push(
        self,
        fragments: Sequence[TrajectoryWithRewPair],
        preferences: npt.NDArray[Any],
        weights: npt.NDArray[Any] | None = None,
    ) -> None:
        """Adds comparisons, and drops the oldest ones if there are more than `max_size`.

        Args:
            fragments: Pairs of fragments of equal length.
            preferences: Probability that the first of each pair is preferred, shape
                `(len(fragments),)`, float32, in [0, 1]. NaN means no answer: the pair is skipped.
            weights: How much each comparison counts, shape `(len(fragments),)`, positive; all 1
                when `None`.

        Raises:
            ValueError: An argument is invalid; nothing is added.
        """
        preferences = _checked(fragments, preferences)
        weights = _checked_weights(weights, len(fragments))
        kept = np.flatnonzero(~np.isnan(preferences)).tolist()
        if self.max_size is not None:
            kept = kept[-self.max_size :]
        pairs = [fragments[index] for index in kept]
        digests = [(fragment_digest(first), fragment_digest(second)) for first, second in pairs]
        if self.max_size is not None:
            self._drop_oldest(len(self) + len(pairs) - self.max_size)
        for pair, digest in zip(pairs, digests, strict=True):
            self.fragments1.append(self._intern(pair[0], digest[0]))
            self.fragments2.append(self._intern(pair[1], digest[1]))
        self._digests += digests
        self.preferences = np.concatenate([self.preferences, preferences[kept]])
        self.weights = np.concatenate([self.weights, weights[kept]])

    @overload
    def __getitem__(self, key: int) -> tuple[TrajectoryWithRewPair, float]: ...

    @overload
    def __getitem__(self, key: slice) -> tuple[Pair[Sequence[TrajectoryWithRew]], Preferences]: ...

    def __getitem__(
        self, key: int | slice
    ) -> (
        tuple[TrajectoryWithRewPair, float] | tuple[Pair[Sequence[TrajectoryWithRew]], Preferences]
    ):
        return (self.fragments1[key], self.fragments2[key]), self.preferences[key]  # type: ignore[return-value]

    def __len__(self) -> int:
        """Number of comparisons."""
        return len(self.fragments1)

    def save(self, path: AnyPath) -> None:
        """Writes the dataset to a safetensors file, atomically.

        `imitbench.algorithms.preference_comparisons.dataset_storage` documents the format.

        Args:
            path: File to write, of any name.

        Raises:
            OSError: The file cannot be written.
        """
        dataset_storage.write_file(Path(os.fsdecode(path)), self.state_dict())

    @staticmethod
    def load(path: AnyPath, trust: bool = False) -> PreferenceDataset:
        """Reads what `save` wrote.

        Args:
            path: File of `save`, or a pickle.
            trust: Whether to open a pickle of the reference library. Only arrays and fragments are
                unpickled.

        Raises:
            MissingPathError: There is no such file (also a `FileNotFoundError`).
            InputError: The file is damaged, has another format, or is a pickle without `trust`.
        """
        file = Path(os.fsdecode(path))
        if dataset_storage.is_pickle(file):
            if not trust:
                raise InputError(
                    f"{file}: a pickle, which could execute code; if the reference library wrote "
                    "it and you trust its source, pass trust=True, then save it again"
                )
            return _of_pickle(file)
        packed = dataset_storage.read_file(file)
        dataset = PreferenceDataset()
        try:
            dataset.load_state_dict(packed)
        except ValueError as error:
            raise InputError(
                f"{file}: not a valid preference dataset ({one_line(error)}); save it again"
            ) from error
        return dataset

    def state_dict(self) -> dict[str, Any]:
        """The content as arrays, each fragment once."""
        return dataset_storage.pack(
            PreferenceArrays(
                self.fragments1, self.fragments2, self.preferences, self.max_size, self.weights
            )
        )

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replaces the content, `max_size` included, by what `state_dict` returned.

        Raises:
            ValueError: `state` is not from `state_dict`.
        """
        self._replace(dataset_storage.unpack(state))

    def _replace(self, given: PreferenceArrays) -> None:
        pairs = list(zip(given.fragments1, given.fragments2, strict=True))
        if given.max_size is not None and len(pairs) > given.max_size:
            raise ValueError(f"{len(pairs)} comparisons, more than max_size {given.max_size}")
        fresh = PreferenceDataset(given.max_size)
        fresh.push(pairs, given.preferences, given.weights)
        self.__dict__.update(fresh.__dict__)

    def _intern(self, fragment: TrajectoryWithRew, digest: bytes) -> TrajectoryWithRew:
        """The stored fragment of that content; stores a copy of a new one."""
        held = self._interned.get(digest)
        if held is None:
            held = _copy(fragment)
            self._interned[digest] = held
        return held

    def _drop_oldest(self, count: int) -> None:
        if count <= 0:
            return
        gone = {digest for pair in self._digests[:count] for digest in pair}
        del self.fragments1[:count], self.fragments2[:count], self._digests[:count]
        self.preferences, self.weights = self.preferences[count:], self.weights[count:]
        for digest in gone.difference(*self._digests):
            del self._interned[digest]


def _checked(
    fragments: Sequence[TrajectoryWithRewPair], preferences: npt.NDArray[Any]
) -> Preferences:
    if not isinstance(preferences, np.ndarray) or preferences.shape != (len(fragments),):
        raise ValueError(
            f"preferences must be an array of shape ({len(fragments)},), one for each pair, not "
            f"{getattr(preferences, 'shape', type(preferences).__name__)}"
        )
    if preferences.dtype != np.float32:
        raise ValueError(f"preferences must have data type float32, not {preferences.dtype}")
    odd = np.flatnonzero(~(np.isnan(preferences) | ((preferences >= 0) & (preferences <= 1))))
    if len(odd):
        raise ValueError(
            f"preferences must lie in [0, 1], but that of pair {odd[0]} is {preferences[odd[0]]}"
        )
    for index, (first, second) in enumerate(fragments):
        if not (isinstance(first, TrajectoryWithRew) and isinstance(second, TrajectoryWithRew)):
            raise ValueError(f"fragments: pair {index} is not a pair of TrajectoryWithRew")
        if len(first) != len(second):
            raise ValueError(
                f"fragments: pair {index} has fragments of {len(first)} and {len(second)} steps; "
                "compare equally long ones"
            )
    return preferences


def _checked_weights(weights: npt.NDArray[Any] | None, count: int) -> Preferences:
    if weights is None:
        return np.ones(count, dtype=np.float32)
    if np.shape(weights) != (count,):
        raise ValueError(
            f"weights must have shape ({count},), one for each pair, not {np.shape(weights)}"
        )
    given = np.asarray(weights, dtype=np.float32)
    odd = np.flatnonzero(~(np.isfinite(given) & (given > 0)))
    if len(odd):
        raise ValueError(
            f"weights must be positive and finite, but that of pair {odd[0]} is {given[odd[0]]}"
        )
    return given


def _copy(fragment: TrajectoryWithRew) -> TrajectoryWithRew:
    obs: Observation = (
        fragment.obs.map_arrays(np.array)
        if isinstance(fragment.obs, DictObs)
        else np.array(fragment.obs)
    )
    return TrajectoryWithRew(
        obs, np.array(fragment.acts), None, bool(fragment.terminal), np.array(fragment.rews)
    )


def _of_pickle(path: Path) -> PreferenceDataset:
    content = unpickle_comparisons(path)
    dataset = PreferenceDataset()
    try:
        dataset._replace(PreferenceArrays(*content))
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}: not a valid preference dataset ({one_line(error)})") from error
    return dataset


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
