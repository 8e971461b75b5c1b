"""Builds Arrow arrays and tables of Python values.

`pa.array` and what calls it import pandas wherever it is installed, for any list, in half a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_KINDS = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
_LONGEST = np.iinfo(np.int32).max


def arrow_column(values: Sequence[Any], kind: pa.DataType | None = None) -> pa.Array:
    """Returns what `pa.array(values, kind)` does, without pandas for usual values.

    Args:
        values: Texts, integers, floats or booleans, all of one kind, or `None`; others are left to
            `pa.array`.
        kind: Type of the array; by default, that of the values.
    """
    found = {type(value) for value in values} - {type(None)}
    if not found:
        return pa.nulls(len(values), kind)
    inferred = _KINDS.get(found.pop()) if len(found) == 1 else None
    if inferred is not None and kind in (None, inferred):
        try:
            return pa.Array.from_buffers(inferred, len(values), _buffers(values, inferred))
        except OverflowError:
            pass
    return pa.array(values, kind)


def arrow_rows(rows: Sequence[Mapping[str, Any]], schema: pa.Schema | None = None) -> pa.Table:
    """Returns what `pa.Table.from_pylist(rows, schema)` does, without pandas for usual values."""
    if schema is None:
        names = list(rows[0]) if rows else []
        return pa.table({name: arrow_column([row.get(name) for row in rows]) for name in names})
    columns = [arrow_column([row.get(each.name) for row in rows], each.type) for each in schema]
    return pa.table(columns, schema=schema)


def _buffers(values: Sequence[Any], kind: pa.DataType) -> list[pa.Buffer | None]:
    """Returns the buffers of an array, of which the first says which values are there.

    Raises:
        OverflowError: A number is too large for Arrow's type, or all texts together are.
    """
    there = np.array([value is not None for value in values])
    mask = None if there.all() else _bits(there)
    if kind == pa.string():
        texts = [b"" if value is None else value.encode() for value in values]
        offsets = np.zeros(len(texts) + 1, np.int64)
        np.cumsum([len(text) for text in texts], out=offsets[1:])
        if offsets[-1] > _LONGEST:
            raise OverflowError
        return [mask, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(b"".join(texts))]
    filled = [0 if value is None else value for value in values]
    if kind == pa.bool_():
        return [mask, _bits(np.array(filled, np.bool_))]
    return [mask, pa.py_buffer(np.array(filled, kind.to_pandas_dtype()))]


def _bits(flags: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))
