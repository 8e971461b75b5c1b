"""Reads and writes demonstrations as CSV tables, one step per line.

The columns are `obs_0`, `obs_1` …, `acts_0` … (or `obs`, `acts` for single numbers), `dones`, and
optionally `rewards`, `next_obs_0` … and `episode`. `imitbench.data.plain_arrays` explains them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pc

from imitbench.data.arrow_table import TableRow, numpy_view
from imitbench.data.plain_arrays import NAMES, ArraysSource, MemoryReader
from imitbench.errors import InputError
from imitbench.untrusted.csv_text import check_header
from imitbench.untrusted.files import require_size
from imitbench.util.text_line import one_line

Array = npt.NDArray[Any]

_NUMBERED = re.compile(r"(obs|acts|next_obs)_(\d{1,9})")


def open_csv(path: Path, *, single: bool = False) -> ArraysSource:
    """Opens a CSV table of steps.

    Args:
        path: A file with a header line.
        single: See `ArraysSource`.

    Raises:
        InputError: The table is damaged, columns are missing, or a value is not a number.
    """
    table = _read(path)
    groups = _groups(table.column_names, str(path))
    others = [n for n in table.column_names if n not in {c for g in groups.values() for c in g}]
    arrays = {name: _array(table, group, path) for name, group in groups.items()}
    reader = MemoryReader(arrays, others)
    return ArraysSource(reader, where=str(path), form="CSV", single=single, untyped=True)


def csv_lines(row: TableRow, number: int) -> Iterator[str]:
    """Yields the lines of one episode, without the header of `csv_header`.

    Args:
        row: A valid row with flat observations and actions.
        number: Number of the episode.
    """
    obs, acts = row.obs.reshape(len(row.obs), -1), row.acts.reshape(len(row.acts), -1)
    for step in range(len(acts)):
        done = row.terminal and step == len(acts) - 1
        numbers = [
            *obs[step].tolist(),
            *acts[step].tolist(),
            *([] if row.rews is None else [float(row.rews[step])]),
            int(done),
            *obs[step + 1].tolist(),
        ]
        written = (repr(int(v) if isinstance(v, bool) else v) for v in numbers)
        yield f"{number},{','.join(written)}\n"


def csv_header(row: TableRow) -> str:
    """Returns the header line of a table of episodes such as `row`.

    Raises:
        InputError: Observations or actions are not flat.
    """
    for name, values in (("observations", row.obs), ("actions", row.acts)):
        if values.ndim > 2:
            raise InputError(
                f"{name} have shape {values.shape[1:]} each, and CSV holds rows of numbers: "
                "export to a .jsonl file"
            )
    rewards = [] if row.rews is None else ["rewards"]
    names = [
        "episode", *_columns("obs", row.obs), *_columns("acts", row.acts), *rewards, "dones",
        *_columns("next_obs", row.obs),
    ]  # fmt: skip
    return ",".join(names) + "\n"


def _columns(name: str, values: Array) -> list[str]:
    return [name] if values.ndim == 1 else [f"{name}_{i}" for i in range(values.shape[1])]


def _read(path: Path) -> pa.Table:
    require_size(path)
    try:
        check_header(path)
        table = pc.read_csv(
            path,
            read_options=pc.ReadOptions(use_threads=False),
            convert_options=pc.ConvertOptions(null_values=[""], strings_can_be_null=True),
        )
        names = table.column_names
    except (pa.ArrowException, OSError, UnicodeDecodeError, MemoryError) as error:
        raise InputError(
            f"{path}: not readable as CSV ({one_line(error, 160)}): write a header line and the "
            "same number of values in each line"
        ) from error
    twice = sorted({name for name, count in Counter(names).items() if count > 1})
    if twice:
        raise InputError(f"{path}: column '{one_line(twice[0], 40)}' appears twice: remove one")
    return table


def _groups(names: list[str], where: str) -> dict[str, list[str]]:
    """Returns the columns of each array, in order."""
    groups: dict[str, list[str]] = {name: [name] for name in NAMES if name in names}
    numbered: dict[str, dict[int, str]] = {}
    for column in names:
        if found := _NUMBERED.fullmatch(column):
            numbered.setdefault(found[1], {})[int(found[2])] = column
    for name, columns in numbered.items():
        if name in groups:
            raise InputError(f"{where}: has columns {name} and {min(columns.values())}: keep one")
        absent = sorted(set(range(len(columns))) - set(columns))
        if absent:
            raise InputError(
                f"{where}: has {len(columns)} columns {name}_… and no {name}_{absent[0]}: number "
                "them from 0"
            )
        groups[name] = [columns[index] for index in range(len(columns))]
    return groups


def _array(table: pa.Table, columns: list[str], path: Path) -> Array:
    values = [_numbers(table[column], column, path) for column in columns]
    if len(columns) == 1 and columns[0] in NAMES:
        return values[0]
    return np.column_stack(values)


def _numbers(column: pa.ChunkedArray, name: str, path: Path) -> Array:
    if column.null_count:
        row = column.is_null().to_pylist().index(True)
        raise InputError(f"{path}, line {row + 2}: {name} is empty: write a number")
    if pa.types.is_boolean(column.type) or pa.types.is_integer(column.type):
        return numpy_view(column.combine_chunks()).astype(np.int64)
    if pa.types.is_floating(column.type):
        return np.array(numpy_view(column.combine_chunks()))
    if not len(column):
        return np.empty(0)
    for row, value in enumerate(column.to_pylist()):
        try:
            float(value)
        except (TypeError, ValueError):
            raise InputError(
                f"{path}, line {row + 2}: {name} is {one_line(repr(value), 40)}: write a number"
            ) from None
    raise InputError(f"{path}: {name} does not hold numbers: write numbers")
