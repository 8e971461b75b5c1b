"""Decodes pickle and jsonpickle data from files whose source the user trusts.

Objects named by a file are built only in this module. It is called only if the user passes
`trust=True`.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from imitbench.data.infos import OPAQUE
from imitbench.data.observations import DictObs
from imitbench.data.trajectories import Trajectory, TrajectoryWithRew, trajectory_of
from imitbench.errors import InputError
from imitbench.util.extras import import_extra
from imitbench.util.text_line import one_line


def decode_objects(trajectory: Trajectory, where: str = "the data set") -> Trajectory:
    """Decodes infos kept as opaque text into the objects that jsonpickle wrote.

    Args:
        trajectory: A trajectory with or without infos.
        where: Name of the data set in errors.

    Raises:
        InputError: The package jsonpickle is not installed, or cannot decode a text.
    """
    infos = trajectory.infos
    if infos is None or not any(OPAQUE in info for info in infos):
        return trajectory
    jsonpickle = import_extra("jsonpickle", "jsonpickle", "trust=True: decoding these infos")
    try:
        decoded = [  # without `keys`, which the reference library does not write
            jsonpickle.decode(info[OPAQUE], safe=True, keys=False) if OPAQUE in info else info
            for info in infos
        ]
    except Exception as error:  # what the text names may raise any exception
        raise InputError(
            f"{where}: infos cannot be decoded here ({one_line(error)}); read them without trust"
        ) from error
    return dataclasses.replace(trajectory, infos=np.fromiter(decoded, dtype=object))


def unpickle_infos(path: Path) -> npt.NDArray[Any]:
    """Unpickles the infos of an old `.npz` file: one mapping per step of all trajectories.

    Raises:
        InputError: They cannot be unpickled here.
    """
    try:
        with np.load(path, allow_pickle=True) as archive:
            infos: npt.NDArray[Any] = archive["infos"]
    except Exception as error:  # a pickle can make its reader raise any exception
        raise InputError(f"{path}: infos cannot be unpickled here ({one_line(error)})") from error
    if infos.ndim != 1 or not all(isinstance(info, Mapping) for info in infos):
        raise InputError(f"{path}: infos is not a list of dictionaries")
    return infos


class _ObjectStandIn:
    """Stand-in for an object of the reference library: has its fields, but executes no code."""


class _OpaqueStandIn:
    """Stand-in for an object of any other class; ignores its state."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        del args, kwargs

    def __setstate__(self, state: Any) -> None:
        del state

    def __setitem__(self, key: Any, value: Any) -> None:
        del key, value

    def append(self, item: Any) -> None:
        del item

    def extend(self, items: Any) -> None:
        del items


_HELD = {
    ("imitation.algorithms.preference_comparisons", "PreferenceDataset"),
    ("imitation.data.types", "TrajectoryWithRew"),
    ("imitation.data.types", "DictObs"),
}
# NumPy's functions that rebuild arrays, with their names before and since NumPy 2.
_ARRAY_MAKERS: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    **{
        (f"numpy.{core}.{module}", name): maker
        for core in ("core", "_core")
        for module, name, maker in (
            ("multiarray", "_reconstruct", np.zeros(0).__reduce__()[0]),
            ("multiarray", "scalar", np.float64(0).__reduce__()[0]),
            ("numeric", "_frombuffer", np.zeros(1).__reduce_ex__(5)[0]),
        )
    },
}


class _ComparisonsUnpickler(pickle.Unpickler):
    """Builds arrays, and stand-ins for all other objects, so that no function is called."""

    def find_class(self, module: str, name: str) -> Any:
        """Returns a stand-in for the class or function."""
        if (module, name) in _HELD:
            return type(name, (_ObjectStandIn,), {})
        return _ARRAY_MAKERS.get((module, name), _OpaqueStandIn)


