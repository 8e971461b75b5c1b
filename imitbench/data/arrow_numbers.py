"""Converts numbers between Arrow and NumPy with shared memory.

Arrow's conversions import pandas, which takes almost a second and 20 MB.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Array = npt.NDArray[Any]

_KINDS: dict[pa.DataType, np.dtype[Any]] = {
    getattr(pa, name)(): np.dtype(name)
    for name in (
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
        *(f"float{bits}" for bits in (16, 32, 64)),
    )
}
_TYPES = {dtype: kind for kind, dtype in _KINDS.items()}


def numpy_view(numbers: pa.Array) -> Array:
    """Returns a read-only view of an Arrow array.

    Args:
        numbers: Integers or floats of any width, or booleans, which are copied; no nulls.

    Returns:
        Shape `(len(numbers),)`, with the same type and width.
    """
    if pa.types.is_boolean(numbers.type):
        return numpy_view(pc.cast(numbers, pa.uint8())).view(np.bool_)
    dtype = _KINDS[numbers.type]
    buffer = numbers.buffers()[1]
    if buffer is None or not len(numbers):
        return np.empty(0, dtype)
    view = np.frombuffer(buffer, dtype, len(numbers), numbers.offset * dtype.itemsize)
    view.flags.writeable = False
    return view


def arrow_view(numbers: Array) -> pa.Array:
    """Returns an Arrow array that shares NumPy's memory if that is contiguous.

    Args:
        numbers: Shape `(n,)`; integers, floats or booleans, which are copied.
    """
    if numbers.dtype == np.bool_:
        return pc.cast(arrow_view(numbers.view(np.uint8)), pa.bool_())
    native = np.ascontiguousarray(numbers, numbers.dtype.newbyteorder("="))
    kind = _TYPES[native.dtype]
    return pa.Array.from_buffers(kind, len(native), [None, pa.py_buffer(native)])
