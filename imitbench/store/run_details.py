"""Reads details of single runs from the database: provenance, specification, learning curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from imitbench.records.runs import Provenance, RunSpec
from imitbench.store.database import damage_told

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MAX_POINTS = 200_000
"""Maximum number of learning-curve points to read, over all runs. Curves share it evenly; every
curve keeps its first and last point, and the others are evenly spread over the recorded ones."""
FEWEST, MOST = 2, 200
_SERIES = "SELECT run_id, metric, step, value FROM latest JOIN curves USING (run_id)"


@dataclass(frozen=True)
class RunDetail:
    """Details of one completed run that `ScoreRow` does not contain.

    Attributes:
        deterministic_return: Mean return of the deterministic policy.
        return_std: Standard deviation of the stochastic policy's returns over episodes.
        termination_rate: Share of evaluation episodes that ended by termination.
        train_s: Seconds of training.
        started_at: ISO 8601 time in UTC.
        spec: Specification, which determined its numbers.
        provenance: Versions, host and command of the run.
    """

    deterministic_return: float
    return_std: float
    termination_rate: float
    train_s: float
    started_at: str
    spec: RunSpec
    provenance: Provenance


@dataclass(frozen=True)
class MetricCurve:
    """One metric of one run during training.

    Attributes:
        steps: Budget units spent, ascending.
        values: Metric at each step; may contain NaN and infinities.
        points: Number of recorded points; `steps` may have fewer.
    """

    steps: tuple[int, ...]
    values: tuple[float, ...]
    points: int


@dataclass(frozen=True)
class ReportDetails:
    """Details of the latest run of every cell and seed.

    Attributes:
        runs: Details by run id.
        curves: Learning curves by run id and metric.
    """

    runs: dict[str, RunDetail] = field(default_factory=dict)
    curves: dict[str, dict[str, MetricCurve]] = field(default_factory=dict)


@damage_told()
def read_details(connection: DuckDBPyConnection) -> ReportDetails:
    """Reads details of the runs that `imitbench.store.database.read_scores` returns.

    Raises:
        DamagedDatabaseError: The database is damaged.
        ValidationError: A stored specification or provenance is malformed.
    """
    names = [field.name for field in fields(RunDetail)]
    rows = connection.execute(
        f"SELECT run_id, {', '.join(names)} FROM runs "
        "WHERE run_id IN (SELECT run_id FROM latest) ORDER BY run_id"
    ).fetchall()
    runs = {}
    for run_id, *values in rows:
        columns = dict(zip(names, values, strict=True))
        columns["spec"] = RunSpec.model_validate_json(columns["spec"])
        columns["provenance"] = Provenance.model_validate_json(columns["provenance"])
        runs[run_id] = RunDetail(**columns)
    return ReportDetails(runs, _read_curves(connection))


@damage_told()
def read_episodes(connection: DuckDBPyConnection, run_ids: Sequence[str]) -> int | None:
    """Returns the evaluation episodes per run of completed runs.

    Returns:
        Episodes per run; `None` if runs differ in it, or there are no runs.

    Raises:
        DamagedDatabaseError: The database is damaged.
    """
    rows = connection.execute(
        """
        SELECT DISTINCT json_extract(spec, '$.protocol.episodes')::INTEGER
        FROM runs SEMI JOIN (SELECT unnest(?) AS run_id) USING (run_id)
        """,
        [list(run_ids)],
    ).fetchall()
    return int(rows[0][0]) if len(rows) == 1 else None


def _read_curves(connection: DuckDBPyConnection) -> dict[str, dict[str, MetricCurve]]:
    found = connection.execute(
        f"SELECT count(*) FROM (SELECT DISTINCT run_id, metric FROM ({_SERIES}))"
    ).fetchone()
    series = found[0] if found else 0
    keep = min(MOST, max(FEWEST, MAX_POINTS // max(1, series)))
    rows = connection.execute(
        f"""
        SELECT run_id, metric, list(step ORDER BY index), list(value ORDER BY index), any_value(n)
        FROM (
            SELECT *, row_number() OVER curve - 1 AS index,
                   count(*) OVER (PARTITION BY run_id, metric) AS n
            FROM ({_SERIES})
            WINDOW curve AS (PARTITION BY run_id, metric ORDER BY step)
        )
        WHERE n <= $keep OR index = 0
           OR index * ($keep - 1) // (n - 1) > (index - 1) * ($keep - 1) // (n - 1)
        GROUP BY run_id, metric ORDER BY run_id, metric
        """,
        {"keep": keep},
    ).fetchall()
    curves: dict[str, dict[str, MetricCurve]] = {}
    for run_id, metric, steps, values, points in rows:
        curves.setdefault(run_id, {})[metric] = MetricCurve(tuple(steps), tuple(values), points)
    return curves
