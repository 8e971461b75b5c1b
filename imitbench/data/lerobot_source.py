"""Reads data sets of LeRobot: Parquet files with one row per frame, versions 2 and 3.

A folder has `meta/info.json` and `data/**/*.parquet` with the columns `episode_index`, `action`,
`observation.state` and perhaps `next.reward`. Images and videos are not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from imitbench.data.arrow_table import lists_to_arrays, numpy_view
from imitbench.data.episode_folder import natural
from imitbench.data.parquet_source import check_size, opened_parquet
from imitbench.data.trajectories import Trajectory, trajectory_of
from imitbench.data.trajectory_source import (
    LAST_REPEATED,
    EpisodeSource,
    choice_note,
    choose_features,
)
from imitbench.errors import InputError
from imitbench.untrusted.files import require_ordinary
from imitbench.util.text_line import one_line

Array = npt.NDArray[Any]

INFO_FILE = "meta/info.json"
_EPISODE, _FRAME, _ACTION, _REWARD = "episode_index", "frame_index", "action", "next.reward"
_OBSERVATION = "observation"


def is_lerobot(names: Sequence[str]) -> bool:
    """Whether these are columns of a file of LeRobot."""
    return {_EPISODE, _ACTION} <= set(names)


def lerobot_files(folder: Path) -> list[Path]:
    """Returns the Parquet files of a folder of LeRobot, in the order of their numbers.

    Raises:
        InputError: There are none, or a link leads out of the folder.
    """
    files = sorted(
        (folder / "data").rglob("*.parquet"),
        key=lambda file: natural(file.relative_to(folder).as_posix()),
    )
    for file in files:
        require_ordinary(file, inside=folder)
    if not files:
        videos = any((folder / "videos").rglob("*.mp4"))
        raise InputError(
            f"{folder}: has videos only, which are not read: fetch its data/**/*.parquet, too"
            if videos
            else f"{folder}: no file data/**/*.parquet in it: write or fetch it again"
        )
    return files


class LeRobotSource(EpisodeSource):
    """A folder of LeRobot, or one of its Parquet files.

    Frames do not include what follows the last action of an episode: the last observation is
    repeated there. Every episode counts as a whole one.

    Args:
        path: The folder or the file.
        obs: Columns whose numbers are the observation, in this order; empty for all of flat numbers
            whose name starts with `observation`, sorted by name.

    Raises:
        InputError: Files or columns are missing, or a file is damaged.
    """

    form = "LeRobot"

    def __init__(self, path: Path, obs: Sequence[str] = ()) -> None:
        self.where = str(path)
        self._files = [path] if path.is_file() else lerobot_files(path)
        with opened_parquet(self._files[0]) as parquet:
            schema = parquet.schema_arrow
            if not is_lerobot(schema.names):
                raise InputError(
                    f"{self._files[0]}: no column {_EPISODE} or {_ACTION} among "
                    f"{one_line(', '.join(schema.names), 120)}: is it of LeRobot?"
                )
            sizes = {
                name: _flat_size(schema.field(name).type, parquet, name)
                for name in schema.names
                if name.partition(".")[0] == _OBSERVATION
            }
        if not sizes:
            raise InputError(
                f"{path}: its frames have no column {_OBSERVATION}.*, so all that was observed is "
                f"in videos, which are not read: use a set with {_OBSERVATION}.state"
            )
        self._columns = choose_features(obs, sizes, where=self.where)
        self._has_rewards = _REWARD in schema.names
        self._lengths = [self._count(file) for file in self._files]
        self.notes = (choice_note(self._columns, sizes), LAST_REPEATED)

    def __len__(self) -> int:
        """Number of trajectories."""
        return sum(map(len, self._lengths))

    def episodes(self, *, with_infos: bool) -> Iterator[Trajectory]:
        """See `EpisodeSource.episodes`."""
        for file, lengths in zip(self._files, self._lengths, strict=True):
            wanted = [*self._columns, _ACTION, *[_REWARD] * self._has_rewards]
            table = self._read(file, wanted)
            obs = np.column_stack([_matrix(table[name], name, file) for name in self._columns])
            acts = _matrix(table[_ACTION], _ACTION, file)
            rewards = _numbers(table, _REWARD, file) if self._has_rewards else None
            start = 0
            for length in lengths:
                part = slice(start, start + length)
                start += length
                last = obs[start - 1 : start]
                seen = np.concatenate([obs[part], last])
                given = None if rewards is None else rewards[part].astype(np.float64)
                yield trajectory_of(seen, acts[part], True, given)

    def _count(self, file: Path) -> list[int]:
        """Returns the numbers of frames of the episodes in a file, in their order."""
        with opened_parquet(file) as parquet:
            names = [n for n in (_EPISODE, _FRAME) if n in parquet.schema_arrow.names]
        table = self._read(file, names)
        episode = _numbers(table, _EPISODE, file)
        cuts = np.flatnonzero(np.diff(episode)) + 1
        lengths = np.diff(cuts, prepend=0, append=len(episode))
        if _FRAME in names:
            frame = _numbers(table, _FRAME, file)
            due = np.concatenate([np.arange(length) for length in lengths])
            odd = np.flatnonzero(frame != due)
            if len(odd):
                raise InputError(
                    f"{file}, row {odd[0]}: {_FRAME} is {frame[odd[0]]} and not {due[odd[0]]}: "
                    "frames must be in order; fetch the file again"
                )
        return [int(length) for length in lengths]

    def _read(self, file: Path, columns: list[str]) -> pa.Table:
        with opened_parquet(file) as parquet:
            check_size(parquet, file)
            missing = [name for name in columns if name not in parquet.schema_arrow.names]
            if missing:
                raise InputError(f"{file}: no column {missing[0]}, unlike other files of the set")
            table = parquet.read(columns=columns)
            table.validate()
        if not len(table):
            raise InputError(f"{file}: has no frames: write or fetch it again")
        return table


def _flat_size(kind: pa.DataType, parquet: Any, name: str) -> int | None:
    """Returns numbers per frame; `None` for images, texts and nested lists."""
    if pa.types.is_floating(kind) or pa.types.is_integer(kind):
        return 1
    if pa.types.is_fixed_size_list(kind) and _is_number(kind.value_type):
        return int(kind.list_size)
    if pa.types.is_list(kind) and _is_number(kind.value_type):
        first = next(parquet.iter_batches(1, columns=[name]), None)
        return len(first[0][0]) if first is not None and first[0][0].is_valid else 0
    return None


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def _numbers(table: pa.Table, name: str, file: Path) -> Array:
    """Returns a column of one number per frame, which some files have as lists of one."""
    values = _matrix(table[name], name, file)
    if values.shape[1:] not in ((), (1,)):
        raise InputError(
            f"{file}: column '{name}' has shape {values.shape[1:]} for each frame: store one number"
        )
    return values.reshape(-1)


def _matrix(column: pa.ChunkedArray, name: str, file: Path) -> Array:
    """Returns a column as an array with one row per frame."""
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # of several chunks beyond 32-bit offsets
        whole = pa.concat_arrays(whole.chunks)
    if _is_number(whole.type) or pa.types.is_boolean(whole.type):
        if whole.null_count:
            raise InputError(f"{file}: column '{name}' lacks values: write or fetch it again")
        return np.array(numpy_view(whole))
    try:
        lists = pa.LargeListArray.from_arrays([0, len(whole)], whole)
    except pa.ArrowException as error:
        raise InputError(f"{file}: column '{name}' is damaged: write or fetch it again") from error
    [values] = lists_to_arrays(pa.chunked_array([lists]), name, where=str(file))
    return values
