"""Reads the runs of a leaderboard's JSON document, for comparisons with them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from imitbench.errors import InputError
from imitbench.report.comparison_runs import ComparableRun, role_by_name
from imitbench.store.comparability import Conditions
from imitbench.untrusted.files import read_content
from imitbench.util.numbers import Count, Finite
from imitbench.util.text_line import one_line

_MAX_BYTES = 2**28


class _Part(BaseModel):
    # A board has much that comparisons do not need, and later versions may add more.
    model_config = ConfigDict(frozen=True, extra="ignore")


class _Run(_Part):
    env: str
    score: Finite | None
    raw_return: Finite | None = None


class _Failure(_Part):
    env: str


class _Row(_Part):
    algorithm: str
    kind: Literal["run", "reference", "external", "missing"]
    submitted_by: str
    runs: list[_Run] = []
    failures: list[_Failure] = []


class _Table(_Part):
    suite: str
    budget: str | None
    n_demos: Count | Literal["all"] | None
    source: str | None
    rows: list[_Row]


class _Board(_Part):
    format: Literal["imitbench-leaderboard"]
    version: Literal[1]
    tables: list[_Table]


def leaderboard_entries(path: Path) -> list[ComparableRun]:
    """Reads the runs of `leaderboard.json`; runs that other tools imported are left out.

    Args:
        path: File that `imitbench leaderboard build` wrote.

    Returns:
        The runs. An algorithm that several submitters ran has the name `ALGO (SUBMITTER)`.

    Raises:
        InputError: The file cannot be read, or is not a leaderboard.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise InputError(f"{path}: is larger than the limit of {_MAX_BYTES} bytes")
        board = _Board.model_validate_json(read_content(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        why = one_line(f"{place}: {first['msg']}")
        raise InputError(f"{path}: not a leaderboard of this program ({why})") from error
    return [run for table in board.tables for run in _of_table(table)]


def _of_table(table: _Table) -> list[ComparableRun]:
    conditions = Conditions(table.suite, table.budget, table.n_demos, table.source)
    rows = [row for row in table.rows if row.kind == "run"]
    counts = Counter(row.algorithm for row in rows)
    found = []
    for row in rows:
        several = counts[row.algorithm] > 1
        name = f"{row.algorithm} ({row.submitted_by})" if several else row.algorithm
        role = role_by_name(row.algorithm)
        found += [
            ComparableRun(conditions, each.env, name, each.score, each.raw_return, role=role)
            for each in row.runs
            if each.score is not None
        ]
        found += [
            ComparableRun(conditions, each.env, name, None, role=role) for each in row.failures
        ]
    return found
