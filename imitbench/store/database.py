"""The DuckDB database: schema, access, and typed reading.

The database is derived: it can be deleted at any time and is rebuilt from the run directories and
the files of imported results. One process at a time revises a copy of it, which then replaces the
database in one step: the file that others read is never written to.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import duckdb
from pydantic import ValidationError

from imitbench.errors import InputError
from imitbench.records.reward_scores import RewardScoreRow
from imitbench.records.runs import FailureRow, MeasureRow, Record, ReferenceRow, RunRow, ScoreRow
from imitbench.records.selection import Selection
from imitbench.store.comparability import current_runs_query
from imitbench.store.database_access import (
    POLL_S,
    DamagedDatabaseError,
    check_content,
    file_state,
    opened,
)
from imitbench.store.external_results import ExternalScoreRow
from imitbench.untrusted.limits import beyond
from imitbench.util.extras import import_extra
from imitbench.util.files import fsync_directory
from imitbench.util.text_line import one_line

if TYPE_CHECKING:
    import pandas
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

DATABASE_FILE = "imitbench.duckdb"
LOCK_FILE = ".database.lock"
_WAIT_S = 120.0  # for another process that writes the database
_MEMORY_LIMIT = "512MB"
_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
SCHEMA_VERSION = 19
FOLDER_VARIABLE = "results_folder"
_RUN_COLUMNS = ", ".join(RunRow.model_fields)
_REFERENCE_COLUMNS = """
    suite, env, reference_version AS version, reference_random AS random,
    reference_expert AS expert, reference_score_one AS score_one,
    reference_demonstrations AS demonstrations"""

SCHEMA = f"""
CREATE TABLE schema_version (version INTEGER NOT NULL);
CREATE TABLE runs (
    run_id VARCHAR PRIMARY KEY, suite VARCHAR, env VARCHAR, algo VARCHAR, seed BIGINT,
    budget VARCHAR, budget_unit VARCHAR, budget_amount BIGINT, n_demos BIGINT, all_demos BOOLEAN,
    demo_every BIGINT, demo_actions VARCHAR, mixture VARCHAR,
    source VARCHAR, uses_reward BOOLEAN, role VARCHAR,
    raw_return DOUBLE, return_std DOUBLE, deterministic_return DOUBLE,
    score DOUBLE, score_deterministic DOUBLE, score_likely DOUBLE, mean_length DOUBLE,
    termination_rate DOUBLE, success_rate DOUBLE, deterministic_success_rate DOUBLE,
    env_steps BIGINT, train_s DOUBLE, wall_s DOUBLE,
    started_at VARCHAR, finished_at VARCHAR,
    reference_version VARCHAR, reference_random DOUBLE, reference_expert DOUBLE,
    reference_score_one VARCHAR, reference_demonstrations DOUBLE,
    reference_expert_likely DOUBLE,
    setting VARCHAR, spec VARCHAR, provenance VARCHAR, path VARCHAR
);
CREATE TABLE curves (run_id VARCHAR, step BIGINT, metric VARCHAR, value DOUBLE);
CREATE TABLE measures (run_id VARCHAR, measure VARCHAR, value DOUBLE);
CREATE TABLE reward_scores (
    run_id VARCHAR, measure VARCHAR, behavior VARCHAR, tested_in VARCHAR,
    value DOUBLE, low DOUBLE, high DOUBLE
);
CREATE TABLE episodes (
    run_id VARCHAR, episode BIGINT, deterministic BOOLEAN, raw_return DOUBLE, length BIGINT,
    terminated BOOLEAN, truncated BOOLEAN, success BOOLEAN
);
CREATE TABLE failures (
    run_id VARCHAR PRIMARY KEY, suite VARCHAR, env VARCHAR, algo VARCHAR, seed BIGINT,
    budget VARCHAR, n_demos BIGINT, all_demos BOOLEAN, demo_every BIGINT,
    demo_actions VARCHAR, mixture VARCHAR, source VARCHAR, uses_reward BOOLEAN, role VARCHAR,
    phase VARCHAR, error_type VARCHAR, message VARCHAR, traceback VARCHAR, failed_at VARCHAR,
    reference_version VARCHAR, reference_random DOUBLE, reference_expert DOUBLE,
    reference_score_one VARCHAR, reference_demonstrations DOUBLE,
    reference_expert_likely DOUBLE,
    setting VARCHAR, spec VARCHAR, path VARCHAR
);
CREATE TABLE external (
    run_id VARCHAR PRIMARY KEY, name VARCHAR, tool VARCHAR, path VARCHAR, place VARCHAR,
    status VARCHAR, reason VARCHAR,
    suite VARCHAR, env VARCHAR, algo VARCHAR, seed BIGINT,
    budget VARCHAR, n_demos BIGINT, all_demos BOOLEAN, demo_every BIGINT,
    demo_actions VARCHAR, mixture VARCHAR, source VARCHAR,
    config VARCHAR, raw_return DOUBLE, return_std DOUBLE, score DOUBLE, score_deterministic DOUBLE,
    episodes BIGINT, mean_length DOUBLE, env_steps BIGINT, wall_s DOUBLE,
    started_at VARCHAR, finished_at VARCHAR,
    expert_return DOUBLE, expert_std DOUBLE, expert_episodes BIGINT,
    reference_random DOUBLE, reference_expert DOUBLE, reference_version VARCHAR,
    provenance VARCHAR
);
CREATE TABLE ingested (
    path VARCHAR PRIMARY KEY, stamp VARCHAR NOT NULL, run_id VARCHAR UNIQUE, problem VARCHAR
);
CREATE VIEW quarantine AS
    SELECT path, problem AS reason FROM ingested WHERE problem IS NOT NULL;
