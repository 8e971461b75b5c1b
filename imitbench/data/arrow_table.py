"""Arrow tables with one trajectory per row, in the layout of the data sets on the hub.

Columns: `obs` list of T + 1 observations, `acts` list of T actions, `infos` list of T JSON
texts, `terminal` bool, and `rews` list of T numbers. Arrays are converted to nested lists and
back through their offsets, without a Python object per element.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from imitbench.data.infos import decode_infos, encode_infos
from imitbench.data.observations import DictObs
from imitbench.data.trajectories import Trajectory, TrajectoryWithRew, infos_of, trajectory_of
from imitbench.errors import InputError
from imitbench.util.text_line import one_line

Array = npt.NDArray[Any]

COLUMNS = ("obs", "acts", "infos", "terminal", "rews")
"""Columns of a table of trajectories, named as in the reference library and on the hub."""

_LONGEST_LIST = 2**31 - 1  # Arrow's `list` has 32-bit offsets
_LARGEST_ENTRY = 2**28  # numbers in one observation; a larger declared size is refused
# Arrow's own conversions import pandas, which takes almost a second and 20 MB.
_KINDS: dict[pa.DataType, np.dtype[Any]] = {
    getattr(pa, name)(): np.dtype(name)
    for name in (
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
        *(f"float{bits}" for bits in (16, 32, 64)),
    )
}
_TYPES = {dtype: kind for kind, dtype in _KINDS.items()}


class TableRow(NamedTuple):
    """A table row as read, not yet validated.

    Attributes:
        obs: Observations; a valid row has shape `(T + 1, *observation_shape)`.
        acts: Actions; a valid row has shape `(T, *action_shape)`.
        terminal: Whether the episode ended.
        rews: Rewards; a valid row has shape `(T,)`. None if the table has no rewards.
    """

    obs: Array
    acts: Array
    terminal: bool
    rews: Array | None

    def trajectory(self, *, infos: Array | None, where: str, number: int) -> Trajectory:
        """Converts the row to a trajectory.

        Args:
            infos: One dictionary per step, or None.
            where: Name of the table in errors.
            number: Row number in errors.

        Returns:
            A `TrajectoryWithRew` if there are rewards; integer rewards become float64.

        Raises:
            InputError: Lengths or data types do not match.
        """
        rews = self.rews
        if rews is not None and rews.dtype.kind != "f":
            rews = rews.astype(float)
        try:
            return trajectory_of(self.obs, self.acts, self.terminal, rews, infos)
        except ValueError as error:
            raise InputError(f"{where}, episode {number}: {error}; remove the episode") from error


def trajectories_to_table(
    trajectories: Sequence[Trajectory], *, compact: bool = False, infos: pa.Array | None = None
) -> pa.Table:
    """Converts trajectories to a table.

    Args:
        trajectories: At least one; all with rewards or all without; array observations of
            one shape.
        compact: Whether to store float64 observations and actions as float32 where that is
            exact, and integer actions as int64. Otherwise data types are kept.
        infos: Texts to store in place of the trajectories' infos, as returned by
            `infos_texts`.

    Returns:
        The table. Its metadata declare the features for Hugging Face `datasets`.

    Raises:
        InputError: The trajectories do not fit into one table.
    """
    if not trajectories:
        raise InputError("there are no trajectories to write: pass at least one")
    with_rewards = [isinstance(trajectory, TrajectoryWithRew) for trajectory in trajectories]
    if len(set(with_rewards)) > 1:
        raise InputError(
            f"trajectory {with_rewards.index(not with_rewards[0])} and the first differ in "
            "whether they have rewards: write one kind at a time"
        )
    for row, trajectory in enumerate(trajectories):
        if isinstance(trajectory.obs, DictObs):
            raise InputError(
                f"trajectory {row} has dictionary observations, which a table cannot hold: "
                "flatten them first"
            )
    obs = _one_kind("obs", [np.asarray(trajectory.obs) for trajectory in trajectories])
    acts = _one_kind("acts", [trajectory.acts for trajectory in trajectories])
    if compact:
        obs, acts = _compact(obs), _compact(acts)
        if acts[0].dtype.kind in "iub":
            acts = [array.astype(np.int64) for array in acts]
    columns = {
        "obs": nested_lists("obs", obs),
        "acts": nested_lists("acts", acts),
        "infos": _infos_column(trajectories) if infos is None else infos,
        "terminal": pa.array([bool(trajectory.terminal) for trajectory in trajectories]),
    }
    if with_rewards[0]:
        rews = [t.rews for t in trajectories if isinstance(t, TrajectoryWithRew)]
        columns["rews"] = nested_lists("rews", [array.astype(np.float64) for array in rews])
    features = {name: _feature(column.type) for name, column in columns.items()}
    return pa.table(columns).replace_schema_metadata(
        {"huggingface": json.dumps({"info": {"features": features}})}
    )


def table_to_trajectories(
    table: pa.Table, *, where: str, first_row: int = 0, with_infos: bool = True
) -> list[Trajectory]:
    """Reads a table that `trajectories_to_table` or the reference library wrote.

    Args:
        table: Columns `obs`, `acts`, `terminal`, optionally `infos`, `rews`; others are ignored.
        where: Name of the table in errors, such as a path.
        first_row: Number of the table's first row in errors.
        with_infos: Whether to decode the infos; otherwise they are None.

    Returns:
        A `TrajectoryWithRew` per row if there are rewards, else a `Trajectory`. The arrays are
        writable copies; those of a column share one block of memory.

    Raises:
        InputError: The table does not have this layout.
    """
    rows = table_rows(table, where=where, first_row=first_row)
    infos: Iterator[Array | None] = (None for _ in rows)
    texts = infos_texts(table, where=where, first_row=first_row) if with_infos else None
    if texts is not None:
        infos = (decode_infos(row.as_py()) for row in texts)
    return [
        row.trajectory(infos=decoded, where=where, number=first_row + index)
        for index, (row, decoded) in enumerate(zip(rows, infos, strict=True))
    ]


def table_rows(table: pa.Table, *, where: str, first_row: int = 0) -> list[TableRow]:
    """Reads a table without checking that its rows are valid trajectories.

    Args:
        table: As for `table_to_trajectories`.
        where: Name of the table in errors.
        first_row: Number of the table's first row in errors.

    Returns:
        One `TableRow` per row. The arrays are as for `table_to_trajectories`.

    Raises:
        InputError: A column is missing or has another type, or its lists are ragged.
    """
    check_columns(table.schema, where=where)
    source: dict[str, Any] = {"where": where, "first_row": first_row}
    obs = lists_to_arrays(table["obs"], "obs", **source)
    acts = lists_to_arrays(table["acts"], "acts", **source)
    rews: Sequence[Array | None] = [None] * len(obs)
    if "rews" in table.column_names:
        rews = lists_to_arrays(table["rews"], "rews", **source)
    terminal = table["terminal"]
    if not pa.types.is_boolean(terminal.type):
        raise InputError(
            f"{where}: column 'terminal' holds {one_line(terminal.type)}, not true and false: "
            "rewrite it"
        )
    if terminal.null_count:
        row = first_row + _first_null(terminal)
        raise InputError(f"{where}, episode {row}: 'terminal' is missing: remove the episode")
    return [TableRow(*row) for row in zip(obs, acts, terminal.to_pylist(), rews, strict=True)]


def infos_texts(table: pa.Table, *, where: str, first_row: int = 0) -> pa.Array | None:
    """Returns the infos of a table as JSON texts, not decoded.

    Args:
        table: See `table_to_trajectories`.
        where: Name of the table in errors.
        first_row: Number of the table's first row in errors.

    Returns:
        One row of type `list<string>` per trajectory, or None if the table has no infos.

    Raises:
        InputError: The column has another type, or texts are missing.
    """
    if "infos" not in table.column_names:
        return None
    column = table["infos"]
    if not _is_list(column.type) or not (
        pa.types.is_string(column.type.value_type)
        or pa.types.is_large_string(column.type.value_type)
    ):
        raise InputError(
            f"{where}: column 'infos' holds {one_line(column.type)}, not lists of text: remove it"
        )
    texts = column.combine_chunks()
    try:
        texts.validate(full=True)  # later, the row of invalid UTF-8 would be unknown
    except pa.ArrowInvalid as error:
        row = first_row + _first_invalid(texts)
        raise InputError(
            f"{where}, episode {row}: infos are not text: remove the episode"
        ) from error
    for missing, row_of in ((texts, None), (texts.flatten(), pc.list_parent_indices(texts))):
        if missing.null_count:
            entry = _first_null(missing)
            row = first_row + (entry if row_of is None else row_of[entry].as_py())
            raise InputError(f"{where}, episode {row}: infos are missing: remove the episode")
    return texts.cast(pa.list_(pa.string()))


def check_columns(schema: pa.Schema, *, where: str) -> None:
    """Checks that a schema names the columns of trajectories.

    Args:
        schema: Schema of a table or file.
        where: Name of the table in errors.

    Raises:
        InputError: A column is missing or duplicated, or its type declares entries larger
            than any observation.
    """
    missing = [name for name in ("obs", "acts", "terminal") if name not in schema.names]
    if missing:
        names = one_line(", ".join(schema.names)) or "none"
        raise InputError(
            f"{where}: no column {', '.join(missing)} among {names}: "
            "trajectories have the columns obs, acts, infos, terminal, rews"
        )
    for name in COLUMNS:
        if schema.names.count(name) > 1:
            raise InputError(f"{where}: column '{name}' appears twice: write it again")
        if name in schema.names:
            _check_entry_size(schema.field(name).type, name, where)


def _check_entry_size(kind: pa.DataType, name: str, where: str) -> None:
    """Refuses fixed-size lists that would take gigabytes for a single null entry."""
    size = 1
    while _is_list(kind := _storage_type(kind)):
        if pa.types.is_fixed_size_list(kind):
            if not kind.list_size:  # no bytes for any number of them
                raise InputError(f"{where}: column '{name}' has lists of length 0: remove it")
            size *= kind.list_size
        kind = kind.value_type
    if size > _LARGEST_ENTRY:
        raise InputError(
            f"{where}: column '{name}' declares entries of {size} numbers, more than "
            f"{_LARGEST_ENTRY}: the file is damaged or malicious; write or fetch it again"
        )


def nested_lists(name: str, arrays: Sequence[Array]) -> pa.Array:
    """Converts arrays to a column of lists, nested once per dimension.

    Args:
        name: Column name in errors.
        arrays: Shapes `(n_i, *rest)` with a common `rest`, one data type.

    Raises:
        InputError: There are more numbers than an Arrow list can hold.
    """
    joined = np.concatenate(arrays)
    if joined.size > _LONGEST_LIST:
        raise InputError(
            f"column '{name}' would hold {joined.size} numbers, more than {_LONGEST_LIST}: "
            "write the trajectories to several shards"
        )
    column = arrow_view(joined.ravel())
    for depth in range(joined.ndim - 1, 0, -1):
        count, size = int(np.prod(joined.shape[:depth])), joined.shape[depth]
        offsets = np.arange(count + 1, dtype=np.int32) * np.int32(size)
        column = pa.ListArray.from_arrays(arrow_view(offsets), column)
    return pa.ListArray.from_arrays(_offsets([len(array) for array in arrays]), column)


def lists_to_arrays(
    column: pa.ChunkedArray, name: str, *, where: str, first_row: int = 0
) -> list[Array]:
    """Inverts `nested_lists`.

    Args:
        column: Lists of numbers, or of equally long lists of numbers, and so on.
        name: Column name in errors.
        where: File name in errors.
        first_row: Number of the column's first row in errors.

    Returns:
        One array per row, shape `(n_i, *rest)`, in the column's data type; those of a chunk
        share one block of memory.

    Raises:
        InputError: The column has another type or nulls, or its lists are ragged.
    """
    arrays: list[Array] = []
    for chunk in column.chunks:
        arrays.extend(_chunk_to_arrays(chunk, name, where, first_row + len(arrays)))
    return arrays


def _chunk_to_arrays(chunk: pa.Array, name: str, where: str, first_row: int) -> Iterator[Array]:
    level = _storage(chunk)
    if not _is_list(level.type):
        raise InputError(
            f"{where}: column '{name}' holds {one_line(level.type)}, not lists of numbers"
        )
    _refuse_missing(level, lambda entry: first_row + entry, name, where)
    lengths = _lengths(level)
    ends = np.cumsum(lengths)
    level = _storage(level.flatten())
    rest: list[int] = []

    def row_of(entry: int) -> int:
        """Returns the row of an entry of the current level."""
        step = entry // max(math.prod(rest), 1)
        return first_row + int(np.searchsorted(ends, step, side="right"))

    while _is_list(level.type):
        _refuse_missing(level, row_of, name, where)
        sizes = _lengths(level)
        size = int(sizes[0]) if len(sizes) else 0
        odd = np.flatnonzero(sizes != size)
        if len(odd):
            raise InputError(
                f"{where}, episode {row_of(int(odd[0]))}: column '{name}' holds entries of length "
                f"{size} and of length {sizes[odd[0]]}: remove the episode, or pad its entries"
            )
        rest.append(size)
        level = _storage(level.flatten())
    kind = level.type
    if not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        raise InputError(f"{where}: column '{name}' holds {one_line(kind)}, not numbers")
    _refuse_missing(level, row_of, name, where)
    joined = numpy_view(level).copy().reshape(int(lengths.sum()), *rest)
    return (joined[end - length : end] for length, end in zip(lengths, ends, strict=True))


def _refuse_missing(level: pa.Array, row_of: Callable[[int], int], name: str, where: str) -> None:
    if level.null_count:
        what = "entries" if _is_list(level.type) else "numbers"
        row = row_of(_first_null(level))
        raise InputError(
            f"{where}, episode {row}: column '{name}' has missing {what}: remove the episode"
        )


def _first_null(values: pa.Array | pa.ChunkedArray) -> int:
    return int(pc.index(pc.is_null(values), True).as_py())


def _first_invalid(texts: pa.Array) -> int:
    """Returns the first row with damaged texts; called only after an error, as it is slow."""
    for row in range(len(texts)):
        try:
            texts.slice(row, 1).to_pylist()
        except (UnicodeDecodeError, pa.ArrowException):
            return row
    return 0


def _lengths(lists: pa.Array) -> npt.NDArray[np.int64]:
    return numpy_view(pc.list_value_length(lists)).astype(np.int64)


def _storage(array: pa.Array) -> pa.Array:
    """Returns the array inside an extension type, such as fixed-shape arrays of `datasets`."""
    return array.storage if isinstance(array.type, pa.BaseExtensionType) else array


def _storage_type(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _one_kind(name: str, arrays: list[Array]) -> list[Array]:
    """Checks that arrays differ only in length, and converts them to a common data type."""
    for row, array in enumerate(arrays):
        if array.shape[1:] != arrays[0].shape[1:]:
            raise InputError(
                f"trajectory {row}: {name} have shape {array.shape[1:]} each, the first has "
                f"{arrays[0].shape[1:]}: write trajectories of one environment"
            )
        if array.dtype.kind not in "fiub":
            raise InputError(f"trajectory {row}: {name} have data type {array.dtype}, not numbers")
    common = np.result_type(*{array.dtype for array in arrays})
    return [array.astype(common, copy=False) for array in arrays]


def _compact(arrays: list[Array]) -> list[Array]:
    if arrays[0].dtype != np.float64:
        return arrays
    with np.errstate(over="ignore"):
        small = [array.astype(np.float32) for array in arrays]
    exact = all(np.array_equal(a, b, equal_nan=True) for a, b in zip(arrays, small, strict=True))
    return small if exact else arrays


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


def _offsets(lengths: Sequence[int]) -> pa.Array:
    return arrow_view(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))


def _infos_column(trajectories: Sequence[Trajectory]) -> pa.Array:
    texts: list[str] = []
    for row, trajectory in enumerate(trajectories):
        try:
            texts += encode_infos(infos_of(trajectory))
        except ValueError as error:
            raise InputError(f"trajectory {row}: {error}") from error
    lengths = [len(trajectory) for trajectory in trajectories]
    return pa.ListArray.from_arrays(_offsets(lengths), pa.array(texts, pa.string()))


def _feature(kind: pa.DataType) -> dict[str, Any]:
    """Returns a column type in the form that old and new versions of `datasets` read."""
    if _is_list(kind):
        return {"feature": _feature(kind.value_type), "_type": "Sequence"}
    names = {pa.float64(): "float64", pa.float32(): "float32", pa.float16(): "float16"}
    return {"dtype": names.get(kind, str(kind)), "_type": "Value"}
