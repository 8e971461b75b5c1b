"""Converts trajectories of any format to the hub layout or to text, a few megabytes at a time."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from imitbench.data.arrow_table import TableRow, trajectories_to_table
from imitbench.data.csv_source import csv_header, csv_lines
from imitbench.data.dataset_card import dataset_card
from imitbench.data.demonstration_checks import (
    NO_REWARDS,
    bounds_problem,
    describe,
    fitted,
    row_problem,
)
from imitbench.data.demonstrations import PARQUET_OPTIONS
from imitbench.data.json_lines import json_line
from imitbench.data.trajectory_source import TrajectoryChunk, TrajectorySource
from imitbench.errors import InputError, did_you_mean
from imitbench.untrusted.files import require_utf8
from imitbench.util.files import atomic_stream, digest_files, fsync_directory

FORMATS = (".jsonl", ".csv")
"""Endings of the files that `export_demonstrations` writes."""


class ShardWriter:
    """Writes tables sequentially, and starts a new file when one is full.

    Use it as a context manager. On exit without an error, the files are renamed to
    `train-00000-of-00002.parquet` and so on.

    Args:
        folder: Folder to create for the files.
        shard_bytes: Approximate bytes of Arrow data per file.
    """

    def __init__(self, folder: Path, shard_bytes: int) -> None:
        folder.mkdir()
        self._folder, self._shard_bytes = folder, shard_bytes
        self._writer: pq.ParquetWriter | None = None
        self._size = 0
        self._count = 0

    def __enter__(self) -> ShardWriter:
        return self

    def write(self, table: pa.Table) -> None:
        """Adds a table as one row group; all tables must have the same schema."""
        if self._writer is None or self._size + table.nbytes > self._shard_bytes:
            self._close()
            part = self._folder / f"{self._count}.part"
            self._writer = pq.ParquetWriter(part, table.schema, **PARQUET_OPTIONS)
            self._count += 1
            self._size = 0
        self._writer.write_table(table, row_group_size=max(len(table), 1))
        self._size += table.nbytes

    def __exit__(self, kind: object, *rest: object) -> None:
        self._close()
        if kind is None:
            self._name_files()

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _name_files(self) -> None:
        """Renames the files when their number, which is part of each name, is known."""
        for index in range(self._count):
            part = self._folder / f"{index}.part"
            with part.open("rb") as stream:
                os.fsync(stream.fileno())
            part.rename(self._folder / f"train-{index:05d}-of-{self._count:05d}.parquet")
        fsync_directory(self._folder)


Array = npt.NDArray[Any]

SHARD_BYTES = 512 * 2**20
"""Approximate bytes of numbers per file, before compression."""

_FLOAT32_ERROR = 1e-6
_OWN_ENTRIES = {"data", "README.md", ".gitattributes"}


@dataclass
class ConversionSummary:
    """Describes a converted data set.

    Attributes:
        source: Name of the source.
        form: Format of the source.
        environment: Gymnasium id, if given.
        rows: Number of trajectories.
        steps: Number of actions in all trajectories.
        unfinished: Trajectories that are not marked as the end of an episode.
        lengths: Actions in the shortest and the longest trajectory.
        returns: Undiscounted return of each trajectory; empty without rewards.
        observation: Data type and shape of one observation, such as `float32[4]`.
        action: Data type and shape of one action.
        files: Number of data files.
        bytes: Total size of the data files.
        digest: SHA-256 of the data files, as runs record it.
        notes: Remarks for the user.
    """

    source: str
    form: str
    environment: str | None = None
    rows: int = 0
    steps: int = 0
    unfinished: int = 0
    lengths: tuple[int, int] = (0, 0)
    returns: list[float] = field(default_factory=list, repr=False)
    observation: str = ""
    action: str = ""
    files: int = 0
    bytes: int = 0
    digest: str = ""
    notes: list[str] = field(default_factory=list)

    def add(self, row: TableRow, where: str) -> None:
        """Adds a validated row to the totals.

        Args:
            row: The row.
            where: Name of the row in errors.

        Raises:
            InputError: Its types, shapes or rewards are not those of the first row.
        """
        kinds = describe(row.obs), describe(row.acts)
        if not self.rows:
            self.observation, self.action = kinds
        for name, found, expected in (
            ("observations", kinds[0], self.observation),
            ("actions", kinds[1], self.action),
        ):
            if found != expected:
                raise InputError(
                    f"{where}: {name} are {found}, those of the first episode are {expected}: "
                    "convert data of one environment and one data type at a time"
                )
        if self.rows and (row.rews is not None) != bool(self.returns):
            raise InputError(
                f"{where}: some episodes have rewards and some have none: convert one kind"
            )
        length = len(row.acts)
        shortest, longest = self.lengths if self.rows else (length, length)
        self.lengths = (min(shortest, length), max(longest, length))
        self.rows += 1
        self.steps += length
        self.unfinished += not row.terminal
        if row.rews is not None:
            self.returns.append(float(row.rews.sum()))

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values, with mean and standard deviation of the returns."""
        values = {key: value for key, value in vars(self).items() if key != "returns"}
        returns = np.array(self.returns or [np.nan])
        return values | {
            "lengths": list(self.lengths),
            "mean_return": float(returns.mean()),
            "std_return": float(returns.std()),
        }


