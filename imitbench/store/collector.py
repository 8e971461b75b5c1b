"""Brings run directories into the database; running it twice changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from imitbench.errors import InputError
from imitbench.store import database
from imitbench.store.records import ReferenceScores
from imitbench.store.run_dir import RunDirectory

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_TABLES = ("runs", "curves", "measures", "episodes", "failures", "ingested")


@dataclass(frozen=True)
class Collected:
    """What one collection did.

    Attributes:
        added: Runs that are new or changed.
        removed: Runs whose directories are gone.
        unreadable: One message for each directory that could not be read; such directories
            are left alone and tried again next time.
    """

    added: int
    removed: int
    unreadable: list[str]


def collect(out: Path) -> Collected:
    """Makes the database of a results folder agree with its run directories.

    Args:
        out: Results folder.

    Returns:
        What changed.

    Raises:
        InputError: The folder does not exist or cannot be written.
    """
    if not out.is_dir():
        raise InputError(f"--out {out}: no such folder; run `imitbench run --out {out}` first")
    found = dict(_scan(out))
    if _known(out) == {path.name: stamp for path, stamp in found.items()}:
        return Collected(0, 0, [])
    with database.writer(out) as connection:
        known = dict(connection.execute("SELECT run_id, stamp FROM ingested").fetchall())
        fresh = {p: stamp for p, stamp in found.items() if known.get(p.name) != stamp}
        gone = set(known) - {path.name for path in found}
        rows, unreadable = _read_all(fresh)
        replaced = [row["run_id"] for row in rows["ingested"] if row["run_id"] in known]
        connection.begin()
        for table in _TABLES:
            connection.execute(
                f"DELETE FROM {table} WHERE run_id IN (SELECT unnest(?))", [[*gone, *replaced]]
            )
        # DuckDB checks a primary key against rows deleted in the same transaction as well.
        connection.commit()
        connection.begin()
        _insert(connection, rows)
        connection.commit()
    return Collected(len(rows["ingested"]), len(gone), unreadable)


def _scan(out: Path) -> Iterator[tuple[Path, str]]:
    """Finished and failed run directories, each with a stamp that changes with its outcome."""
    for path in sorted(out.glob("*/*/*/*/")):
        stamp = RunDirectory(path).outcome_stamp()
        if stamp is not None:
            yield path, stamp


def _known(out: Path) -> dict[str, str] | None:
    """What the database holds already; `None` where there is no usable one."""
    try:
        with database.reader(out) as connection:
            version = connection.execute("SELECT version FROM schema_version").fetchall()
            if version != [(database.SCHEMA_VERSION,)]:
                return None
            return dict(connection.execute("SELECT run_id, stamp FROM ingested").fetchall())
    except (InputError, duckdb.Error):
        return None


def _read_all(fresh: dict[Path, str]) -> tuple[dict[str, list[dict[str, Any]]], list[str]]:
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in _TABLES}
    unreadable = []
    for path, stamp in fresh.items():
        try:
            for table, new in _read_run(RunDirectory(path)).items():
                rows[table].extend(new)
        except InputError as error:
            unreadable.append(str(error))
        else:
            rows["ingested"].append({"run_id": path.name, "stamp": stamp})
    return rows, unreadable


def _read_run(directory: RunDirectory) -> dict[str, list[dict[str, Any]]]:
    spec = directory.read_spec()
    if spec.run_id != directory.path.name:
        raise InputError(
            f"{directory.path / 'spec.json'}: belongs to run {spec.run_id}, not to this folder; "
            "delete the folder or restore the file"
        )
    demos = spec.demos
    identity = {
        "run_id": spec.run_id,
        "suite": spec.suite,
        "env": spec.environment.id,
        "algo": spec.algo_label,
        "seed": spec.seed,
        "budget": spec.budget.name,
        "n_demos": demos.count if demos else None,
        "all_demos": demos.count == demos.available if demos else None,
        "source": spec.source,
        "uses_reward": spec.uses_reward,
    }
    if not directory.is_done:
        failure = directory.read_failure()
        outcome = failure.model_dump(
            include={"phase", "error_type", "message", "traceback", "failed_at"}
        )
        return {"failures": [identity | outcome | _reference_columns(failure.references)]}
    result = directory.read_result()
    row = identity | {
        "budget_unit": spec.budget.unit,
        "budget_amount": spec.budget.amount,
        **result.model_dump(
            exclude={"schema_version", "run_id", "references", "provenance", "measures"}
        ),
        **_reference_columns(result.references),
        "spec": json.dumps(spec.model_dump(mode="json"), sort_keys=True),
        "provenance": json.dumps(result.provenance.model_dump(mode="json"), sort_keys=True),
    }
    return {
        "runs": [row],
        "episodes": _read_episodes(directory, spec.run_id),
        "curves": _read_curve(directory, spec.run_id),
        "measures": [
            {"run_id": spec.run_id, "measure": name, "value": value}
            for name, value in result.measures.items()
        ],
    }


def _reference_columns(references: ReferenceScores) -> dict[str, Any]:
    return {f"reference_{name}": value for name, value in references.model_dump().items()}


def _read_episodes(directory: RunDirectory, run_id: str) -> list[dict[str, Any]]:
    path = directory.path / "episodes.parquet"
    try:
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: cannot be read ({str(error).splitlines()[0]})") from error
    return [{"run_id": run_id, **row} for row in rows]


def _read_curve(directory: RunDirectory, run_id: str) -> list[dict[str, Any]]:
    path = directory.path / "metrics.jsonl"
    if not path.exists():
        return []
    rows: list[dict[str, Any]] = []
    try:
        for line in path.read_text().splitlines():
            point = json.loads(line)
            step = point.pop("step")
            rows.extend(
                {"run_id": run_id, "step": int(step), "metric": name, "value": float(value)}
                for name, value in point.items()
            )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: not a learning curve ({error})") from error
    return rows


def _insert(connection: DuckDBPyConnection, rows: dict[str, list[dict[str, Any]]]) -> None:
    for table, new in rows.items():
        if not new:
            continue
        columns = [
            name
            for (name,) in connection.execute(
                "SELECT column_name FROM duckdb_columns() WHERE table_name = ? "
                "ORDER BY column_index",
                [table],
            ).fetchall()
        ]
        batch = pa.table({name: [row.get(name) for row in new] for name in columns})
        connection.register("batch", batch)
        connection.execute(f"INSERT INTO {table} SELECT * FROM batch")
        connection.unregister("batch")
