"""Reads the runs in `leaderboard.json`, which `imitbench leaderboard build` writes."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from imitbench.errors import InputError
from imitbench.store.external_results import ExternalRun, Name
from imitbench.untrusted.files import read_content
from imitbench.util.numbers import Count, Finite, Integer
from imitbench.util.validation_errors import first_problem

_MAX_BYTES = 2**28


class _Part(BaseModel):
    # A board has much that readers of runs do not need, and later versions may add more.
    model_config = ConfigDict(frozen=True, extra="ignore")


class _Run(_Part):
    """A completed run of a board; fields as in `imitbench.records.runs.RunRow`."""

    run_id: Name | None = None
    env: Name
    seed: Integer | None = None
    score: Finite | None
    raw_return: Finite | None = None
    score_deterministic: Finite | None = None
    mean_length: Finite | None = None
    env_steps: Count | None = None
    wall_s: Finite | None = None
    finished_at: Name | None = None


class _Failure(_Part):
    """A failed run of a board."""

    run_id: Name | None = None
    env: Name
    seed: Integer | None = None


class _Row(_Part):
    """An algorithm of a table, with its runs."""

    algorithm: Name
    kind: Literal["run", "reference", "external", "missing"]
    submitted_by: str
    runs: list[_Run] = []
    failures: list[_Failure] = []


def compared_names(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Returns names in comparisons with a board: `ALGO`, or `ALGO (SUBMITTER)` of several.

    Args:
        rows: Algorithm and submitters of each row of a table that has runs.
    """
    counts = Counter(algorithm for algorithm, _ in rows)
    return [f"{algo} ({who})" if counts[algo] > 1 else algo for algo, who in rows]


class _Reference(_Part):
    env: Name
    version: Name
    random: Finite
    expert: Finite

    def as_columns(self) -> dict[str, Any]:
        return {f"reference_{name}": value for name, value in self if name != "env"}


class _Table(_Part):
    """A table of a board: what was run under the same conditions."""

    suite: Name
    budget: Name | None
    n_demos: Count | Literal["all"] | None
    source: Name | None
    demo_every: Count | None = None
    demo_actions: Literal["shown", "hidden"] | None = None
    mixture: Annotated[str, Field(max_length=1000)] | None = None
    rows: list[_Row]
    references: list[_Reference] = []

    def methods(self) -> Iterator[tuple[str, _Row]]:
        """Yields the rows with runs, and their names, see `compared_names`."""
        rows = [row for row in self.rows if row.kind == "run"]
        names = compared_names([(row.algorithm, row.submitted_by) for row in rows])
        yield from zip(names, rows, strict=True)


class _Board(_Part):
    format: Literal["imitbench-leaderboard"]
    version: Literal[1]
    tables: list[_Table]


def _read_tables(path: Path) -> list[_Table]:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise InputError(f"{path}: is larger than the limit of {_MAX_BYTES} bytes")
        return _Board.model_validate_json(read_content(path)).tables
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except ValidationError as error:
        why = first_problem(error)
        raise InputError(f"{path}: not a leaderboard of this program ({why})") from error


def board_runs(path: Path) -> list[ExternalRun]:
    """Reads the runs of `leaderboard.json` as imported results.

    A board has their scores and returns, but not the specifications and episodes which results of
    this program need.

    Raises:
        InputError: The file cannot be read, or is not a leaderboard.
    """
    tables = _read_tables(path)
    runs: list[ExternalRun] = []
    for number, table in enumerate(tables):
        try:
            runs += _of_table(table, number)
        except ValidationError as error:  # imported results have shorter names
            why = f"table {number + 1}: {first_problem(error)}"
            raise InputError(f"{path}: cannot be read ({why})") from error
    return runs


def _of_table(table: _Table, number: int) -> Iterator[ExternalRun]:
    references = {reference.env: reference for reference in table.references}
    conditions: dict[str, Any] = {
        "suite": table.suite,
        "budget": table.budget,
        "n_demos": None if table.n_demos == "all" else table.n_demos,
        "all_demos": None if table.n_demos is None else table.n_demos == "all",
        "source": table.source,
    }
    if table.demo_every not in (None, 1):
        conditions["demo_every"] = table.demo_every
    if table.demo_actions == "hidden":
        conditions["demo_actions"] = table.demo_actions
    if table.mixture:
        conditions["mixture"] = table.mixture
    # Reports must not average over tables, whose conditions differ.
    settings = json.dumps(conditions, sort_keys=True)
    conditions["config"] = hashlib.sha256(settings.encode()).hexdigest()
    for row_number, (name, row) in enumerate(table.methods()):
        for index, run in enumerate(row.runs):
            if run.score is None and run.raw_return is None:
                continue
            reference = references.get(run.env)
            yield ExternalRun(
                place=run.run_id or f"table {number}, row {row_number}, run {index}",
                status="completed",
                algo=name,
                **({} if reference is None else reference.as_columns()),
                **conditions,
                **run.model_dump(exclude={"run_id"}),
            )
        for index, failure in enumerate(row.failures):
            yield ExternalRun(
                place=failure.run_id or f"table {number}, row {row_number}, failure {index}",
                status="failed",
                reason="the board lists it as failed",
                algo=name,
                **conditions,
                **failure.model_dump(exclude={"run_id"}),
            )
