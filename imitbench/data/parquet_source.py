"""Reads data sets in the hub layout: `data/train-*.parquet`, one row per trajectory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from imitbench.data import trajectory_source
from imitbench.data.arrow_table import check_columns
from imitbench.data.trajectory_source import TableSource
from imitbench.errors import InputError, MissingPathError
from imitbench.untrusted.files import require_ordinary
from imitbench.untrusted.limits import beyond, limits
from imitbench.util.text_line import one_line

_SHARD = re.compile(r"-(\d+)-of-(\d+)")
# Equal numbers compress so well that kilobytes can unpack to terabytes. No real data set exceeds
# this and the limit `ratio`: its observations are random, or it has only a few million steps.
_ALWAYS_BYTES = 2**28
_WIDTHS = {
    **dict.fromkeys(("INT_8", "UINT_8"), 1),
    **dict.fromkeys(("INT_16", "UINT_16"), 2),
    **dict.fromkeys(("BOOLEAN",), 1),
    **dict.fromkeys(("INT32", "FLOAT"), 4),
}
_BUFFER_BYTES = 2**18


class ParquetSource(TableSource):
    """A folder with `data/train-*.parquet`, or one file.

    Args:
        path: Folder of the data set, or a Parquet file.
        trust: See `TrajectorySource`.

    Raises:
        InputError: Files, shards or columns are missing, or a file is damaged.
    """

    form = "Parquet"

    def __init__(self, path: Path, *, trust: bool = False) -> None:
        self.where, self.trust = str(path), trust
        self.files = parquet_files(path)
        self._counts = [_count_rows(file) for file in self.files]

    def __len__(self) -> int:
        """Number of trajectories."""
        return sum(self._counts)

    def tables(self, columns: Sequence[str], limit: int | None) -> Iterator[pa.Table]:
        """See `TableSource.tables`."""
        for file in self.files:
            yield from _stream(file, columns)

    def read_rows(self, rows: Sequence[int], columns: Sequence[str]) -> Iterator[pa.Table]:
        """Reads selected rows; others only if they share a row group with them.

        Args:
            rows: Increasing row numbers, each below `len(self)`.
            columns: Columns to read, where they exist.

        Returns:
            One table of the selected rows per file that has any.
        """
        start = 0
        for file, count in zip(self.files, self._counts, strict=True):
            wanted = [row - start for row in rows if start <= row < start + count]
            if wanted:
                yield _take(file, wanted, columns)
            start += count


def parquet_files(path: Path) -> list[Path]:
    """Lists the files of a data set, in order.

    Args:
        path: Folder with `data/train-*.parquet`, or a file.

    Raises:
        InputError: There are no files, or shards are missing or mixed.
    """
    if path.exists() and not path.is_dir():
        require_ordinary(path)
        return [path]
    if not path.is_dir():
        raise MissingPathError(f"{path}: no such file or folder: check the path")
    files = sorted((path / "data").glob("train-*.parquet"))
    for file in files:
        require_ordinary(file, inside=path)
    if not files:
        raise InputError(f"{path}: no file data/train-*.parquet in it: is it a data set folder?")
    numbers = [match for file in files if (match := _SHARD.search(file.name))]
    totals = {int(match[2]) for match in numbers}
    if len(numbers) == len(files) and (
        totals != {len(files)} or [int(match[1]) for match in numbers] != list(range(len(files)))
    ):
        names = one_line(", ".join(file.name for file in files))
        raise InputError(
            f"{path / 'data'}: the shards are not one complete data set ({names}): "
            "fetch the missing ones or remove those of another data set"
        )
    return files


def read_whole(file: Path, columns: Sequence[str]) -> pa.Table:
    """Reads a whole file at once, on all processors.

    Args:
        file: A Parquet file.
        columns: Columns to read, where they exist.

    Raises:
        InputError: The file is damaged or does not contain trajectories.
    """
    with opened_parquet(file) as parquet:
        _check(parquet, file)
        table = parquet.read(columns=_present(parquet, columns))
        table.validate()
        if len(table) != parquet.metadata.num_rows:
            raise pa.ArrowInvalid(f"declares {parquet.metadata.num_rows} rows, has {len(table)}")
        return table


@contextmanager
def opened_parquet(file: Path, *, whole: bool = True) -> Iterator[pq.ParquetFile]:
    """Opens a file, and converts errors of a damaged file to `InputError`.

    Args:
        file: A Parquet file.
        whole: Whether to prefetch the requested columns, or to read in small pieces.
    """
    reading: dict[str, Any] = {} if whole else {"pre_buffer": False, "buffer_size": _BUFFER_BYTES}
    try:
        with pq.ParquetFile(file, page_checksum_verification=True, **reading) as parquet:
            yield parquet
    except (pa.ArrowException, OSError, UnicodeDecodeError, MemoryError) as error:
        raise InputError(
            f"{file}: not readable as Parquet ({one_line(error)}): fetch or write it again"
        ) from error


def _count_rows(file: Path) -> int:
    with opened_parquet(file) as parquet:
        _check(parquet, file)
        return int(parquet.metadata.num_rows)


def _check(parquet: pq.ParquetFile, file: Path) -> None:
    check_columns(parquet.schema_arrow, where=str(file))
    check_size(parquet, file)


def check_size(parquet: pq.ParquetFile, file: Path) -> None:
    """Refuses a file that declares far more numbers than it has bytes.

    Raises:
        InputError: The file is damaged or malicious.
        pyarrow.ArrowInvalid: Its numbers of rows contradict each other.
    """
    groups = range(parquet.metadata.num_row_groups)
    declared = sum(parquet.metadata.row_group(group).num_rows for group in groups)
    if parquet.metadata.num_rows != declared:
        raise pa.ArrowInvalid(
            f"declares {parquet.metadata.num_rows} rows, but {declared} in its row groups"
        )
    widths = [_width(parquet, index) for index in range(parquet.metadata.num_columns)]
    columns = [_columns(parquet, group) for group in groups]
    size = sum(
        column.num_values * width
        for group in columns
        for column, width in zip(group, widths, strict=True)
    )
    packed = sum(max(column.total_compressed_size, 1) for group in columns for column in group)
    if size > _ALWAYS_BYTES + limits().ratio * packed:
        told = beyond("ratio", f"declares {size:,} bytes of numbers in {packed:,}")
        raise InputError(
            f"{file}: {told}; the file is damaged or malicious; write or fetch it again"
        )


def _width(parquet: pq.ParquetFile, index: int) -> int:
    """Returns the bytes of a number in a column, after reading."""
    column = parquet.schema.column(index)
    return _WIDTHS.get(column.converted_type) or _WIDTHS.get(column.physical_type, 8)


def _columns(parquet: pq.ParquetFile, group: int) -> list[pq.ColumnChunkMetaData]:
    metadata = parquet.metadata.row_group(group)
    return [metadata.column(index) for index in range(metadata.num_columns)]


def _present(parquet: pq.ParquetFile, columns: Sequence[str]) -> list[str]:
    return [name for name in columns if name in parquet.schema_arrow.names]


def _stream(file: Path, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Reads a file in tables of about `CHUNK_BYTES`."""
    with opened_parquet(file, whole=False) as parquet:
        _check(parquet, file)
        names = _present(parquet, columns)
        for group in range(parquet.metadata.num_row_groups):
            yield from _stream_group(parquet, group, names)