def convert_demonstrations(
    source: TrajectorySource,
    directory: Path,
    *,
    environment: gym.Env[Any, Any] | None = None,
    environment_id: str | None = None,
    limit: int | None = None,
    float32: bool = False,
    with_infos: bool = True,
    replace: bool = False,
    shard_bytes: int = SHARD_BYTES,
    progress: Callable[[int, int], None] | None = None,
) -> ConversionSummary:
    """Writes a data set in the hub layout: `data/train-….parquet` and a card `README.md`.

    The folder is created atomically. The same trajectories give the same bytes. Rows are
    validated; infos are copied as texts. Integer actions are stored as int64, as on the hub;
    other data types are kept.

    Args:
        source: Data set to read.
        directory: Folder to create.
        environment: Environment that rows must fit; `None` checks only lengths and finite numbers.
        environment_id: Gymnasium id for the card.
        limit: Maximum number of trajectories; None for all.
        float32: Whether to store float64 observations or actions as float32 if that changes no
            number by more than 1e-6. This reads the source twice.
        with_infos: Whether to keep the infos.
        replace: Whether to replace an existing data set folder.
        shard_bytes: Approximate bytes of numbers per file.
        progress: Called with the numbers of trajectories done and in total.

    Returns:
        A summary for the card and the user.

    Raises:
        InputError: The folder exists, a row is invalid, or the source is damaged.
        OSError: The folder cannot be written.
    """
    _refuse_target(directory, replace=replace)
    total = len(source) if limit is None else min(limit, len(source))
    summary = ConversionSummary(Path(source.where).name, source.form, environment_id)
    summary.notes.extend(source.notes)
    outside = _OutOfBounds()
    narrow = _narrow_columns(source, limit, summary) if float32 else set[str]()
    spaces = (environment.observation_space, environment.action_space) if environment else ()
    directory.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        with ShardWriter(scratch / "data", shard_bytes) as writer:
            for chunk in source.chunks(with_infos=with_infos, limit=limit):
                rows = chunk.rows
                if environment is not None:
                    rows = [fitted(row, environment, untyped=source.untyped) for row in rows]
                rows = [_narrowed(row, narrow) for row in rows]
                for number, row in enumerate(rows, chunk.first_row):
                    where = f"{source.where}, episode {number}"
                    if problem := row_problem(row, *spaces):
                        raise InputError(f"{where}: {problem}")
                    summary.add(row, where)
                    outside.add(row, number, *spaces)
                writer.write(_table(chunk._replace(rows=rows), source.where))
                if progress is not None:
                    progress(summary.rows, total)
        _finish(summary, scratch, source.notes)
        summary.notes.extend(outside.notes())
        scratch.chmod(0o755)
        if replace and directory.exists():
            _exchange(scratch, directory)
        else:
            _put(scratch, directory)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return summary


