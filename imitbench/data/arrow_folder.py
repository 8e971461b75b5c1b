"""Reads folders of `datasets.Dataset.save_to_disk` without importing `datasets`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from imitbench.data import trajectory_source
from imitbench.data.arrow_table import check_columns
from imitbench.data.trajectory_source import TableSource
from imitbench.errors import InputError
from imitbench.untrusted.files import read_content, require_ordinary
from imitbench.util.text_line import one_line

STATE_FILE = "state.json"
_INFO_FILE = "dataset_info.json"
_FILE_MAGIC = b"ARROW1"
_END_OF_STREAM = (b"\xff\xff\xff\xff\x00\x00\x00\x00", b"\x00\x00\x00\x00")  # Arrow >= 0.15; older


class ArrowSource(TableSource):
    """A folder with `state.json` and Arrow files, or one `.arrow` file.

    Args:
        path: Folder written by `save_to_disk`, or a `.arrow` file.
        trust: See `TrajectorySource`.

    Raises:
        InputError: A JSON or Arrow file is damaged, or the JSON names files outside the folder.
    """

    form = "datasets folder"

    def __init__(self, path: Path, *, trust: bool = False) -> None:
        self.where, self.trust = str(path), trust
        self.files = _arrow_files(path) if path.is_dir() else [path]
        self._count = sum(len(batch) for file in self.files for batch in _batches(file))

    def __len__(self) -> int:
        """Number of trajectories."""
        return self._count

    def tables(self, columns: Sequence[str], limit: int | None) -> Iterator[pa.Table]:
        """See `TableSource.tables`."""
        for file in self.files:
            for batch in _batches(file):
                names = [name for name in columns if name in batch.schema.names]
                part = batch.select(names)
                _validate(part, file)
                yield from _slices(part)


def _arrow_files(folder: Path) -> list[Path]:
    """Lists the Arrow files of a folder; its JSON files may not name any outside."""
    if (folder / _INFO_FILE).is_file():
        _read_json(folder / _INFO_FILE)
    path = folder / STATE_FILE
    state = _read_json(path)
    if state.get("_indices_files") or state.get("_indices_data_files"):
        raise InputError(
            f"{path}: the rows were selected or shuffled through index files: "
            "save the data set again with a current version of datasets"
        )
    entries = state.get("_data_files")
    if not isinstance(entries, list) or not entries:
        raise InputError(f"{path}: damaged data set (no list _data_files): write or fetch it again")
    return [_within(folder, entry) for entry in entries]


def validate_folder(folder: Path) -> None:
    """Checks every offset and length in the Arrow files of a folder.

    Arrow does not check these numbers, so that a malformed file would be read beyond its end.
    Call this before any library opens a folder from an untrusted source.

    Raises:
        InputError: A file is damaged, truncated or not a table of trajectories.
    """
    for file in _arrow_files(folder):
        for batch in _batches(file):
            _validate(batch, file)


def _within(folder: Path, entry: Any) -> Path:
    name = entry.get("filename") if isinstance(entry, dict) else None
    if not isinstance(name, str) or not name or Path(name).name != name or "\\" in name:
        raise InputError(
            f"{folder / STATE_FILE}: damaged data set (_data_files holds {one_line(entry, 60)}, "
            "not a file name in this folder): write or fetch it again"
        )
    if not (folder / name).is_file():
        raise InputError(
            f"{folder}: damaged data set (no file {one_line(name, 60)}): write or fetch it again"
        )
    require_ordinary(folder / name, inside=folder)
    return folder / name


def _read_json(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(read_content(path))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: damaged data set (not JSON: {one_line(error, 80)}): write or fetch it again"
        ) from error
    if not isinstance(document, dict):
        raise InputError(f"{path}: damaged data set (not a JSON object): write or fetch it again")
    return document


@contextmanager
def _damage_of(file: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, MemoryError, UnicodeDecodeError) as error:
        raise InputError(
            f"{file}: damaged data set ({one_line(error)}): save or fetch it again"
        ) from error


def _batches(file: Path) -> Iterator[pa.RecordBatch]:
    """Yields the record batches of a file, memory-mapped and not validated."""
    with _damage_of(file), pa.memory_map(str(file)) as mapped:
        if mapped.size() >= len(_FILE_MAGIC) and mapped.read(len(_FILE_MAGIC)) == _FILE_MAGIC:
            reader = pa.ipc.open_file(mapped)
            check_columns(reader.schema, where=str(file))
            yield from (reader.get_batch(index) for index in range(reader.num_record_batches))
            return
        mapped.seek(0)
        stream = pa.ipc.open_stream(mapped)
        check_columns(stream.schema, where=str(file))
        _check_end(file)
        yield from stream


def _check_end(file: Path) -> None:
    """Refuses a stream truncated between two batches, where only the end mark is missing."""
    with file.open("rb") as raw:
        raw.seek(-min(8, file.stat().st_size), 2)
        if not raw.read().endswith(_END_OF_STREAM):
            raise InputError(f"{file}: damaged data set (truncated): save or fetch it again")


def _validate(batch: pa.RecordBatch, file: Path) -> None:
    with _damage_of(file):
        batch.validate(full=True)


def _slices(batch: pa.RecordBatch) -> Iterator[pa.Table]:
    """Yields parts of about `CHUNK_BYTES`; a batch of `datasets` may be the whole data set."""
    if not len(batch):
        return
    step = max(len(batch) * trajectory_source.CHUNK_BYTES // max(batch.nbytes, 1), 1)
    for start in range(0, len(batch), step):
        yield pa.Table.from_batches([batch.slice(start, step)])