CREATE VIEW scores AS
    SELECT {_RUN_COLUMNS}, raw_return, score, score_deterministic, score_likely,
           mean_length, env_steps, train_s, wall_s, finished_at, termination_rate,
           success_rate, reference_score_one AS score_one,
           coalesce(getvariable('{FOLDER_VARIABLE}') || '/', '') || path AS path
    FROM runs;
CREATE VIEW external_scores AS
    SELECT run_id, name, tool, suite, env, algo, seed, budget, n_demos, all_demos, demo_every,
           demo_actions, mixture, source, config,
           raw_return, score, score_deterministic, mean_length, episodes, env_steps, wall_s,
           finished_at, reference_version, reference_random, reference_expert
    FROM external WHERE status = 'completed';
CREATE VIEW attempts AS
    SELECT *,
           coalesce(json_extract_string(spec, '$.implementation_digest'), '') AS method,
           coalesce(json_extract_string(spec, '$.environment.module_digest'), '') AS world
    FROM (
        SELECT {_RUN_COLUMNS}, setting, spec, finished_at AS ended_at FROM runs
        UNION ALL
        SELECT {_RUN_COLUMNS}, setting, spec, failed_at FROM failures
    );
CREATE VIEW current_runs AS {current_runs_query("attempts")};
CREATE VIEW "references" AS
    SELECT {_REFERENCE_COLUMNS}, max(reference_expert_likely) AS expert_likely
    FROM (FROM runs UNION ALL BY NAME FROM failures) SEMI JOIN current_runs USING (run_id)
    GROUP BY ALL;
CREATE VIEW latest AS SELECT scores.* FROM scores SEMI JOIN current_runs USING (run_id);
CREATE VIEW reward_board AS
    SELECT {_RUN_COLUMNS}, measure, behavior, tested_in, value, low, high
    FROM latest JOIN reward_scores USING (run_id);
CREATE VIEW latest_failures AS
    SELECT failures.* FROM failures SEMI JOIN current_runs USING (run_id);
