"""Dictionary observations that can be indexed, stacked and compared like an array."""

from __future__ import annotations

import dataclasses
from collections.abc import (
    Callable,
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    Sequence,
    ValuesView,
)
from numbers import Number
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from imitbench.errors import WrongTypeError

Array = npt.NDArray[Any]
In = TypeVar("In")
Out = TypeVar("Out")


@dataclasses.dataclass(frozen=True, eq=False)
class DictObs:
    """Observations of a `gymnasium.spaces.Dict` space, one array per key.

    A `DictObs` usually is a batch or an episode: every array then has the same first
    dimension, which is its `len`, and indexing applies to each array.

    Raises:
        WrongTypeError: A value is neither an array nor a number (also a `TypeError`).
    """

    _d: dict[str, Array]

    def __post_init__(self) -> None:
        for key, value in self._d.items():
            if not isinstance(value, np.ndarray | np.generic | Number):
                raise WrongTypeError(
                    f"observation '{key}' is a {type(value).__name__}, not a NumPy array"
                )
        object.__setattr__(self, "_d", {key: np.asarray(v) for key, v in self._d.items()})

    @classmethod
    def from_obs_list(cls, obs_list: Sequence[Mapping[str, Array]]) -> DictObs:
        """Stacks dictionaries of arrays along a new first dimension."""
        return cls.stack([cls(dict(obs)) for obs in obs_list])

    @classmethod
    def stack(cls, dictobs_list: Iterable[DictObs], **kwargs: Any) -> DictObs:
        """Applies `np.stack` key by key.

        Args:
            dictobs_list: At least one, all with the same keys.
            **kwargs: Passed to `np.stack`.

        Raises:
            ValueError: There is nothing to stack, or keys differ.
        """
        return cls._join(np.stack, dictobs_list, **kwargs)

    @classmethod
    def concatenate(cls, dictobs_list: Iterable[DictObs], **kwargs: Any) -> DictObs:
        """Applies `np.concatenate` key by key.

        Args:
            dictobs_list: At least one, all with the same keys.
            **kwargs: Passed to `np.concatenate`.

        Raises:
            ValueError: There is nothing to concatenate, or keys differ.
        """
        return cls._join(np.concatenate, dictobs_list, **kwargs)

    @classmethod
    def _join(
        cls, join: Callable[..., Array], dictobs_list: Iterable[DictObs], **kwargs: Any
    ) -> DictObs:
        parts = list(dictobs_list)
        if not parts:
            raise ValueError("at least one DictObs is needed")
        keys = parts[0].keys()
        for part in parts[1:]:
            if part.keys() != keys:
                raise ValueError(
                    f"observations have different keys: {sorted(keys)} and {sorted(part.keys())}"
                )
        return cls({key: join([part.get(key) for part in parts], **kwargs) for key in keys})

    def __len__(self) -> int:
        """Common first dimension of all arrays.

        Raises:
            RuntimeError: There are no arrays, an array has no dimension, or lengths differ.
        """
        lengths = {value.shape[0] if value.ndim else None for value in self._d.values()}
        if len(lengths) == 1 and (length := lengths.pop()) is not None:
            return int(length)
        raise RuntimeError(f"arrays of shapes {self.shape} share no length")

    def __getitem__(self, key: Any) -> DictObs:
        """Indexes every array with the same index (integer, slice, mask, or tuple of these)."""
        return DictObs({name: value[key] for name, value in self._d.items()})

    def __iter__(self) -> Iterator[DictObs]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DictObs):
            return NotImplemented
        return self.keys() == other.keys() and all(
            np.array_equal(value, other.get(key)) for key, value in self.items()
        )

    @property
    def dict_len(self) -> int:
        """Number of keys."""
        return len(self._d)

    @property
    def shape(self) -> dict[str, tuple[int, ...]]:
        """Shape of each array."""
        return {key: value.shape for key, value in self._d.items()}

    @property
    def dtype(self) -> dict[str, np.dtype[Any]]:
        """Data type of each array."""
        return {key: value.dtype for key, value in self._d.items()}

    def keys(self) -> KeysView[str]:
        """Returns the names of the arrays."""
        return self._d.keys()

    def values(self) -> ValuesView[Array]:
        """Returns the arrays."""
        return self._d.values()

    def items(self) -> ItemsView[str, Array]:
        """Returns names with their arrays."""
        return self._d.items()

    def get(self, key: str) -> Array:
        """Returns the array under `key`.

        Raises:
            KeyError: The key is missing.
        """
        return self._d[key]

    def unwrap(self) -> dict[str, Array]:
        """Returns the dictionary in the form that Gymnasium and Stable-Baselines3 use."""
        return dict(self._d)

    def map_arrays(self, fn: Callable[[Array], Array]) -> DictObs:
        """Applies `fn` to every array."""
        return DictObs({key: fn(value) for key, value in self._d.items()})


