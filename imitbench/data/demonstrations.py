"""Demonstrations on disk in the layout of the hub: fast, checked, and free of torch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from imitbench.data.arrow_table import table_rows, table_to_trajectories, trajectories_to_table
from imitbench.data.demonstration_checks import validate_demonstrations
from imitbench.data.parquet_source import ParquetSource, parquet_files, read_whole
from imitbench.data.trajectories import Trajectory, TrajectoryWithRew
from imitbench.errors import InputError
from imitbench.util.files import atomic_write_bytes

__all__ = [
    "read_demonstrations",
    "read_trajectories",
    "validate_demonstrations",
    "write_demonstrations",
]

PARQUET_OPTIONS: dict[str, Any] = {
    "compression": "zstd",
    "use_dictionary": ["infos.list.element"],
    "write_page_checksum": True,
}
"""How files of demonstrations are written; every byte follows from the numbers in them."""

_NUMBERS = ["obs", "acts", "terminal", "rews"]


def write_demonstrations(
    directory: Path,
    trajectories: Sequence[TrajectoryWithRew],
    *,
    shard: str = "train-00000-of-00001",
) -> Path:
    """Writes a shard that `read_demonstrations` and `datasets.load_dataset` read.

    The file is whole or absent, and the same trajectories give the same bytes.

    Args:
        directory: Folder of the data set; the shard goes into its folder `data`.
        trajectories: At least one, with rewards. Observations and actions are stored as
            float32 where that loses nothing.
        shard: File name without `.parquet`.

    Returns:
        The file.

    Raises:
        InputError: The trajectories do not fit into one table.
    """
    for row, trajectory in enumerate(trajectories):
        if not isinstance(trajectory, TrajectoryWithRew):
            raise InputError(f"trajectory {row} has no rewards: record them with the rollout")
    table = trajectories_to_table(trajectories, compact=True)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **PARQUET_OPTIONS)
    path = directory / "data" / f"{shard}.parquet"
    atomic_write_bytes(path, sink.getvalue().to_pybytes())
    return path


def read_demonstrations(
    directory_or_file: Path, *, rows: Sequence[int] | None = None
) -> list[TrajectoryWithRew]:
    """Reads demonstrations with their rewards and without their infos.

    Args:
        directory_or_file: A folder with `data/train-*.parquet`, or one `.parquet` file.
        rows: Which trajectories to read, in increasing order, counted from 0 over all shards;
            None for all. What is not wanted is not read, as far as the files' row groups allow.

    Returns:
        A trajectory per row, in the data types of the file, `infos` None.

    Raises:
        InputError: Nothing there, files missing or damaged, or not demonstrations; or there
            are no such rows.
    """
    if rows is not None:
        trajectories = _read_rows(directory_or_file, rows)
    else:
        trajectories = read_trajectories(directory_or_file, with_infos=False, rewards=True)
    return [t for t in trajectories if isinstance(t, TrajectoryWithRew)]


def read_trajectories(
    directory_or_file: Path, *, with_infos: bool, rewards: bool = False
) -> list[Trajectory]:
    """Reads trajectories from Parquet.

    Args:
        directory_or_file: As for `read_demonstrations`.
        with_infos: Whether to decode the infos; None stands for them otherwise.
        rewards: Whether there have to be rewards.

    Returns:
        At least one trajectory, with rewards where the file has them.

    Raises:
        InputError: As for `read_demonstrations`.
    """
    columns = _NUMBERS + ["infos"] * with_infos
    trajectories: list[Trajectory] = []
    for file in parquet_files(directory_or_file):
        table = read_whole(file, columns, rewards=rewards)
        trajectories += table_to_trajectories(table, where=str(file), with_infos=with_infos)
    if not trajectories:
        raise InputError(f"{directory_or_file}: no trajectories in it: record or fetch it again")
    return trajectories


def _read_rows(place: Path, rows: Sequence[int]) -> list[Trajectory]:
    source = ParquetSource(place, rewards=True)
    if any(b <= a for a, b in pairwise(rows)) or (rows and not 0 <= rows[0] <= rows[-1]):
        raise ValueError("rows: have to be increasing numbers from 0")
    if rows and rows[-1] >= len(source):
        raise InputError(
            f"{place}: has {len(source)} trajectories, so there is no row {rows[-1]}: ask for fewer"
        )
    trajectories: list[Trajectory] = []
    for table in source.read_rows(rows, _NUMBERS):
        numbered = rows[len(trajectories) :]
        for place_in_table, row in enumerate(table_rows(table, where=str(place))):
            number = numbered[place_in_table]
            trajectories.append(row.trajectory(infos=None, where=str(place), number=number))
    return trajectories
