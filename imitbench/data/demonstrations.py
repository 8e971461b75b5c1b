"""Demonstrations on disk in the layout of the hub: fast, checked, and free of torch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from imitbench.data.arrow_table import check_columns, table_to_trajectories, trajectories_to_table
from imitbench.data.demonstration_checks import validate_demonstrations
from imitbench.data.trajectories import Trajectory, TrajectoryWithRew
from imitbench.errors import InputError
from imitbench.util.files import atomic_write_bytes

__all__ = [
    "read_demonstrations",
    "read_trajectories",
    "validate_demonstrations",
    "write_demonstrations",
]

_SHARD = re.compile(r"-(\d+)-of-(\d+)")


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
    pq.write_table(
        table,
        sink,
        compression="zstd",
        use_dictionary=["infos.list.element"],
        write_page_checksum=True,
    )
    path = directory / "data" / f"{shard}.parquet"
    atomic_write_bytes(path, sink.getvalue().to_pybytes())
    return path


def read_demonstrations(directory_or_file: Path) -> list[TrajectoryWithRew]:
    """Reads demonstrations with their rewards and without their infos.

    Args:
        directory_or_file: A folder with `data/train-*.parquet`, or one `.parquet` file.

    Returns:
        A trajectory per row, in the data types of the file, `infos` None.

    Raises:
        InputError: Nothing there, files missing or damaged, or not demonstrations.
    """
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
    files = _parquet_files(directory_or_file)
    trajectories: list[Trajectory] = []
    for file in files:
        table = _read_table(file, with_infos=with_infos, rewards=rewards)
        trajectories += table_to_trajectories(table, where=str(file), with_infos=with_infos)
    if not trajectories:
        raise InputError(f"{directory_or_file}: no trajectories in it: record or fetch it again")
    return trajectories


def _read_table(file: Path, *, with_infos: bool, rewards: bool) -> pa.Table:
    wanted = ["obs", "acts", "terminal", "rews"] + ["infos"] * with_infos
    try:
        with pq.ParquetFile(file, page_checksum_verification=True) as parquet:
            schema = parquet.schema_arrow
            check_columns(schema, where=str(file), rewards=rewards)
            return parquet.read(columns=[name for name in wanted if name in schema.names])
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"{file}: not readable as Parquet ({reason}): fetch or write it again"
        ) from error


def _parquet_files(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    if not place.is_dir():
        raise InputError(f"{place}: no such file or folder: check the path")
    files = sorted((place / "data").glob("train-*.parquet"))
    if not files:
        raise InputError(f"{place}: no file data/train-*.parquet in it: is it a data set folder?")
    numbers = [match for file in files if (match := _SHARD.search(file.name))]
    totals = {int(match[2]) for match in numbers}
    if len(numbers) == len(files) and (
        len(totals) > 1 or [int(match[1]) for match in numbers] != list(range(*totals))
    ):
        names = ", ".join(file.name for file in files)
        raise InputError(
            f"{place / 'data'}: the shards are not one whole set ({names}): fetch the missing ones "
            "or remove those of another set"
        )
    return files