Observation = npt.NDArray[Any] | DictObs
ObsVar = TypeVar("ObsVar", bound=Observation)


def assert_not_dictobs(x: Observation) -> Array:
    """Narrows an observation to an array.

    Raises:
        ValueError: `x` is a `DictObs`.
    """
    if isinstance(x, DictObs):
        raise ValueError("dictionary observations are not supported here: flatten them first")
    return x


def maybe_unwrap_dictobs(maybe_dictobs: Any) -> Any:
    """Converts a `DictObs` to a dictionary and returns anything else unchanged."""
    return maybe_dictobs.unwrap() if isinstance(maybe_dictobs, DictObs) else maybe_dictobs


def maybe_wrap_in_dictobs(obs: Mapping[str, Array] | Observation) -> Observation:
    """Converts a dictionary to a `DictObs` and returns anything else unchanged."""
    return DictObs(dict(obs)) if isinstance(obs, Mapping) else obs


def map_maybe_dict(fn: Callable[[In], Out], maybe_dict: Mapping[str, In] | In) -> Any:
    """Applies `fn` to each value of a dictionary, or to any other value directly."""
    if isinstance(maybe_dict, Mapping):
        return {key: fn(value) for key, value in maybe_dict.items()}
    return fn(maybe_dict)


def stack_maybe_dictobs(arrs: Sequence[ObsVar]) -> ObsVar:
    """Stacks array or dictionary observations along a new first dimension.

    Raises:
        ValueError: There is nothing to stack, or arrays and `DictObs` are mixed.
    """
    return cast(ObsVar, _join_observations(arrs, np.stack, DictObs.stack))


def concatenate_maybe_dictobs(arrs: Sequence[ObsVar]) -> ObsVar:
    """Concatenates array or dictionary observations along the first dimension.

    Raises:
        ValueError: There is nothing to concatenate, or arrays and `DictObs` are mixed.
    """
    return cast(ObsVar, _join_observations(arrs, np.concatenate, DictObs.concatenate))


def _join_observations(
    parts: Sequence[Observation],
    of_arrays: Callable[..., Array],
    of_dicts: Callable[..., DictObs],
) -> Observation:
    kinds = {isinstance(part, DictObs) for part in parts}
    if len(kinds) != 1:
        raise ValueError("expected observations, all arrays or all DictObs")
    return (of_dicts if kinds.pop() else of_arrays)(parts)


def values_equal(a: Any, b: Any) -> bool:
    """Compares fields of trajectories: arrays, dictionary observations, arrays of infos.

    Unlike `==` it always returns a single bool, also for dictionaries of arrays.
    """
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if a.shape != b.shape:
            return False
        if a.dtype == object or b.dtype == object:
            return all(values_equal(x, y) for x, y in zip(a.flat, b.flat, strict=True))
        return bool(np.array_equal(a, b))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(values_equal(a[key], b[key]) for key in a)
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return False
    return bool(a == b)
