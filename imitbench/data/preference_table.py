"""Preferences of people in Parquet: one row per pair of fragments, with all answers to it.

Columns: `obs_1`, `acts_1`, `terminal_1` and, if known, `rews_1` of the first fragment, in the types
of demonstrations; the same with `_2`; `pair`, the digest of both; `preference`, the probability
that the first is preferred (a mean weighted by annotator), null if all skipped it; `weight`, the
sum of these weights; and `answers`, a list of what each annotator said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from imitbench.data.arrow_table import table_to_trajectories, trajectories_to_table
from imitbench.data.demonstrations import PARQUET_OPTIONS
from imitbench.data.parquet_source import check_size, opened_parquet
from imitbench.data.trajectories import Trajectory, TrajectoryWithRew, trajectory_of
from imitbench.errors import InputError

_ANSWER = pa.struct(
    [
        ("annotator", pa.string()),
        ("preference", pa.float32()),
        ("choice", pa.string()),
        ("swapped", pa.bool_()),
        ("purpose", pa.string()),
        ("weight", pa.float32()),
        ("response_ms", pa.int64()),
    ]
)
_OWN = pa.schema(
    [
        ("pair", pa.string()),
        ("preference", pa.float32()),
        ("weight", pa.float32()),
        ("answers", pa.list_(_ANSWER)),
    ]
)
_PARTS = ("obs", "acts", "terminal", "rews")


@dataclass(frozen=True)
class RecordedAnswer:
    """What one annotator said about a pair.

    Attributes:
        annotator: Name, or a number that stands for it.
        preference: Probability that the first fragment is preferred; `None` for a skip.
        choice: What was chosen as shown: `left`, `right`, `tie` or `skip`.
        swapped: Whether the second fragment was on the left.
        purpose: `new`, `repeat` or `obvious`.
        weight: How much the annotator counts.
        response_ms: Time of the answer; `None` if unknown.
    """

    annotator: str
    preference: float | None
    choice: str
    swapped: bool
    purpose: str
    weight: float
    response_ms: int | None


@dataclass(frozen=True)
class PreferenceRow:
    """A pair of fragments, and the answers to it.

    Attributes:
        pair: Digest of both fragments.
        first: The first fragment.
        second: The second fragment.
        preference: Weighted mean of the answers; `None` if there are only skips.
        weight: Sum of the weights in that mean.
        answers: All answers.
    """

    pair: str
    first: Trajectory
    second: Trajectory
    preference: float | None
    weight: float
    answers: list[RecordedAnswer] = field(default_factory=list)


def _to_table(rows: Sequence[PreferenceRow]) -> pa.Table:
    """Converts rows to a table; rewards are left out unless all fragments have finite ones."""
    if not rows:
        raise InputError("there are no answers to write: answer some pairs first")
    fragments = [fragment for row in rows for fragment in (row.first, row.second)]
    rewarded = all(
        isinstance(f, TrajectoryWithRew) and np.isfinite(f.rews).all() for f in fragments
    )
    columns: dict[str, Any] = {}
    # One table of both sides, so that both have the same types.
    both = trajectories_to_table([_bare(f, rewarded) for f in fragments])
    for side in (0, 1):
        half = both.take(pa.array(range(side, len(fragments), 2)))
        for name in _PARTS:
            if name in half.column_names:
                columns[f"{name}_{side + 1}"] = half[name]
    own = pa.Table.from_pylist(
        [
            {
                "pair": row.pair,
                "preference": row.preference,
                "weight": row.weight,
                "answers": [vars(answer) for answer in row.answers],
            }
            for row in rows
        ],
        schema=_OWN,
    )
    for name in _OWN.names:
        columns[name] = own[name]
    return pa.table(columns)


def _bare(fragment: Trajectory, rewarded: bool) -> Trajectory:
    known = rewarded and isinstance(fragment, TrajectoryWithRew)
    rews = fragment.rews.astype(float) if known else None  # type: ignore[attr-defined]
    return trajectory_of(fragment.obs, fragment.acts, fragment.terminal, rews)


def write_preferences(file: Path, rows: Sequence[PreferenceRow]) -> None:
    """Writes a Parquet file; its bytes depend only on the rows.

    Raises:
        InputError: There are no rows, or the fragments do not fit into one table.
        OSError: The file cannot be written.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(_to_table(rows), file, **PARQUET_OPTIONS)


def read_preferences(file: Path) -> list[PreferenceRow]:
    """Reads what `write_preferences` wrote.

    Raises:
        InputError: The file is damaged, or is not such a table.
    """
    with opened_parquet(file) as parquet:
        missing = set(_OWN.names) - set(parquet.schema_arrow.names)
        if missing:
            raise InputError(
                f"{file}: not preferences: no column {', '.join(sorted(missing))}; name a file of "
                "imitbench label export"
            )
        check_size(parquet, file)
        table = parquet.read()
        table.validate(full=True)
    try:
        own = table.select(_OWN.names).cast(_OWN)
    except pa.ArrowException as error:
        raise InputError(f"{file}: not preferences ({error}); export them again") from error
    sides = []
    for side in (1, 2):
        names = [name for name in _PARTS if f"{name}_{side}" in table.column_names]
        part = table.select([f"{name}_{side}" for name in names]).rename_columns(names)
        sides.append(table_to_trajectories(part, where=str(file), with_infos=False))
    return [
        _row(entry, first, second, file, number)
        for number, (entry, first, second) in enumerate(zip(own.to_pylist(), *sides, strict=True))
    ]


def _row(
    entry: dict[str, Any], first: Trajectory, second: Trajectory, file: Path, number: int
) -> PreferenceRow:
    preference, weight = entry["preference"], entry["weight"]
    if preference is not None and not 0 <= preference <= 1:
        raise InputError(f"{file}, row {number}: preference {preference} is not from 0 to 1")
    if entry["pair"] is None or weight is None or not 0 <= weight < float("inf"):
        raise InputError(f"{file}, row {number}: pair or weight is missing; export it again")
    if len(first) != len(second):
        raise InputError(f"{file}, row {number}: fragments of {len(first)} and {len(second)} steps")
    answers = [_answer(answer, f"{file}, row {number}") for answer in entry["answers"] or []]
    return PreferenceRow(entry["pair"], first, second, preference, weight, answers)


def _answer(fields: dict[str, Any] | None, where: str) -> RecordedAnswer:
    known = fields or {}
    missing = [each.name for each in _ANSWER if known.get(each.name) is None]
    if absent := [name for name in missing if name not in ("preference", "response_ms")]:
        raise InputError(f"{where}: an answer lacks {absent[0]}; export it again")
    return RecordedAnswer(**known)
