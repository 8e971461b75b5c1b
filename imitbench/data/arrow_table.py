"""Trajectories as Arrow tables, a row each, in the layout that the hub's data sets have.

Columns: `obs` list of T + 1 observations, `acts` list of T actions, `infos` list of T JSON
texts, `terminal` bool, and `rews` list of T numbers. Arrays go to nested lists and back by
their offsets; no element becomes a Python object.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from imitbench.data.infos import decode_infos, encode_infos
from imitbench.data.observations import DictObs
from imitbench.data.trajectories import Trajectory, TrajectoryWithRew
from imitbench.errors import InputError

Array = npt.NDArray[Any]

_LONGEST_LIST = 2**31 - 1  # Arrow's `list` has 32-bit offsets


def trajectories_to_table(trajectories: Sequence[Trajectory], *, compact: bool = False) -> pa.Table:
    """Lays trajectories out as a table.

    Args:
        trajectories: At least one; all with rewards or all without; plain array observations
            of one shape.
        compact: Whether to store float64 observations and actions as float32 where that loses
            nothing, and integer actions as int64. Otherwise data types stay as they are.

    Returns:
        The table. Its metadata tell Hugging Face `datasets` the features.

    Raises:
        InputError: The trajectories do not fit into one table.
    """
    if not trajectories:
        raise InputError("there are no trajectories to write: pass at least one")
    with_rewards = [isinstance(trajectory, TrajectoryWithRew) for trajectory in trajectories]
    if len(set(with_rewards)) > 1:
        raise InputError(
            f"trajectory {with_rewards.index(not with_rewards[0])} differs from the first in "
            "having rewards or not: write one kind at a time"
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
        "infos": _infos_column(trajectories),
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
        table: Columns `obs`, `acts`, `terminal`, maybe `infos` and `rews`; others are ignored.
        where: What to call the table in errors, such as a path.
        first_row: Number of the table's first row in errors.
        with_infos: Whether to decode the infos; None stands for them otherwise.

    Returns:
        A `TrajectoryWithRew` per row if there are rewards, else a `Trajectory`. The arrays are
        writable copies; all of one column share one block of memory.

    Raises:
        InputError: The table is not of that layout.
    """
    check_columns(table.schema, where=where)
    obs = lists_to_arrays(table["obs"], "obs", where=where, first_row=first_row)
    acts = lists_to_arrays(table["acts"], "acts", where=where, first_row=first_row)
    rews = None
    if "rews" in table.column_names:
        rews = lists_to_arrays(table["rews"], "rews", where=where, first_row=first_row)
    terminal = table["terminal"]
    if not pa.types.is_boolean(terminal.type) or terminal.null_count:
        raise InputError(f"{where}: column 'terminal' is not purely true and false: rewrite it")
    infos = _read_infos(table, where, first_row) if with_infos else [None] * len(obs)
    trajectories: list[Trajectory] = []
    for row, (o, a, i, end) in enumerate(zip(obs, acts, infos, terminal.to_pylist(), strict=True)):
        try:
            if rews is None:
                trajectories.append(Trajectory(o, a, i, end))
            else:
                reward = rews[row] if rews[row].dtype.kind == "f" else rews[row].astype(float)
                trajectories.append(TrajectoryWithRew(o, a, i, end, reward))
        except ValueError as error:
            raise InputError(f"{where}, row {first_row + row}: {error}; remove the row") from error
    return trajectories


def check_columns(schema: pa.Schema, *, where: str, rewards: bool = False) -> None:
    """Checks that a schema names the columns of trajectories.

    Args:
        schema: To be checked.
        where: What to call the table in errors.
        rewards: Whether there have to be rewards.

    Raises:
        InputError: A column is missing.
    """
    needed = ["obs", "acts", "terminal"] + ["rews"] * rewards
    missing = [name for name in needed if name not in schema.names]
    if missing:
        raise InputError(
            f"{where}: no column {', '.join(missing)} among {', '.join(schema.names) or 'none'}: "
            "trajectories have the columns obs, acts, infos, terminal, rews"
        )


def nested_lists(name: str, arrays: Sequence[Array]) -> pa.Array:
    """Makes a column with one list per array, nested as deep as the arrays have dimensions.

    Args:
        name: Of the column, for errors.
        arrays: Shapes `(n_i, *rest)` with a common `rest`, one data type.

    Raises:
        InputError: More numbers than an Arrow list can hold.
    """
    joined = np.concatenate(arrays)
    if joined.size > _LONGEST_LIST:
        raise InputError(
            f"column '{name}' would hold {joined.size} numbers, more than {_LONGEST_LIST}: "
            "write the trajectories to several shards"
        )
    column = pa.array(joined.ravel())
    for depth in range(joined.ndim - 1, 0, -1):
        count, size = int(np.prod(joined.shape[:depth])), joined.shape[depth]
        offsets = np.arange(count + 1, dtype=np.int32) * np.int32(size)
        column = pa.ListArray.from_arrays(pa.array(offsets), column)
    return pa.ListArray.from_arrays(_offsets([len(array) for array in arrays]), column)


