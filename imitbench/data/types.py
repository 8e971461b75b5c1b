"""Batches of transitions; also re-exports the types of trajectories and observations."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, TypeVar, overload

import numpy as np
import numpy.typing as npt
import torch as th
from torch.utils.data import Dataset

from imitbench.data.observations import (
    DictObs,
    Observation,
    ObsVar,
    assert_not_dictobs,
    concatenate_maybe_dictobs,
    map_maybe_dict,
    maybe_unwrap_dictobs,
    maybe_wrap_in_dictobs,
    stack_maybe_dictobs,
    values_equal,
)
from imitbench.data.trajectories import (
    Trajectory,
    TrajectoryWithRew,
    check_rewards,
    dataclass_quick_asdict,
)
from imitbench.util.util import AnyPath

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "AnyPath",
    "AnyTensor",
    "DictObs",
    "ObsVar",
    "Observation",
    "Pair",
    "TensorVar",
    "Trajectory",
    "TrajectoryPair",
    "TrajectoryWithRew",
    "TrajectoryWithRewPair",
    "TransitionKind",
    "TransitionMapping",
    "TransitionMappingNoNextObs",
    "Transitions",
    "TransitionsMinimal",
    "TransitionsWithRew",
    "assert_not_dictobs",
    "concatenate_maybe_dictobs",
    "dataclass_quick_asdict",
    "map_maybe_dict",
    "maybe_unwrap_dictobs",
    "maybe_wrap_in_dictobs",
    "stack_maybe_dictobs",
    "transitions_collate_fn",
]

T = TypeVar("T")
Array = npt.NDArray[Any]

AnyTensor: TypeAlias = npt.NDArray[Any] | th.Tensor
TensorVar = TypeVar("TensorVar", Array, th.Tensor)
Pair: TypeAlias = tuple[T, T]
TrajectoryPair: TypeAlias = tuple[Trajectory, Trajectory]
TrajectoryWithRewPair: TypeAlias = tuple[TrajectoryWithRew, TrajectoryWithRew]


class TransitionMappingNoNextObs(TypedDict):
    """Fields of every batch of transitions."""

    obs: Observation | th.Tensor
    acts: AnyTensor


class TransitionMapping(TransitionMappingNoNextObs, total=False):
    """A batch of transitions as a dictionary, for example from a `DataLoader`."""

    next_obs: Observation | th.Tensor
    dones: AnyTensor
    rews: AnyTensor
    infos: Sequence[Mapping[str, Any]]


@dataclasses.dataclass(frozen=True, eq=False)
class TransitionsMinimal(Dataset[Mapping[str, Any]], Sequence[Mapping[str, Any]]):
    """A torch `Dataset` of observation-action pairs.

    Usually made by `imitbench.data.rollout.flatten_trajectories`. An integer index gives a
    dictionary from field names to that entry's values; a slice, a mask or an array of indices
    gives a batch of the same class.

    Attributes:
        obs: Observations before the actions, shape `(N, *observation_shape)`. Entries need not
            be consecutive.
        acts: Actions, shape `(N, *action_shape)`.
        infos: Info dictionaries, shape `(N,)`.

    The fields are read-only views, because batches share memory.

    Raises:
        ValueError: Lengths differ.
    """

    obs: Observation
    acts: Array
    infos: Array

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, read_only(getattr(self, field.name)))
        if len(self.obs) != len(self.acts):
            raise ValueError(f"there are {len(self.obs)} observations for {len(self.acts)} actions")
        if len(self.infos) != len(self.acts):
            raise ValueError(f"there are {len(self.infos)} infos for {len(self.acts)} actions")

    def __len__(self) -> int:
        """Number of transitions."""
        return len(self.acts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TransitionsMinimal):
            return NotImplemented
        return type(self) is type(other) and values_equal(
            dataclass_quick_asdict(self), dataclass_quick_asdict(other)
        )

    @overload
    def __getitem__(self, key: int) -> Mapping[str, Any]: ...

    @overload
    def __getitem__(self, key: slice | Array) -> Self: ...

    def __getitem__(self, key: int | slice | Array) -> Mapping[str, Any] | Self:
        entries = {name: value[key] for name, value in dataclass_quick_asdict(self).items()}
        if isinstance(key, int | np.integer):
            return entries
        return dataclasses.replace(self, **entries)


@dataclasses.dataclass(frozen=True, eq=False)
class Transitions(TransitionsMinimal):
    """A batch of transitions: observation, action, next observation, done.

    Attributes:
        next_obs: Observations after the actions, same shape and data type as `obs`.
        dones: Whether `next_obs[i]` is the last of its episode, shape `(N,)`, bool.

    Raises:
        ValueError: Shapes, lengths or data types do not match.
    """

    next_obs: Observation
    dones: Array

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.obs.shape != self.next_obs.shape:
            raise ValueError(
                f"obs has shape {self.obs.shape} but next_obs has shape {self.next_obs.shape}"
            )
        if self.obs.dtype != self.next_obs.dtype:
            raise ValueError(
                f"obs has data type {self.obs.dtype} but next_obs has {self.next_obs.dtype}"
            )
        if self.dones.shape != (len(self.acts),):
            raise ValueError(
                f"dones has shape {self.dones.shape}; it needs ({len(self.acts)},), one per action"
            )
        if self.dones.dtype != bool:
            raise ValueError(f"dones has data type {self.dones.dtype}; it needs bool")


@dataclasses.dataclass(frozen=True, eq=False)
class TransitionsWithRew(Transitions):
    """`Transitions` with rewards.

    Attributes:
        rews: Rewards, shape `(N,)`, a floating-point data type.

    Raises:
        ValueError: Rewards have another shape or data type.
    """

    rews: Array

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rewards(self.rews, len(self.acts))


TransitionKind = TypeVar("TransitionKind", bound=TransitionsMinimal)


def transitions_collate_fn(batch: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Collates entries of `TransitionsMinimal`; the `collate_fn` of a `DataLoader`.

    Args:
        batch: Entries of transitions, each from an integer index.

    Returns:
        Tensors with the batch in their first dimension, except that `infos` is a list of the
        dictionaries (torch's default would merge them) and dictionary observations are one
        `DictObs`.
    """
    return {name: _collate(name, [entry[name] for entry in batch]) for name in batch[0]}


def _collate(name: str, values: list[Any]) -> Any:
    if name == "infos":
        return values
    if isinstance(values[0], DictObs):
        return DictObs.stack(values)
    return th.from_numpy(np.stack(values))


def read_only(value: Any) -> Any:
    """Returns a read-only view; the caller's array remains writable."""
    if isinstance(value, DictObs):
        return value.map_arrays(read_only)
    if isinstance(value, np.ndarray) and value.flags.writeable:
        value = value.view()
        value.flags.writeable = False
    return value
