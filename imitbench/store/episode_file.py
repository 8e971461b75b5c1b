"""Reads `episodes.parquet` of a run, whose declared sizes are checked before it is decoded."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from imitbench.errors import InputError
from imitbench.untrusted.files import read_content
from imitbench.untrusted.limits import beyond, limits
from imitbench.util.text_line import one_line

EPISODES = pa.schema(
    [
        ("episode", pa.int64()),
        ("deterministic", pa.bool_()),
        ("raw_return", pa.float64()),
        ("length", pa.int64()),
        ("terminated", pa.bool_()),
        ("truncated", pa.bool_()),
    ]
)
# A page states its unpacked size, which only these two bound by the bytes that are there.
_CODECS = {"SNAPPY", "UNCOMPRESSED"}


def read_episode_file(path: Path) -> pa.Table:
    """Reads the evaluation episodes of a run, in the columns `EPISODES`.

    Raises:
        InputError: The file is missing or damaged, lacks columns, or declares too many episodes.
    """
    try:
        # From memory, because opening the path through Arrow's file systems is slower.
        with pq.ParquetFile(pa.BufferReader(read_content(path))) as file:
            _check(file, path)
            table = file.read(columns=EPISODES.names, use_threads=False)
        table = table.select(EPISODES.names)
        return table if table.schema.equals(EPISODES) else table.cast(EPISODES)
    except (OSError, pa.ArrowException, KeyError, MemoryError) as error:
        raise InputError(f"{path}: cannot be read ({one_line(error)})") from error


def _check(file: pq.ParquetFile, path: Path) -> None:
    """Checks that each column has a number per episode, and that there are not too many."""
    declared = file.metadata
    groups = [declared.row_group(index) for index in range(declared.num_row_groups)]
    rows = max(declared.num_rows, sum(group.num_rows for group in groups))
    if rows > limits().run_episodes:
        raise InputError(f"{path}: {beyond('run_episodes', f'declares {rows:,} episodes')}")
    for name in EPISODES.names:
        kind = file.schema_arrow.field(name).type
        if not (
            pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)
        ):
            raise InputError(f"{path}: column {name} has no numbers; restore the file")
    codecs = {
        group.column(index).compression for group in groups for index in range(group.num_columns)
    }
    if not codecs <= _CODECS:
        raise InputError(f"{path}: is not packed as this program does; restore the file")
