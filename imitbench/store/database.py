"""The DuckDB database: schema, access, and typed reading.

The database is derived: it can be deleted at any time and is rebuilt from the run directories.
One process writes at a time; everybody else reads.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import duckdb

from imitbench.errors import InputError
from imitbench.store.records import FailureRow, MeasureRow, Record, ReferenceRow, ScoreRow

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

DATABASE_FILE = "imitbench.duckdb"
SCHEMA_VERSION = 2

SCHEMA = """
CREATE TABLE schema_version (version INTEGER NOT NULL);
CREATE TABLE runs (
    run_id VARCHAR PRIMARY KEY, suite VARCHAR, env VARCHAR, algo VARCHAR, seed BIGINT,
    budget VARCHAR, budget_unit VARCHAR, budget_amount BIGINT, n_demos BIGINT, all_demos BOOLEAN,
    source VARCHAR, uses_reward BOOLEAN,
    raw_return DOUBLE, return_std DOUBLE, deterministic_return DOUBLE, mean_length DOUBLE,
    termination_rate DOUBLE, env_steps BIGINT, train_s DOUBLE, wall_s DOUBLE,
    started_at VARCHAR, finished_at VARCHAR,
    reference_version VARCHAR, reference_random DOUBLE, reference_expert DOUBLE,
    spec VARCHAR, provenance VARCHAR
);
CREATE TABLE curves (run_id VARCHAR, step BIGINT, metric VARCHAR, value DOUBLE);
CREATE TABLE measures (run_id VARCHAR, measure VARCHAR, value DOUBLE);
CREATE TABLE episodes (
    run_id VARCHAR, episode BIGINT, deterministic BOOLEAN, raw_return DOUBLE, length BIGINT,
    terminated BOOLEAN, truncated BOOLEAN
);
CREATE TABLE failures (
    run_id VARCHAR PRIMARY KEY, suite VARCHAR, env VARCHAR, algo VARCHAR, seed BIGINT,
    budget VARCHAR, n_demos BIGINT, all_demos BOOLEAN,
    source VARCHAR, uses_reward BOOLEAN,
    phase VARCHAR, error_type VARCHAR, message VARCHAR, traceback VARCHAR, failed_at VARCHAR,
    reference_version VARCHAR, reference_random DOUBLE, reference_expert DOUBLE
);
CREATE TABLE ingested (run_id VARCHAR PRIMARY KEY, stamp VARCHAR);
CREATE VIEW "references" AS
    SELECT suite, env, reference_version AS version, reference_random AS random,
           reference_expert AS expert
    FROM runs
    UNION
    SELECT suite, env, reference_version, reference_random, reference_expert FROM failures;
CREATE VIEW scores AS
    SELECT run_id, suite, env, algo, seed, budget, n_demos, all_demos, source, uses_reward,
           raw_return,
           (raw_return - reference_random) / (reference_expert - reference_random) AS score,
           (deterministic_return - reference_random) / (reference_expert - reference_random)
               AS score_deterministic,
           mean_length, env_steps, wall_s, finished_at
    FROM runs;
CREATE VIEW latest AS
    SELECT * FROM scores
    QUALIFY row_number() OVER (
        PARTITION BY suite, env, algo, seed, budget, n_demos, source
        ORDER BY finished_at DESC, run_id
    ) = 1;