def lists_to_arrays(
    column: pa.ChunkedArray, name: str, *, where: str, first_row: int = 0
) -> list[Array]:
    """Undoes `nested_lists`.

    Args:
        column: Lists of numbers, or of equally long lists of numbers, and so on.
        name: Of the column, for errors.
        where: Of what file, for errors.
        first_row: Number of the column's first row in errors.

    Returns:
        One array per row, shape `(n_i, *rest)`, in the column's data type, all of a chunk in
        one block of memory.

    Raises:
        InputError: The column is not of that kind, has gaps, or its lists are ragged.
    """
    arrays: list[Array] = []
    for chunk in column.chunks:
        arrays.extend(_chunk_to_arrays(chunk, name, where, first_row + len(arrays)))
    return arrays


def _chunk_to_arrays(chunk: pa.Array, name: str, where: str, first_row: int) -> Iterator[Array]:
    level = _storage(chunk)
    if not _is_list(level.type):
        raise InputError(f"{where}: column '{name}' holds {level.type}, not lists of numbers")
    lengths = _lengths(level, name, where)
    ends = np.cumsum(lengths)
    level = _storage(level.flatten())
    rest: list[int] = []
    while _is_list(level.type):
        sizes = _lengths(level, name, where)
        size = int(sizes[0]) if len(sizes) else 0
        odd = np.flatnonzero(sizes != size)
        if len(odd):
            entry = int(odd[0]) // int(np.prod(rest))
            row = first_row + int(np.searchsorted(ends, entry, side="right"))
            raise InputError(
                f"{where}, row {row}: column '{name}' holds entries of length {size} and of "
                f"length {sizes[odd[0]]}: remove the row, or pad its entries"
            )
        rest.append(size)
        level = _storage(level.flatten())
    kind = level.type
    if not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        raise InputError(f"{where}: column '{name}' holds {kind}, not numbers")
    if level.null_count:
        raise InputError(f"{where}: column '{name}' has missing numbers: remove those rows")
    numbers = np.array(level.to_numpy(zero_copy_only=False))
    joined = numbers.reshape(int(lengths.sum()), *rest)
    return (joined[end - length : end] for length, end in zip(lengths, ends, strict=True))


def _lengths(lists: pa.Array, name: str, where: str) -> npt.NDArray[np.int64]:
    if lists.null_count:
        raise InputError(f"{where}: column '{name}' has missing entries: remove those rows")
    sizes: Array = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    return sizes.astype(np.int64)


def _storage(array: pa.Array) -> pa.Array:
    """What lies under an extension type, such as the fixed-shape arrays of `datasets`."""
    return array.storage if isinstance(array.type, pa.BaseExtensionType) else array


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _one_kind(name: str, arrays: list[Array]) -> list[Array]:
    """Checks that the arrays differ in length alone, and gives them a common data type."""
    for row, array in enumerate(arrays):
        if array.shape[1:] != arrays[0].shape[1:]:
            raise InputError(
                f"trajectory {row}: {name} have shape {array.shape[1:]} each, those before have "
                f"{arrays[0].shape[1:]}: write trajectories of one environment"
            )
        if array.dtype.kind not in "fiub":
            raise InputError(f"trajectory {row}: {name} have data type {array.dtype}, no numbers")
    common = np.result_type(*{array.dtype for array in arrays})
    return [array.astype(common, copy=False) for array in arrays]


def _compact(arrays: list[Array]) -> list[Array]:
    if arrays[0].dtype != np.float64:
        return arrays
    with np.errstate(over="ignore"):
        small = [array.astype(np.float32) for array in arrays]
    exact = all(np.array_equal(a, b, equal_nan=True) for a, b in zip(arrays, small, strict=True))
    return small if exact else arrays


def _offsets(lengths: Sequence[int]) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))


def _infos_column(trajectories: Sequence[Trajectory]) -> pa.Array:
    texts: list[str] = []
    for row, trajectory in enumerate(trajectories):
        if trajectory.infos is None:
            texts += ["{}"] * len(trajectory)
            continue
        try:
            texts += encode_infos(trajectory.infos)
        except ValueError as error:
            raise InputError(f"trajectory {row}: {error}") from error
    lengths = [len(trajectory) for trajectory in trajectories]
    return pa.ListArray.from_arrays(_offsets(lengths), pa.array(texts, pa.string()))


def _read_infos(table: pa.Table, where: str, first_row: int) -> list[Array | None]:
    if "infos" not in table.column_names:
        return [None] * len(table)
    column = table["infos"]
    if not _is_list(column.type) or not (
        pa.types.is_string(column.type.value_type)
        or pa.types.is_large_string(column.type.value_type)
    ):
        raise InputError(f"{where}: column 'infos' holds {column.type}, not lists of text")
    infos: list[Array | None] = []
    for row, texts in enumerate(column):
        try:
            values = texts.as_py()
        except UnicodeDecodeError:
            values = None
        if values is None or None in values:
            raise InputError(
                f"{where}, row {first_row + row}: infos are missing or no text: remove the row"
            )
        infos.append(decode_infos(values))
    return infos


def _feature(kind: pa.DataType) -> dict[str, Any]:
    """A column type as old and new versions of `datasets` both read it."""
    if _is_list(kind):
        return {"feature": _feature(kind.value_type), "_type": "Sequence"}
    names = {pa.float64(): "float64", pa.float32(): "float32", pa.float16(): "float16"}
    return {"dtype": names.get(kind, str(kind)), "_type": "Value"}
