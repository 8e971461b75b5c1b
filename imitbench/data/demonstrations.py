"""Reads and writes demonstrations in the hub layout, with checks and without torch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from imitbench.data.arrow_table import table_rows, table_to_trajectories, trajectories_to_table
from imitbench.data.parquet_source import ParquetSource, parquet_files, read_whole
from imitbench.data.trajectories import Trajectory, TrajectoryWithRew, with_rewards
from imitbench.errors import InputError
from imitbench.util.files import atomic_write_bytes

PARQUET_OPTIONS: dict[str, Any] = {
    "compression": "zstd",
    "use_dictionary": ["infos.list.element"],
    "write_page_checksum": True,
}
"""Options of Parquet files with which their bytes depend only on the trajectories."""

_NUMBERS = ["obs", "acts", "terminal", "rews"]


def write_demonstrations(
    directory: Path,
    trajectories: Sequence[TrajectoryWithRew],
    *,
    shard: str = "train-00000-of-00001",
) -> Path:
    """Writes a shard that `read_demonstrations` and `datasets.load_dataset` read.

    The file is written atomically. The same trajectories give the same bytes.

    Args:
        directory: Folder of the data set; the shard is written to its folder `data`.
        trajectories: At least one, with rewards. Float64 observations and actions are stored
            as float32 where that is exact.
        shard: File name without `.parquet`.

    Returns:
        Path of the shard.

    Raises:
        InputError: Rewards are missing, or the trajectories do not fit into one table.
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

    Rewards that were not recorded are NaN, as for demonstrations of people. Methods do not learn
    from them.

    Args:
        directory_or_file: A folder with `data/train-*.parquet`, or one `.parquet` file.
        rows: Increasing row numbers, counted from 0 over all shards; None for all. Other rows
            are read only if they share a row group.

    Returns:
        One trajectory per row, in the data types of the file, with `infos` None.

    Raises:
        InputError: Files or rows are missing or damaged, or the files are not demonstrations.
        ValueError: The row numbers are not increasing from 0.
    """
    if rows is not None:
        trajectories = _read_rows(directory_or_file, rows)
    else:
        trajectories = read_trajectories(directory_or_file)
    return [with_rewards(trajectory) for trajectory in trajectories]


def read_trajectories(directory_or_file: Path) -> list[Trajectory]:
    """Reads trajectories from Parquet, with `infos` None.

    Args:
        directory_or_file: See `read_demonstrations`.

    Returns:
        At least one trajectory, with rewards if the file has them.

    Raises:
        InputError: See `read_demonstrations`.
    """
    trajectories: list[Trajectory] = []
    for file in parquet_files(directory_or_file):
        table = read_whole(file, _NUMBERS)
        trajectories += table_to_trajectories(table, where=str(file), with_infos=False)
    if not trajectories:
        raise InputError(f"{directory_or_file}: no trajectories in it: record or fetch it again")
    return trajectories


def _read_rows(path: Path, rows: Sequence[int]) -> list[Trajectory]:
    source = ParquetSource(path)
    if any(b <= a for a, b in pairwise(rows)) or (rows and not 0 <= rows[0] <= rows[-1]):
        raise ValueError("rows must be increasing numbers from 0")
    if rows and rows[-1] >= len(source):
        raise InputError(
            f"{path}: has {len(source)} trajectories, so no episode {rows[-1]}: request fewer"
        )
    trajectories: list[Trajectory] = []
    for table in source.read_rows(rows, _NUMBERS):
        for row in table_rows(table, where=str(path)):
            number = rows[len(trajectories)]
            trajectories.append(row.trajectory(infos=None, where=str(path), number=number))
    return trajectories
