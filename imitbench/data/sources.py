"""Detects the format of trajectories on disk and opens them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from imitbench.data.arrow_folder import STATE_FILE, ArrowSource
from imitbench.data.csv_source import open_csv
from imitbench.data.episode_folder import EpisodeFolder, episode_paths, is_array_folder
from imitbench.data.hdf5_source import open_hdf5
from imitbench.data.json_lines import JsonLinesSource
from imitbench.data.lerobot_source import INFO_FILE, LeRobotSource, is_lerobot
from imitbench.data.npz_source import NpzSource
from imitbench.data.parquet_source import ParquetSource, opened_parquet
from imitbench.data.plain_arrays import NO_CHOICES, ArraysSource, NpzReader, open_npy_folder
from imitbench.data.robomimic_source import RobomimicSource
from imitbench.data.trajectory_source import MemorySource, TrajectorySource
from imitbench.errors import InputError, MissingPathError
from imitbench.untrusted.files import open_ordinary, read_content, require_inside, require_ordinary
from imitbench.util.text_line import one_line

READABLE = (
    "a folder of the hub, of datasets, of LeRobot, of .npy files or of episodes; .parquet, .arrow, "
    ".npz, .csv, .jsonl, .hdf5; or, with trust, a pickle"
)
"""Formats that `open_trajectories` reads, for messages."""

SUFFIXES = {
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".npz": "npz",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".hdf5": "hdf5",
    ".h5": "hdf5",
    ".pkl": "pickle",
    ".pickle": "pickle",
}
"""Formats of single files, by how their names end."""

_MAGIC = {
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
    b"\xff\xff\xff\xff": "arrow",
    b"PK\x03\x04": "npz",
    b"\x80\x02": "pickle",
    b"\x80\x03": "pickle",
    b"\x80\x04": "pickle",
    b"\x80\x05": "pickle",
    b"\x89HDF": "hdf5",
}
_SPLITS_FILE = "dataset_dict.json"


def open_trajectories(
    path: Path,
    *,
    trust: bool = False,
    obs: Sequence[str] = (),
    rename: Mapping[str, str] = NO_CHOICES,
) -> TrajectorySource:
    """Opens a data set of trajectories in any supported format.

    Args:
        path: A folder in the hub layout, with `data/train-*.parquet`; a folder that `datasets`
            saved, or its split `train` if it has several; a folder of LeRobot; a folder of `.npy`
            files, see `imitbench.data.plain_arrays`; a folder of episodes; a `.parquet`, `.arrow`,
            `.csv` or `.jsonl` file; an `.npz` archive of plain arrays, or of older versions of the
            reference library; HDF5 of robomimic, D4RL or d3rlpy; or a pickle of older versions of
            the reference.
        trust: Whether to open pickles, and infos that are pickled or written by jsonpickle,
            which can execute any code.
        obs: For HDF5 of robomimic and for LeRobot, the recordings that are the observation; empty
            for all of flat numbers.
        rename: For plain arrays in `.npz` or HDF5, names that they should have, by their own names.

    Returns:
        The data set, which is read on iteration.

    Raises:
        InputError: The path is missing, its format is unknown, it is damaged, `obs` or
            `rename` does not apply to it, or it is a pickle and `trust` is false.
    """
    if path.is_dir():
        opened = _open_folder(path, trust, obs)
    else:
        opened = _open_file(path, trust, obs, rename)
    if obs and not isinstance(opened, RobomimicSource | LeRobotSource):
        raise InputError(
            f"--obs {one_line(obs[0], 60)}: {path} ({opened.form}) has a single observation; "
            "leave --obs out"
        )
    of_one_file = isinstance(opened, ArraysSource) and path.is_file()
    if rename and not (of_one_file and path.suffix != ".csv"):
        raise InputError(
            f"--rename {one_line(next(iter(rename)), 60)}: {path} ({opened.form}) has its own "
            "names; --rename is for arrays in .npz and HDF5 files"
        )
    return opened


def _open_file(
    path: Path, trust: bool, obs: Sequence[str], rename: Mapping[str, str]
) -> TrajectorySource:
    if not path.exists():
        raise MissingPathError(f"{path}: no such file or folder: check the path")
    require_ordinary(path)
    kind = SUFFIXES.get(path.suffix) or _kind_by_content(path)
    if kind == "parquet":
        with opened_parquet(path, whole=False) as parquet:
            frames = is_lerobot(parquet.schema_arrow.names)
        if frames:
            return LeRobotSource(path, obs)
        return _with_rows(ParquetSource(path, trust=trust))
    if kind == "arrow":
        return _with_rows(ArrowSource(path, trust=trust))
    if kind == "npz":
        return _open_npz(path, trust, rename)
    if kind == "csv":
        return open_csv(path)
    if kind == "jsonl":
        return JsonLinesSource(path)
    if kind == "hdf5":
        return open_hdf5(path, obs, rename)
    return _open_pickle(path, trust)


def _open_npz(path: Path, trust: bool, rename: Mapping[str, str]) -> TrajectorySource:
    """Opens trajectories of the reference library, which have `terminal`, or plain arrays."""
    arrays = NpzReader(path, rename)
    if {"terminal", "indices"} & set(arrays.others):
        return NpzSource(path, trust=trust)
    return ArraysSource(arrays, where=str(path), form=".npz arrays")


def _open_folder(folder: Path, trust: bool, obs: Sequence[str]) -> TrajectorySource:
    if (folder / STATE_FILE).is_file():
        return _with_rows(ArrowSource(folder, trust=trust))
    if (folder / _SPLITS_FILE).is_file():
        return _open_train_split(folder, trust)
    if any((folder / "data").glob("train-*.parquet")):
        return _with_rows(ParquetSource(folder, trust=trust))
    if (folder / INFO_FILE).is_file():
        return LeRobotSource(folder, obs)
    if is_array_folder(folder):
        return open_npy_folder(folder)
    if (folder / "data" / "main_data.hdf5").is_file():
        raise InputError(
            f"{folder}: a Minari data set: pass minari:NAME, with MINARI_DATASETS_PATH set to the "
            "folder that holds NAME"
        )
    if episode_paths(folder):
        return EpisodeFolder(folder)
    names = sorted(path.name + "/" * path.is_dir() for path in folder.iterdir())
    found = one_line(", ".join(names), 80) or "nothing"
    raise InputError(
        f"{folder}: is it a data set folder? It holds {found}, and neither "
        f"data/train-*.parquet nor {STATE_FILE}, {INFO_FILE}, obs.npy or episodes (.npz, .csv, "
        ".jsonl)"
    )


def _open_train_split(folder: Path, trust: bool) -> TrajectorySource:
    try:
        splits = json.loads(read_content(folder / _SPLITS_FILE))["splits"]
        found = one_line(", ".join(splits), 80)
    except (OSError, ValueError, RecursionError, LookupError, TypeError) as error:
        raise InputError(
            f"{folder / _SPLITS_FILE}: damaged data set ({one_line(repr(error), 80)}): "
            "write or fetch it again"
        ) from error
    if not (folder / "train" / STATE_FILE).is_file():
        raise InputError(f"{folder}: no split 'train' among {found}: pass the folder of a split")
    require_inside(folder / "train", folder)
    return _with_rows(ArrowSource(folder / "train", trust=trust))


def _kind_by_content(file: Path) -> str:
    with open_ordinary(file) as stream:
        start = stream.read(6)
    for magic, kind in _MAGIC.items():
        if start.startswith(magic):
            return kind
    found = f"starts with {start!r}" if start else "empty"
    raise InputError(f"{file}: unknown format '{file.suffix}' ({found}): expected {READABLE}")


def _open_pickle(file: Path, trust: bool) -> TrajectorySource:
    from imitbench.data.trusted import unpickle_trajectories

    if not trust:
        raise InputError(
            f"{file}: a pickle, which can execute any code when it is opened: pass --trust "
            "(trust=True) if you trust its source, or convert it with the library that wrote it"
        )
    return MemorySource(unpickle_trajectories(file), where=str(file), form="pickle")


def _with_rows(source: TrajectorySource) -> TrajectorySource:
    if not len(source):
        raise InputError(f"{source.where}: no trajectories in it: record or fetch it again")
    return source