def unpickle_comparisons(
    path: Path,
) -> tuple[list[TrajectoryWithRew], list[TrajectoryWithRew], npt.NDArray[np.float32], int | None]:
    """Reads a pickled `PreferenceDataset` of the reference library.

    Returns:
        First fragments, second fragments (without infos), preferences, and `max_size`.

    Raises:
        InputError: It is not such a pickle, or it is damaged.
    """
    try:
        with path.open("rb") as stream:
            content = _ComparisonsUnpickler(stream).load()
        first = [_fragment(held) for held in content.fragments1]
        second = [_fragment(held) for held in content.fragments2]
        preferences = np.asarray(content.preferences, dtype=np.float32)
        max_size = None if content.max_size is None else int(content.max_size)
    except Exception as error:  # a pickle can make its reader raise any exception
        raise InputError(
            f"{path}: not a pickled PreferenceDataset of the reference library ({one_line(error)})"
        ) from error
    return first, second, preferences, max_size


def _fragment(held: Any) -> TrajectoryWithRew:
    obs = held.obs
    obs = DictObs(vars(obs)["_d"]) if isinstance(obs, _ObjectStandIn) else np.asarray(obs)
    return TrajectoryWithRew(obs, np.asarray(held.acts), None, bool(held.terminal), held.rews)


_TRAJECTORY_NAMES = {"Trajectory", "TrajectoryWithRew", "DictObs"}


class _TrajectoriesUnpickler(_ComparisonsUnpickler):
    """Also accepts trajectories under their former module names."""

    def find_class(self, module: str, name: str) -> Any:
        """Returns a stand-in for the class or function."""
        if module.split(".")[0] == "imitation" and name in _TRAJECTORY_NAMES:
            return type(name, (_ObjectStandIn,), {})
        if (module, name) == ("_codecs", "encode"):  # bytes, in protocol 2 and before
            return _bytes_of
        return super().find_class(module, name)


def _bytes_of(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"bytes written as {encoding}")
    return text.encode("latin1")


def unpickle_trajectories(path: Path) -> list[Trajectory]:
    """Reads a pickled sequence of trajectories of old versions of the reference library.

    Arrays and dictionaries are rebuilt; other objects in the infos are dropped.

    Returns:
        At least one trajectory, with rewards where the pickle has them.

    Raises:
        InputError: It is not such a pickle, or it is damaged.
    """
    try:
        with path.open("rb") as stream:
            content = _TrajectoriesUnpickler(stream).load()
        if not isinstance(content, list | tuple):
            raise TypeError(f"it holds a {type(content).__name__}, not a list of trajectories")
    except Exception as error:  # a pickle can make its reader raise any exception
        raise InputError(
            f"{path}: not pickled trajectories of the reference library ({one_line(error)})"
        ) from error
    if not content:
        raise InputError(f"{path}: no trajectories in it: record or fetch it again")
    trajectories = []
    for row, held in enumerate(content):
        try:
            trajectories.append(_trajectory(held))
        except Exception as error:  # fields may have any value
            raise InputError(
                f"{path}, episode {row}: not a trajectory ({one_line(error)}); remove the episode"
            ) from error
    return trajectories


def _trajectory(held: Any) -> Trajectory:
    if not isinstance(held, _ObjectStandIn):
        raise TypeError(f"a {type(held).__name__}")
    fields = vars(held)
    obs = fields["obs"]
    if isinstance(obs, _ObjectStandIn):
        obs = DictObs(vars(obs)["_d"])
    infos = fields.get("infos")
    infos = None if infos is None else _plain_infos(infos)
    # Files from before `terminal` was recorded contain only whole episodes.
    terminal = bool(fields.get("terminal", True))
    rews = fields.get("rews")
    rews = None if rews is None else np.asarray(rews, dtype=float)
    return trajectory_of(obs, np.asarray(fields["acts"]), terminal, rews, infos)


def _plain_infos(infos: Any) -> npt.NDArray[Any]:
    """Removes objects from infos that only code named by the file could build."""
    kept = [
        {
            key: value
            for key, value in dict(info).items()
            if isinstance(key, str)
            and not isinstance(value, _OpaqueStandIn | _ObjectStandIn | type)
        }
        for info in infos
    ]
    return np.fromiter(kept, dtype=object)