"""

_ALL = Selection()
_RUN_ORDER = "suite, env, algo, seed, run_id"
_Row = TypeVar("_Row", bound=Record)


class ReadOnlyFolderError(InputError):
    """The folder of a database may not be written by this process."""


@contextmanager
def exclusive_writer(out: Path) -> Iterator[None]:
    """Context in which no other process revises the database of a results folder.

    The lock ends with the process in any case. On file systems without locks, it does nothing:
    each writer then replaces the whole database, and the last one wins.

    Raises:
        InputError: Another process does not finish in time, or the folder cannot be written.
    """
    with _writable(out):
        if not os.access(out, os.W_OK):  # a lock file of others may be writable nevertheless
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        descriptor = os.open(out / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        try:
            if _lock(descriptor, out):
                _write_owner(descriptor)
                _clear_drafts(out)
            yield
        finally:
            os.close(descriptor)


def _lock(descriptor: int, out: Path) -> bool:
    deadline = time.monotonic() + _WAIT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                who = one_line(os.pread(descriptor, 200, 0).decode(errors="replace"))
                raise InputError(
                    f"{out / DATABASE_FILE}: another process is writing it ({who}); wait until it "
                    "ends, or stop it"
                ) from None
            time.sleep(POLL_S)
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return False
            raise
        else:
            return True


def _write_owner(descriptor: int) -> None:
    who = f"process {os.getpid()} on {socket.gethostname()}\n".encode()
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, who, 0)


def _clear_drafts(out: Path) -> None:
    """Removes the drafts of writers that were killed."""
    for path in out.glob(f".{DATABASE_FILE}.*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


@contextmanager
def revision(out: Path, *, rebuild: bool) -> Iterator[DuckDBPyConnection]:
    """Opens a copy of the database for writing, and replaces the database by it at the end.

    A process that has the old database open continues to read it; a process that opens it gets
    the complete old or new one. After an exception or a crash, the old one remains.

    Args:
        out: Results folder, for which this process holds `exclusive_writer`.
        rebuild: Whether to start with an empty database instead of a copy.

    Raises:
        InputError: The folder cannot be written, or a third-party program has the database open.
    """
    path = out / DATABASE_FILE
    draft = out / f".{DATABASE_FILE}.{socket.gethostname()}-{os.getpid()}"
    with _writable(out):
        # One that was killed may have had the same number: on a file system without locks, nobody
        # else removes what it left.
        _remove_draft(draft)
        if not rebuild:
            with opened(path):  # prevents third-party programs from writing to it
                shutil.copyfile(path, draft)
        connection = duckdb.connect(str(draft), config={"memory_limit": _MEMORY_LIMIT})
        try:
            if rebuild:
                connection.begin()
                connection.execute(SCHEMA)
                connection.execute("INSERT INTO schema_version VALUES (?)", [SCHEMA_VERSION])
                connection.commit()
            yield connection
            connection.execute("CHECKPOINT")
        except BaseException:
            connection.close()
            _remove_draft(draft)
            raise
        connection.close()
        path.with_name(path.name + ".wal").unlink(missing_ok=True)  # of a third-party program
        draft.replace(path)
        fsync_directory(out)


def _remove_draft(draft: Path) -> None:
    draft.unlink(missing_ok=True)
    draft.with_name(draft.name + ".wal").unlink(missing_ok=True)


def insert(connection: DuckDBPyConnection, tables: Mapping[str, pa.Table]) -> None:
    """Inserts rows, by table, in one transaction.

    Args:
        connection: Connection of `revision`.
        tables: Rows by the name of their table; columns are matched by name.
    """
    connection.begin()
    for name, rows in tables.items():
        connection.register("batch", rows)
        connection.execute(f"INSERT INTO {name} BY NAME SELECT * FROM batch")
        connection.unregister("batch")
    connection.commit()


def insert_from(connection: DuckDBPyConnection, out: Path, home: Path) -> int:
    """Inserts the rows of another database, without runs that are there already.

    A completed run replaces a failed one with the same id.

    Args:
        connection: Connection of `revision`.
        out: Results folder of the other database; paths of its runs get it as their start.
        home: Folder of the other database.

    Returns:
        The number of runs that were there already.
    """
    file = str(home / DATABASE_FILE).replace("'", "''")
    connection.execute(f"ATTACH '{file}' AS other (READ_ONLY)")
    connection.begin()
    connection.execute("CREATE TEMP TABLE fresh AS FROM other.runs ANTI JOIN runs USING (run_id)")
    connection.execute("UPDATE fresh SET path = $out || '/' || path", {"out": str(out)})
    connection.execute("INSERT INTO runs BY NAME FROM fresh")
    for table in ("curves", "measures", "reward_scores", "episodes"):
        rows = f"FROM other.{table} SEMI JOIN fresh USING (run_id)"
        connection.execute(f"INSERT INTO {table} BY NAME {rows}")
    connection.execute(
        """
        INSERT INTO failures BY NAME
        SELECT * REPLACE ($out || '/' || path AS path) FROM other.failures
        ANTI JOIN failures USING (run_id) ANTI JOIN runs USING (run_id)
        """,
        {"out": str(out)},
    )
    connection.execute(
        "INSERT INTO external BY NAME FROM other.external ANTI JOIN external USING (run_id)"
    )
    connection.execute(
        """
        INSERT INTO ingested BY NAME
        SELECT * REPLACE ($out || '/' || path AS path) FROM other.ingested WHERE problem IS NOT NULL
        """,
        {"out": str(out)},
    )
    found = connection.execute(
        "SELECT (SELECT count(*) FROM other.runs) - (SELECT count(*) FROM fresh)"
    ).fetchone()
    connection.execute("DROP TABLE fresh")
    connection.execute("DELETE FROM failures WHERE run_id IN (SELECT run_id FROM runs)")
    connection.commit()
    connection.execute("DETACH other")
    return int(found[0]) if found else 0


@contextmanager
def _writable(out: Path) -> Iterator[None]:
    try:
        out.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        if error.errno in _READ_ONLY:
            raise ReadOnlyFolderError(
                f"--out {out}: cannot be written ({error.strerror})"
            ) from error
        raise InputError(f"--out {out}: {error.strerror}: {error.filename or out}") from error


@contextmanager
def reader(out: Path, *, home: Path | None = None) -> Iterator[DuckDBPyConnection]:
    """Opens the database of a results folder for reading; files outside it are not accessible.

    The connection shows the database as it is now, even if it is revised in the meantime, and does
    not block revisions. The paths of runs in view `scores` start with the results folder.

    Args:
        out: Root of the results folder.
        home: Folder of its database; by default the results folder itself.

    Raises:
        DamagedDatabaseError: It is no database of this program.
        InputError: There is no database, or a third-party program writes to it.
    """
    path = (home or out) / DATABASE_FILE
    if not path.exists():
        raise InputError(f"--out {out}: no results found; run `imitbench run --out {out}` first")
    before = file_state(path)
    with opened(path) as connection:
        check_content(connection, path, SCHEMA, before)
        connection.execute(f"SET VARIABLE {FOLDER_VARIABLE} = ?", [str(out)])
        yield connection


@contextmanager
def reader_of_file(path: Path) -> Iterator[DuckDBPyConnection]:
    """Opens a database file at any path for reading.

    Args:
        path: Database file of a results folder, or a copy of it.

    Raises:
        InputError: The file is not a database of results, or has another version.
    """
    before = file_state(path)
    with ExitStack() as stack:
        try:
            connection = stack.enter_context(opened(path))
        except DamagedDatabaseError as error:
            raise InputError(
                f"{path}: is neither a database of results nor a table (.csv)"
            ) from error
        try:
            [(version,)] = connection.execute("SELECT version FROM schema_version").fetchall()
        except (duckdb.Error, ValueError) as error:
            raise InputError(f"{path}: is not a database of results") from error
        if version != SCHEMA_VERSION:
            raise InputError(
                f"{path}: was made by another version; name its results folder, from which the "
                "database is rebuilt"
            )
        check_content(connection, path, SCHEMA, before)
        yield connection


def read_scores(connection: DuckDBPyConnection) -> list[ScoreRow]:
    """Returns the completed runs of the latest setting of every cell.

    Excludes runs from before the source of a plug-in or the values on a card were edited, because
    results of two versions must not be averaged.
    """
    return _read(connection, ScoreRow, "latest", _RUN_ORDER)


def read_measures(connection: DuckDBPyConnection) -> list[MeasureRow]:
    """Returns further measurements of the runs that `read_scores` returns.

    Among them are the scores of their rewards over all behaviors, as `agreement_` and the measure.
    """
    source = """latest JOIN (
        FROM measures UNION ALL
        SELECT run_id, 'agreement_' || measure, value FROM reward_scores WHERE behavior = 'all'
    ) USING (run_id)"""
    return _read(connection, MeasureRow, source, f"{_RUN_ORDER}, measure")


def read_reward_scores(connection: DuckDBPyConnection) -> list[RewardScoreRow]:
    """Returns the numbers about learned rewards of the runs that `read_scores` returns."""
    order = f"{_RUN_ORDER}, measure, behavior, tested_in"
    return _read(connection, RewardScoreRow, "reward_board", order)


def read_failures(connection: DuckDBPyConnection) -> list[FailureRow]:
    """Returns the failed runs of the latest setting of every cell; see `read_scores`."""
    return _read(connection, FailureRow, "latest_failures", _RUN_ORDER)


def read_superseded(connection: DuckDBPyConnection) -> list[RunRow]:
    """Returns the runs that `read_scores` and `read_failures` exclude."""
    source = "attempts ANTI JOIN current_runs USING (run_id)"
    return _read(connection, RunRow, source, _RUN_ORDER)


def read_references(connection: DuckDBPyConnection) -> list[ReferenceRow]:
    """Returns the references of the runs that `read_scores` and `read_failures` return."""
    return _read(connection, ReferenceRow, '"references"', "suite, env, version, random, expert")


class _RunReferences(ReferenceRow):
    run_id: str


def read_run_references(connection: DuckDBPyConnection) -> dict[str, ReferenceRow]:
    """Returns the references of each run that `read_scores` returns, by its id."""
    source = f"""(
        SELECT run_id, {_REFERENCE_COLUMNS}, reference_expert_likely AS expert_likely
        FROM runs SEMI JOIN current_runs USING (run_id)
    )"""
    return {row.run_id: row for row in _read(connection, _RunReferences, source, "run_id")}


def read_external_scores(connection: DuckDBPyConnection) -> list[ExternalScoreRow]:
    """Returns completed runs that were imported from other tools; scores exclude them."""
    return _read(connection, ExternalScoreRow, "external_scores", f"name, {_RUN_ORDER}")


@contextmanager
def damage_told() -> Iterator[None]:
    """Context of queries of this program, which fail only if the file is damaged.

    DuckDB notices damage of a block when a query needs it.

    Raises:
        DamagedDatabaseError: A query has failed.
        InputError: A query needs more memory than it may use.
    """
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        told = beyond("database_bytes", "needs more memory")
        raise InputError(f"{DATABASE_FILE}: {told}") from error
    except duckdb.Error as error:
        raise DamagedDatabaseError(
            f"{DATABASE_FILE}: cannot be read ({one_line(error)}); delete the file, it is rebuilt "
            "from the run directories"
        ) from error


@damage_told()
def read_frame(
    connection: DuckDBPyConnection,
    table: str,
    *,
    selection: Selection = _ALL,
) -> pandas.DataFrame:
    """Reads a table or view as a data frame, in the order of its columns.

    Args:
        connection: Connection to the database.
        table: Name of the table or view.
        selection: Runs to read. Tables without algorithms ignore the algorithms in it.

    Raises:
        DamagedDatabaseError: The database is damaged.
        InputError: pandas is not installed.
    """
    import_extra("pandas", "pandas", "a table of results in Python")
    source = f'"{table}"'
    columns = [row[0] for row in connection.execute(f"DESCRIBE {source}").fetchall()]
    if "suite" not in columns:  # curves, measures and others have only run ids
        source += " JOIN (SELECT run_id, suite, env, algo, seed FROM runs) USING (run_id)"
    # Failed runs have no row in table runs.
    algo = "algo" if "algo" in columns or "suite" not in columns else "NULL"
    cell = ", ".join(f"coalesce({part}, '')" for part in ("suite", "env", algo))
    cells = connection.execute(f"SELECT DISTINCT {cell} FROM {source}").fetchall()
    chosen = [list(row) for row in cells if selection.selects(*(part or None for part in row))]
    return connection.execute(
        f"SELECT * FROM {source} WHERE list_contains($1::VARCHAR[][], [{cell}]) ORDER BY ALL",
        [chosen],
    ).df()


def _read(connection: DuckDBPyConnection, kind: type[_Row], source: str, order: str) -> list[_Row]:
    names = list(kind.model_fields)
    query = f"SELECT {', '.join(names)} FROM {source} ORDER BY {order}"
    try:
        rows = connection.execute(query).fetchall()
        return [kind.model_validate(dict(zip(names, row, strict=True))) for row in rows]
    except (duckdb.Error, ValidationError) as error:
        raise InputError(
            f"{DATABASE_FILE}: {one_line(source, 40)} has another shape than this program's "
            f"({one_line(error)}); delete the file, it is rebuilt from the run directories"
        ) from error


@damage_told()
def read_durations(connection: DuckDBPyConnection) -> dict[tuple[str, str, str, int], float]:
    """Returns median seconds of completed runs by algorithm, environment, budget unit, amount.

    Raises:
        DamagedDatabaseError: The database is damaged.
    """
    rows = connection.execute(
        "SELECT algo, env, budget_unit, budget_amount, median(wall_s) FROM runs GROUP BY ALL"
    ).fetchall()
    return {(algo, env, unit, amount): seconds for algo, env, unit, amount, seconds in rows}
