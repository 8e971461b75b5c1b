"""Saving trajectories, and loading what this library and the reference library saved."""

from __future__ import annotations

import dataclasses
import os
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from imitbench.data.demonstrations import read_trajectories
from imitbench.data.huggingface_utils import TrajectoryDatasetSequence, trajectories_to_dataset
from imitbench.data.trajectories import Trajectory, TrajectoryWithRew
from imitbench.data.trusted import decode_objects, unpickle_infos
from imitbench.errors import InputError

if TYPE_CHECKING:
    from imitbench.data.types import AnyPath

_DAMAGED_NPZ = (
    OSError,
    EOFError,
    ValueError,
    LookupError,
    TypeError,
    NotImplementedError,
    zipfile.BadZipFile,
    zlib.error,
)


def save(path: AnyPath, trajectories: Sequence[Trajectory]) -> None:
    """Saves trajectories as a Hugging Face data set folder.

    Args:
        path: Folder to write; files of a data set that is there already are replaced.
        trajectories: At least one; all with rewards or all without. Infos are written as plain
            JSON, NumPy arrays in them as lists.

    Raises:
        ValueError: The trajectories do not fit into one table, or an info cannot be written.
    """
    trajectories_to_dataset(trajectories).save_to_disk(os.fsdecode(path))


def load(path: AnyPath, *, trust: bool = False) -> Sequence[Trajectory]:
    """Loads trajectories.

    Args:
        path: A folder that `save` wrote; a folder in the layout of the hub, with
            `data/train-*.parquet`; a `.parquet` file; or an `.npz` file of older versions of
            the reference library, whose infos are pickled and therefore left out.
        trust: Whether infos that are pickled, or written by jsonpickle, are turned into the
            objects they were, which executes whatever code they hold.

    Returns:
        The trajectories, with rewards where the file has them. Without `trust`, infos that are
        not plain JSON are carried as text under `__opaque__`.

    Raises:
        InputError: There is nothing of the kind at `path`, or it is damaged.
    """
    place = Path(os.fsdecode(path))
    if not place.exists():
        raise InputError(f"{place}: no such file or folder: check the path")
    if place.suffix == ".npz":
        return _load_npz(place, trust=trust)
    if (place / "state.json").is_file():
        trajectories: Sequence[Trajectory] = _load_dataset_folder(place)
        return [decode_objects(each) for each in trajectories] if trust else trajectories
    if place.is_dir() or place.suffix == ".parquet":
        trajectories = read_trajectories(place, with_infos=True)
        return [decode_objects(each) for each in trajectories] if trust else trajectories
    raise InputError(
        f"{place}: unknown format '{place.suffix}': expected a folder, .parquet or .npz "
        "(pickles are never opened: convert them with the library that wrote them)"
    )


def load_with_rewards(path: AnyPath, *, trust: bool = False) -> Sequence[TrajectoryWithRew]:
    """Loads trajectories as `load` does, and insists on rewards.

    Raises:
        InputError: As `load`, or there are no rewards.
    """
    trajectories = load(path, trust=trust)
    if not isinstance(trajectories[0], TrajectoryWithRew):
        raise InputError(f"{os.fsdecode(path)}: no rewards there: use load, or record them")
    return cast("Sequence[TrajectoryWithRew]", trajectories)


def _load_dataset_folder(folder: Path) -> TrajectoryDatasetSequence:
    import datasets

    try:
        dataset = datasets.load_from_disk(str(folder))
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"{folder}: damaged data set ({reason}): save or fetch it again"
        ) from error
    if not len(dataset):
        raise InputError(f"{folder}: no trajectories in it: save at least one")
    try:
        return TrajectoryDatasetSequence(dataset)
    except InputError as error:
        raise InputError(f"{folder}: {error}") from error


def _load_npz(path: Path, *, trust: bool) -> list[Trajectory]:
    """Reads arrays of all trajectories end to end, with the places where to cut them."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            names = [name for name in archive.files if name != "infos"]
            arrays = {name: archive[name] for name in names}
            has_infos = "infos" in archive.files
        trajectories = _cut_trajectories(arrays)
    except _DAMAGED_NPZ as error:
        reason = f"no array {error}" if isinstance(error, KeyError) else str(error)
        raise InputError(f"{path}: damaged .npz file ({reason}): fetch it again") from error
    if has_infos and trust:
        parts = np.split(unpickle_infos(path), arrays["indices"])
        pairs = zip(trajectories, parts, strict=True)
        return [dataclasses.replace(each, infos=infos) for each, infos in pairs]
    if has_infos:
        warnings.warn(
            f"{path}: infos are pickled in this old format and are left out", stacklevel=3
        )
    return trajectories


def _cut_trajectories(arrays: dict[str, npt.NDArray[Any]]) -> list[Trajectory]:
    cuts = arrays["indices"]
    acts = np.split(arrays["acts"], cuts)
    obs = np.split(arrays["obs"], cuts + np.arange(1, len(cuts) + 1))
    terminal = arrays["terminal"].tolist()
    if "rews" not in arrays:
        return [Trajectory(o, a, None, t) for o, a, t in zip(obs, acts, terminal, strict=True)]
    rews = np.split(arrays["rews"], cuts)
    return [
        TrajectoryWithRew(o, a, None, t, r)
        for o, a, t, r in zip(obs, acts, terminal, rews, strict=True)
    ]