def _table(chunk: TrajectoryChunk, where: str) -> pa.Table:
    trajectories = [
        row.trajectory(infos=None, where=where, number=number)
        for number, row in enumerate(chunk.rows, chunk.first_row)
    ]
    lengths = None if chunk.infos is None else chunk.infos.value_lengths().to_pylist()
    if lengths is not None:
        for number, (row, texts) in enumerate(
            zip(chunk.rows, lengths, strict=True), chunk.first_row
        ):
            if texts != len(row.acts):
                raise InputError(
                    f"{where}, episode {number}: there are {texts} infos for {len(row.acts)} "
                    "actions; "
                    "remove the episode, or omit the infos"
                )
    return trajectories_to_table(trajectories, infos=chunk.infos)


class _OutOfBounds:
    """Counts episodes whose numbers leave the bounds of the environment by more than rounding."""

    def __init__(self) -> None:
        self._found: dict[str, list[str]] = {"observations": [], "actions": []}

    def add(self, row: TableRow, number: int, *spaces: gym.Space[Any]) -> None:
        """Adds an episode; without spaces it is not checked."""
        for (name, found), values, space in zip(
            self._found.items(), (row.obs, row.acts), spaces, strict=False
        ):
            if problem := bounds_problem(name, values, space):
                found.append(f"episode {number}: {problem}")

    def notes(self) -> list[str]:
        """Returns a note with the first episode for observations, and one for actions."""
        return [
            f"{found[0]} ({len(found)} episodes in all); are they of another version of the "
            "environment, or scaled in another way?"
            for found in self._found.values()
            if found
        ]


def _narrowed(row: TableRow, narrow: set[str]) -> TableRow:
    obs = row.obs.astype(np.float32) if "obs" in narrow else row.obs
    acts = row.acts.astype(np.float32) if "acts" in narrow else row.acts
    if acts.dtype.kind in "iub":
        acts = acts.astype(np.int64, copy=False)
    return row._replace(obs=obs, acts=acts)


def _narrow_columns(
    source: TrajectorySource, limit: int | None, summary: ConversionSummary
) -> set[str]:
    """Returns the names of columns that fit into float32."""
    narrow = {"obs", "acts"}
    for chunk in source.chunks(with_infos=False, limit=limit):
        for number, row in enumerate(chunk.rows, chunk.first_row):
            for name, values in (("obs", row.obs), ("acts", row.acts)):
                if name not in narrow:
                    continue
                error = _float32_error(values)
                if error is None:
                    narrow.discard(name)
                elif error > _FLOAT32_ERROR:
                    narrow.discard(name)
                    summary.notes.append(
                        f"{name} stay float64: float32 would change a number of episode {number} "
                        f"by {error:.1e}"
                    )
        if not narrow:
            break
    return narrow


def _float32_error(values: Array) -> float | None:
    """Returns the largest change of a number; `None` if the values are not float64."""
    if values.dtype != np.float64:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        moved = np.abs(values.astype(np.float32) - values)
    return float(np.nanmax(moved, initial=0.0))


def _finish(summary: ConversionSummary, folder: Path, remarks: Sequence[str]) -> None:
    if not summary.rows:
        raise InputError(f"{summary.source}: no trajectories to convert: request at least one")
    files = sorted((folder / "data").iterdir())
    summary.files = len(files)
    summary.bytes = sum(file.stat().st_size for file in files)
    summary.digest = digest_files(folder, files)
    if not summary.returns:
        summary.notes.append(NO_REWARDS)
    if summary.unfinished:
        summary.notes.append(
            f"{summary.unfinished} of {summary.rows} trajectories are not marked as the end of "
            "an episode"
        )
    card = dataset_card(summary.to_json(), remarks)
    (folder / "README.md").write_text(card, encoding="utf-8")