"""

_RUN_ORDER = "suite, env, algo, seed, run_id"
_Row = TypeVar("_Row", bound=Record)


@contextmanager
def _locked(out: Path, mode: int) -> Iterator[None]:
    descriptor = os.open(out / ".database.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, mode)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def writer(out: Path) -> Iterator[DuckDBPyConnection]:
    """Opens the database of a results folder for writing, alone.

    Waits while another process has it open through this module. A database of another schema
    version, or one that is damaged, is deleted and started anew, as it is derived.

    Args:
        out: Results folder.

    Raises:
        InputError: The folder cannot be written, or a foreign program holds the database.
    """
    path = out / DATABASE_FILE
    with _writable(out), _locked(out, fcntl.LOCK_EX):
        connection = _open_current(path)
        try:
            yield connection
        finally:
            connection.close()


@contextmanager
def _writable(out: Path) -> Iterator[None]:
    try:
        out.mkdir(parents=True, exist_ok=True)
        yield
    except PermissionError as error:
        raise InputError(f"--out {out}: cannot be written ({error.strerror})") from error
    except OSError as error:
        raise InputError(f"--out {out}: {error.strerror}: {error.filename}") from error


def _open_current(path: Path) -> DuckDBPyConnection:
    if path.exists():
        try:
            connection = duckdb.connect(str(path))
        except duckdb.Error as error:
            _raise_if_held(path, error)
        else:
            with suppress(duckdb.Error):
                if connection.execute("SELECT version FROM schema_version").fetchall() == [
                    (SCHEMA_VERSION,)
                ]:
                    return connection
            connection.close()
        path.unlink()
        path.with_name(path.name + ".wal").unlink(missing_ok=True)
    connection = duckdb.connect(str(path))
    connection.begin()
    connection.execute(SCHEMA)
    connection.execute("INSERT INTO schema_version VALUES (?)", [SCHEMA_VERSION])
    connection.commit()
    return connection


def _raise_if_held(path: Path, error: duckdb.Error) -> None:
    if "lock" in str(error).lower():
        raise InputError(
            f"{path}: another program has the database open; close it and try again"
        ) from error


@contextmanager
def reader(out: Path) -> Iterator[DuckDBPyConnection]:
    """Opens the database of a results folder for reading; files outside it are out of reach.

    Args:
        out: Results folder.

    Raises:
        InputError: There is no database.
    """
    path = out / DATABASE_FILE
    if not path.exists():
        raise InputError(f"--out {out}: no results there; run `imitbench run --out {out}` first")
    lock = _locked(out, fcntl.LOCK_SH) if os.access(out, os.W_OK) else nullcontext()
    with lock:
        try:
            connection = duckdb.connect(
                str(path), read_only=True, config={"enable_external_access": "false"}
            )
        except duckdb.Error as error:
            _raise_if_held(path, error)
            raise InputError(
                f"{path}: cannot be opened; delete it, it is rebuilt from the run directories"
            ) from error
        try:
            yield connection
        finally:
            connection.close()


def read_scores(connection: DuckDBPyConnection) -> list[ScoreRow]:
    """The newest completed run of every cell and seed."""
    return _read(connection, ScoreRow, "latest", _RUN_ORDER)


def read_measures(connection: DuckDBPyConnection) -> list[MeasureRow]:
    """Further measurements of the runs that `read_scores` gives."""
    source = "latest JOIN measures USING (run_id)"
    return _read(connection, MeasureRow, source, f"{_RUN_ORDER}, measure")


def read_failures(connection: DuckDBPyConnection) -> list[FailureRow]:
    """Every run whose last attempt failed."""
    return _read(connection, FailureRow, "failures", _RUN_ORDER)


def read_references(connection: DuckDBPyConnection) -> list[ReferenceRow]:
    """The references of every environment that was run."""
    return _read(connection, ReferenceRow, '"references"', "suite, env, version")


def _read(connection: DuckDBPyConnection, kind: type[_Row], source: str, order: str) -> list[_Row]:
    names = list(kind.model_fields)
    query = f"SELECT {', '.join(names)} FROM {source} ORDER BY {order}"
    rows = connection.execute(query).fetchall()
    return [kind.model_validate(dict(zip(names, row, strict=True))) for row in rows]


def read_durations(connection: DuckDBPyConnection) -> dict[tuple[str, str, str, int], float]:
    """Median seconds of completed runs by (algorithm, environment, budget unit, amount)."""
    rows = connection.execute(
        "SELECT algo, env, budget_unit, budget_amount, median(wall_s) FROM runs GROUP BY ALL"
    ).fetchall()
    return {(algo, env, unit, amount): seconds for algo, env, unit, amount, seconds in rows}