def _stream_group(parquet: pq.ParquetFile, group: int, names: list[str]) -> Iterator[pa.Table]:
    numbers = sum(column.num_values for column in _columns(parquet, group))
    rows = parquet.metadata.row_group(group).num_rows
    size = trajectory_source.CHUNK_BYTES * rows // (8 * max(numbers, 1))
    for batch in parquet.iter_batches(max(min(size, rows), 1), row_groups=[group], columns=names):
        rows -= len(batch)
        yield pa.Table.from_batches([batch])
    if rows:
        raise pa.ArrowInvalid(f"row group {group} lacks {rows} of the rows that it declares")


def _take(file: Path, wanted: list[int], columns: Sequence[str]) -> pa.Table:
    """Selects rows of a file; reads only row groups that contain any, up to the last row."""
    parts: list[pa.Table] = []
    with opened_parquet(file, whole=False) as parquet:
        names = _present(parquet, columns)
        start = 0
        for group in range(parquet.metadata.num_row_groups):
            stop = start + parquet.metadata.row_group(group).num_rows
            if any(start <= row < stop for row in wanted):
                for table in _stream_group(parquet, group, names):
                    inside = [row - start for row in wanted if start <= row < start + len(table)]
                    if inside:
                        parts.append(table.take(inside))
                    start += len(table)
                    if start > wanted[-1]:
                        break
            start = stop
    return pa.concat_tables(parts)