def _refuse_target(directory: Path, *, replace: bool) -> None:
    """Refuses to replace anything except a data set folder."""
    require_utf8(directory)
    if not directory.exists():
        return
    if not directory.is_dir():
        raise InputError(f"{directory}: is a file: name another folder")
    entries = {path.name for path in directory.iterdir()}
    if entries and not replace:
        raise InputError(f"{directory}: exists already: name another folder, or pass --force")
    if entries - _OWN_ENTRIES:
        odd = sorted(entries - _OWN_ENTRIES)[0]
        raise InputError(
            f"{directory}: contains {odd!r}, so it is not a data set folder: name another folder"
        )


def _put(scratch: Path, directory: Path) -> None:
    """Renames the new folder, unless another process has created it."""
    try:
        scratch.rename(directory)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
        raise InputError(f"{directory}: another process created it at the same time") from error
    fsync_directory(directory.parent)


def _exchange(scratch: Path, directory: Path) -> None:
    """Replaces the old folder with the new one; restores the old one if that fails."""
    old = Path(tempfile.mkdtemp(prefix=f".{directory.name}.old.", dir=directory.parent))
    kept = old / directory.name
    try:
        directory.rename(kept)
        try:
            _put(scratch, directory)
        except OSError:
            kept.rename(directory)
            raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


@dataclass(frozen=True)
class ExportSummary:
    """Describes an exported data set.

    Attributes:
        rows: Number of trajectories.
        steps: Number of actions in them.
        bytes: Size of the file.
    """

    rows: int
    steps: int
    bytes: int


def export_demonstrations(
    source: TrajectorySource,
    target: Path,
    *,
    limit: int | None = None,
    replace: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> ExportSummary:
    """Writes a data set as text, with all digits of its numbers; infos are left out.

    The file is created atomically. See `imitbench.data.json_lines` and `imitbench.data.csv_source`
    for the formats, which `open_trajectories` reads back.

    Args:
        source: Data set to read.
        target: File to create, whose name ends in one of `FORMATS`.
        limit: Maximum number of trajectories; None for all.
        replace: Whether to replace an existing file.
        progress: Called with the numbers of trajectories done and in total.

    Raises:
        InputError: The name has another ending, the file exists, a row is invalid, or the format
            cannot hold it.
        OSError: The file cannot be written.
    """
    lines_of = _lines(target)
    if target.is_dir():
        raise InputError(f"{target}: is a folder: name a file")
    if target.exists() and not replace:
        raise InputError(f"{target}: exists already: name another file, or pass --force")
    total = len(source) if limit is None else min(limit, len(source))
    rows = steps = 0
    with atomic_stream(target) as stream:
        for chunk in source.chunks(with_infos=False, limit=limit):
            for number, row in enumerate(chunk.rows, chunk.first_row):
                where = f"{source.where}, episode {number}"
                if problem := row_problem(row):
                    raise InputError(f"{where}: {problem}")
                try:
                    stream.writelines(line.encode() for line in lines_of(row, number))
                except InputError as error:
                    raise InputError(f"{where}: {error}") from error
                rows, steps = rows + 1, steps + len(row.acts)
            if progress is not None:
                progress(rows, total)
    return ExportSummary(rows, steps, target.stat().st_size)


def _lines(target: Path) -> Callable[[TableRow, int], Iterator[str]]:
    if target.suffix == ".jsonl":
        return lambda row, _: iter([json_line(row)])
    if target.suffix != ".csv":
        raise InputError(
            f"{target}: unknown format '{target.suffix}'; {did_you_mean(target.suffix, FORMATS)}"
        )
    header: list[str] = []

    def lines(row: TableRow, number: int) -> Iterator[str]:
        own = csv_header(row)
        if not header:
            header.append(own)
            yield own
        elif own != header[0]:
            raise InputError("its columns differ from those of the first row: export them apart")
        yield from csv_lines(row, number)

    return lines
