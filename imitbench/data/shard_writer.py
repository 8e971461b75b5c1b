"""Writes the Parquet files of a data set, a few megabytes at a time."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from imitbench.data.demonstrations import PARQUET_OPTIONS
from imitbench.util.files import fsync_directory


class ShardWriter:
    """Writes tables sequentially, with a new file whenever one is full.

    Use it as a context manager. On exit without an error the files get their names,
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
            self._writer = pq.ParquetWriter(self._path(None), table.schema, **PARQUET_OPTIONS)
            self._count += 1
            self._size = 0
        self._writer.write_table(table, row_group_size=max(len(table), 1))
        self._size += table.nbytes

    def __exit__(self, kind: object, *rest: object) -> None:
        self._close()
        if kind is None:
            self._name_files()

    def _path(self, total: int | None, index: int | None = None) -> Path:
        index = self._count if index is None else index
        name = f"{index}.part" if total is None else f"train-{index:05d}-of-{total:05d}.parquet"
        return self._folder / name

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _name_files(self) -> None:
        """Renames the files once their number, which is part of each name, is known."""
        for index in range(self._count):
            part = self._path(None, index)
            with part.open("rb") as stream:
                os.fsync(stream.fileno())
            part.rename(self._path(self._count, index))
        fsync_directory(self._folder)
