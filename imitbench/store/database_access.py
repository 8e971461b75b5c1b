"""Opens a database file for reading: it may be of anyone, and no query reaches another file."""

from __future__ import annotations

import functools
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from imitbench.errors import InputError
from imitbench.untrusted.files import require_ordinary
from imitbench.untrusted.limits import limits
from imitbench.util.text_line import one_line

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

POLL_S = 0.05
_LOCKED = "Could not set lock on file"
_FOREIGN_S = 2.0
_CATALOGUE = """
    SELECT table_name AS name, sql FROM duckdb_tables() WHERE NOT internal
    UNION ALL SELECT view_name, sql FROM duckdb_views() WHERE NOT internal
    UNION ALL SELECT function_name, macro_definition FROM duckdb_functions() WHERE NOT internal
    UNION ALL SELECT index_name, sql FROM duckdb_indexes()
    UNION ALL SELECT sequence_name, sql FROM duckdb_sequences()
    UNION ALL SELECT type_name, '' FROM duckdb_types() WHERE NOT internal
    UNION ALL SELECT schema_name, '' FROM duckdb_schemas() WHERE NOT internal
"""
_locking = threading.Lock()


class DamagedDatabaseError(InputError):
    """The database cannot be opened and must be rebuilt."""


def _log(path: Path) -> Path:
    return path.with_name(path.name + ".wal")


@contextmanager
def opened(path: Path) -> Iterator[DuckDBPyConnection]:
    """Opens a database for reading; its queries read and write no file, and change no setting.

    Raises:
        DamagedDatabaseError: The file is no database that can be opened.
        InputError: It is not an ordinary file, or another program writes to it.
    """
    log = _log(path)
    for file in (path, log) if log.exists() else (path,):
        require_ordinary(file)  # DuckDB would wait for a pipe
    connection = _connect(path)
    try:
        _lock_up(connection)
        yield connection
    finally:
        connection.close()


FileState = tuple[tuple[int, ...], ...]
_CHECKED: set[tuple[str, FileState]] = set()
"""Schemas that this process has found in files; to list all macros takes as long as to open one."""


def file_state(path: Path) -> FileState:
    """Returns what differs once a database's file, or its log, is replaced or written into."""
    found = []
    for file in (path, _log(path)):
        with suppress(OSError):
            stat = file.stat()
            times = stat.st_mtime_ns, stat.st_ctime_ns
            found.append((stat.st_dev, stat.st_ino, stat.st_size, *times))
    return tuple(found)


def check_content(
    connection: DuckDBPyConnection, path: Path, schema: str, before: FileState
) -> None:
    """Checks that a database has the tables and views of a schema, and nothing else.

    A view or a macro of another name, such as that of a function, would change the answers.

    Args:
        connection: Connection to the database.
        path: Its file.
        schema: Statements that create the tables and views.
        before: State of the file before it was opened.

    Raises:
        DamagedDatabaseError: It has others.
    """
    unchanged = file_state(path) == before
    if unchanged and (schema, before) in _CHECKED:
        return
    found = set(connection.execute(_CATALOGUE).fetchall())
    other = sorted(name for name, _ in found ^ _expected(schema))
    if other:
        raise DamagedDatabaseError(
            f"{path}: {one_line(other[0], 40)} is missing, or has another shape than this "
            "program's; delete the file, it is rebuilt from the run directories"
        )
    if unchanged:
        _CHECKED.add((schema, before))


def fetch_interruptibly(
    connection: DuckDBPyConnection, query: str
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Runs a query, which Ctrl-C ends at any time.

    DuckDB itself looks for signals between steps of a query only, and a step may take minutes.
    Python handles signals in the main thread, so that the query runs in another one.

    Args:
        connection: Connection that nothing else uses meanwhile.
        query: A statement.

    Returns:
        Names of the columns, and the rows.

    Raises:
        duckdb.Error: The query is wrong, or failed.
    """

    def fetch() -> tuple[list[str], list[tuple[Any, ...]]]:
        answer = connection.execute(query)
        return [column[0] for column in answer.description or ()], answer.fetchall()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(fetch)
        try:
            return running.result()
        except KeyboardInterrupt:
            while not running.done():  # a statement that has not begun yet is not interrupted
                connection.interrupt()
                wait([running], POLL_S)
            raise


@functools.cache
def _expected(schema: str) -> frozenset[tuple[str, str]]:
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute(schema)
        return frozenset(connection.execute(_CATALOGUE).fetchall())


def _connect(path: Path) -> DuckDBPyConnection:
    deadline = time.monotonic() + _FOREIGN_S
    # Without a folder for temporary files, queries end when they have used their memory.
    config: dict[str, str | bool | int | float | list[str]] = {
        "enable_external_access": "false",
        "memory_limit": f"{limits().database_bytes}B",
        "temp_directory": "",
    }
    while True:
        try:
            return duckdb.connect(str(path), read_only=True, config=config)
        except duckdb.Error as error:
            # Messages about damage name a "block", or the path, which may contain "lock".
            if _LOCKED not in str(error):
                raise DamagedDatabaseError(
                    f"{path}: cannot be opened; delete it, it is rebuilt from the run directories"
                ) from error
            if time.monotonic() > deadline:
                raise InputError(
                    f"{path}: another program has the database open for writing"
                    f"{_holder(error)}; close it and try again"
                ) from error
            time.sleep(POLL_S)


def _lock_up(connection: DuckDBPyConnection) -> None:
    """Closes all files to queries; DuckDB itself always lets them write to the database's own."""
    with _locking:  # connections to one file share their settings
        [(locked,)] = connection.execute("SELECT current_setting('lock_configuration')").fetchall()
        if not locked:
            connection.execute("SET disabled_filesystems = 'LocalFileSystem'")
            connection.execute("SET lock_configuration = true")


def _holder(error: duckdb.Error) -> str:
    found = re.search(r"held in (.{1,200}?\(PID \d+\))", str(error))
    return f": {one_line(found[1])}" if found else ""
