"""Saves trajectories, and loads those of this library and of the reference library."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from imitbench.data.arrow_folder import STATE_FILE, validate_folder
from imitbench.data.huggingface_utils import TrajectoryDatasetSequence, trajectories_to_dataset
from imitbench.data.sources import open_trajectories
from imitbench.data.trajectories import Trajectory, TrajectoryWithRew
from imitbench.data.trusted import decode_objects
from imitbench.errors import InputError, MissingPathError
from imitbench.util.extras import import_extra

if TYPE_CHECKING:
    from imitbench.data.types import AnyPath


def save(path: AnyPath, trajectories: Sequence[Trajectory]) -> None:
    """Saves trajectories as a Hugging Face data set folder.

    Args:
        path: Folder to write; files of an existing data set are replaced.
        trajectories: At least one; all with rewards or all without. Infos are written as JSON,
            with NumPy arrays as lists.

    Raises:
        ValueError: The trajectories do not fit into one table, or an info cannot be written.
    """
    trajectories_to_dataset(trajectories).save_to_disk(os.fsdecode(path))


def load(path: AnyPath, *, trust: bool = False) -> Sequence[Trajectory]:
    """Loads trajectories.

    Args:
        path: A folder written by `save`, or any other format of
            `imitbench.data.sources.open_trajectories`, such as a folder in the hub layout, or an
            `.npz` file of older versions of the reference library.
        trust: Whether to open pickles, and infos that are pickled or written by jsonpickle,
            which can execute any code.

    Returns:
        The trajectories, with rewards if the file has them. Without `trust`, pickled infos are
        skipped, and others that are not plain JSON are kept as text under `__opaque__`.

    Raises:
        MissingPathError: Nothing is at `path` (also a `FileNotFoundError`).
        InputError: It has an unknown format, or is damaged.
    """
    source = Path(os.fsdecode(path))
    if not source.exists():
        raise MissingPathError(f"{source}: no such file or folder: check the path")
    if (source / STATE_FILE).is_file():
        trajectories: Sequence[Trajectory] = _load_dataset_folder(source)
        return [decode_objects(t, str(source)) for t in trajectories] if trust else trajectories
    return open_trajectories(source, trust=trust).read(with_infos=True)


def load_with_rewards(path: AnyPath, *, trust: bool = False) -> Sequence[TrajectoryWithRew]:
    """Loads trajectories like `load`, but requires rewards.

    Raises:
        MissingPathError: See `load`.
        InputError: See `load`; or there are no rewards.
    """
    trajectories = load(path, trust=trust)
    if not isinstance(trajectories[0], TrajectoryWithRew):
        raise InputError(f"{os.fsdecode(path)}: no rewards: use load, or record them")
    return cast("Sequence[TrajectoryWithRew]", trajectories)


def _load_dataset_folder(folder: Path) -> TrajectoryDatasetSequence:
    validate_folder(folder)
    datasets = import_extra("datasets", "datasets", f"{folder}: a Hugging Face data set")
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
