"""Imports scores in the format of rliable's examples: an array of runs by tasks per algorithm.

The file is either an `.npz` archive with a 2-D array per algorithm, or JSON: an object that maps
each algorithm to a list of runs, each a list of scores by task, or each algorithm and task to a
list of scores. The scores are already normalized.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from imitbench.errors import InputError
from imitbench.store.external_results import (
    MAX_RUNS,
    ExternalRun,
    ImportedResults,
    content_digest,
    parse_json,
    visible,
)
from imitbench.untrusted.archives import check_archive
from imitbench.untrusted.arrays import check_shape
from imitbench.untrusted.files import read_bounded
from imitbench.untrusted.limits import beyond, limits
from imitbench.util.parse_errors import DAMAGED_NPZ
from imitbench.util.text_line import one_line
from imitbench.util.validation_errors import first_problem

_MAX_BYTES = 64 * 2**20
_MAX_ALGORITHMS = 10_000
Scores = npt.NDArray[np.float64]
_ByTask = list[tuple[str, list[Any]]]


def import_rliable(path: Path, *, tasks: Sequence[str] = ()) -> ImportedResults:
    """Imports a file of scores.

    Args:
        path: `.npz` archive or JSON file.
        tasks: Names of the tasks, in the order of the arrays' columns; if empty, `task-1`,
            `task-2`, …

    Returns:
        A run for each entry, without a seed. An entry that is NaN or null becomes a failed run.

    Raises:
        InputError: The file is damaged, or its arrays do not fit.
    """
    content = read_bounded(path, _MAX_BYTES, follow_link=True)
    is_archive = content[:2] == b"PK"
    if content[:6] == b"\x93NUMPY":
        raise InputError(f"{path}: is a single array; save one for each algorithm by np.savez")
    by_algorithm = _archive(content, path) if is_archive else _json(content, path)
    if not by_algorithm:
        raise InputError(f"{path}: has no algorithm")
    named = all(isinstance(scores, list) for scores in by_algorithm.values())
    if named and tasks:
        raise InputError(f"--env: {path} names its tasks itself; omit --env")
    if len(set(tasks)) < len(tasks):
        raise InputError("--env: a task is named twice")
    runs: list[ExternalRun] = []
    widths: dict[str, int] = {}
    for algo, scores in by_algorithm.items():
        if isinstance(scores, list):
            columns = scores
        else:
            widths[algo] = scores.shape[1]
            if widths[algo] > limits().table_columns:
                told = beyond("table_columns", f"{widths[algo]:,} tasks")
                raise InputError(f"{path}, {one_line(algo, 60)!r}: {told}")
            columns = _by_task(scores, algo, tasks, path)
        if len(runs) + sum(len(entries) for _, entries in columns) > MAX_RUNS:
            raise InputError(f"{path}: more than {MAX_RUNS} scores; import it in parts")
        runs.extend(_runs(algo, columns, path))
    if not runs:
        raise InputError(f"{path}: has no score")
    notes = [] if named or tasks else ["tasks have no names; give them with --env, in order"]
    if len(set(widths.values())) > 1:
        raise InputError(
            f"{path}: algorithms have different numbers of tasks ("
            + one_line(", ".join(f"{algo}: {width}" for algo, width in widths.items()))
            + ")"
        )
    source = visible(path.name)
    return ImportedResults("rliable", source, {source: content_digest(content)}, runs, notes)


def _by_task(scores: Scores, algo: str, tasks: Sequence[str], path: Path) -> _ByTask:
    number = scores.shape[1]
    if tasks and len(tasks) != number:
        raise InputError(
            f"--env: {len(tasks)} names, and {one_line(algo, 60)!r} of {path} has {number} tasks"
        )
    names = tasks or [f"task-{index + 1}" for index in range(number)]
    return list(zip(names, scores.T.tolist(), strict=True))


def _runs(algo: str, columns: _ByTask, path: Path) -> Iterator[ExternalRun]:
    for task, entries in columns:
        for number, entry in enumerate(entries, start=1):
            location = f"{visible(algo)}, {visible(task)}, run {number}"
            try:
                yield _one(location, algo, task, entry)
            except ValidationError as error:
                raise InputError(f"{path}, {one_line(location)}: {first_problem(error)}") from error


def _one(location: str, algo: str, task: str, entry: Any) -> ExternalRun:
    if entry is None or (isinstance(entry, float) and math.isnan(entry)):
        return ExternalRun(
            place=location, status="failed", reason="its score is missing", algo=algo, env=task
        )
    return ExternalRun(place=location, status="completed", algo=algo, env=task, score=entry)


def _archive(content: bytes, path: Path) -> dict[str, Scores | _ByTask]:
    found: dict[str, Scores | _ByTask] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            check_archive(archive, len(content))
            members = archive.infolist()
            # At most the declared size of a member is ever unpacked.
            if sum(member.file_size for member in members) > _MAX_BYTES:
                raise ValueError(f"unpacks to more than {_MAX_BYTES} bytes")
            if len(members) > _MAX_ALGORITHMS:
                raise ValueError(f"contains more than {_MAX_ALGORITHMS} arrays")
            for member in members:
                algo = member.filename.removesuffix(".npy")
                if algo in found:
                    raise ValueError(f"two arrays are named {one_line(algo, 60)!r}")
                found[algo] = _checked(_array(archive.read(member)), algo, path)
    except InputError:
        raise
    except DAMAGED_NPZ as error:
        raise InputError(f"{path}: damaged .npz file ({one_line(error)})") from error
    return found


def _array(content: bytes) -> npt.NDArray[Any]:
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in read:
        raise ValueError("an array is of an unknown version of the format")
    shape, _, kind = read[version](stream)
    if kind.kind not in "fiu":
        raise ValueError(f"an array contains {one_line(kind)}, not numbers")
    # The header must not make NumPy allocate more memory than the content has.
    check_shape(shape, rows=True)
    if kind.itemsize * math.prod(shape) > len(content):
        raise ValueError("an array declares more data than it has")
    stream.seek(0)
    array: npt.NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    return array


def _checked(array: npt.NDArray[Any], algo: str, path: Path) -> Scores:
    where = f"{path}, {one_line(algo, 60)!r}"
    if array.ndim == 3:
        raise InputError(f"{where}: has a third axis; save one point of the curve, a[:, :, -1]")
    if array.ndim != 2:
        raise InputError(f"{where}: must be an array of runs by tasks, and has {array.ndim} axes")
    return array.astype(np.float64)


def _json(content: bytes, path: Path) -> dict[str, Scores | _ByTask]:
    document = parse_json(content, str(path))
    if not isinstance(document, dict):
        raise InputError(f"{path}: must be an object with an array for each algorithm")
    if len(document) > _MAX_ALGORITHMS:
        raise InputError(f"{path}: contains more than {_MAX_ALGORITHMS} algorithms")
    kinds = {type(value) for value in document.values()}
    if len(kinds) > 1:
        raise InputError(f"{path}: its algorithms must be all arrays, or all objects of tasks")
    return {
        algo: _tasks(value, algo, path) if isinstance(value, dict) else _matrix(value, algo, path)
        for algo, value in document.items()
    }


def _tasks(value: dict[str, Any], algo: str, path: Path) -> _ByTask:
    columns = []
    for task, entries in value.items():
        where = f"{path}, {one_line(algo, 60)!r}, {one_line(task, 60)!r}"
        if not (isinstance(entries, list) and all(_is_score(entry) for entry in entries)):
            raise InputError(f"{where}: must be a list of numbers")
        columns.append((task, _numbers(entries, where).tolist()))
    return columns


def _matrix(value: Any, algo: str, path: Path) -> Scores:
    where = f"{path}, {one_line(algo, 60)!r}"
    rows = value if isinstance(value, list) else [value]
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, list):
            raise InputError(f"{where}: must be a list of runs, each a list of scores by task")
        if len(row) != len(rows[0]):
            raise InputError(
                f"{where}, run {number}: {len(row)} tasks, and run 1 has {len(rows[0])}"
            )
        if not all(_is_score(entry) for entry in row):
            nested = any(isinstance(entry, list) for entry in row)
            reason = "has a third axis; save one point of the curve" if nested else "not numbers"
            raise InputError(f"{where}, run {number}: {reason}")
    return _numbers(rows, where).reshape(len(rows), len(rows[0]) if rows else 0)


def _numbers(values: list[Any], where: str) -> Scores:
    """Converts scores to an array, in which null becomes NaN."""
    try:
        return np.array(values, dtype=np.float64)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{where}: cannot be an array ({one_line(error)})") from error


def _is_score(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
