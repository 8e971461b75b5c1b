"""Updates the database from run directories and imported results; a repetition changes nothing."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from imitbench.errors import InputError
from imitbench.store import database
from imitbench.store.arrow_columns import arrow_column, arrow_rows
from imitbench.store.database import ReadOnlyFolderError
from imitbench.store.database_access import DamagedDatabaseError
from imitbench.store.external_results import ExternalHeader, ExternalRun, read_external
from imitbench.store.run_rows import RunRows, arrow_tables, read_rows
from imitbench.store.scan import FolderScan, content_stamp, is_external, scan_outcomes
from imitbench.util.files import user_cache
from imitbench.util.text_line import one_line

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


_RUN_ID_LENGTH = 16

_COLUMNS: dict[str, pa.DataType] = {
    **dict.fromkeys(("run_id", "name", "tool"), pa.string()),
    **dict.fromkeys(ExternalRun.model_fields, pa.string()),
    **dict.fromkeys(
        ("seed", "n_demos", "demo_every", "episodes", "env_steps", "expert_episodes"), pa.int64()
    ),
    "all_demos": pa.bool_(),
    **dict.fromkeys(
        (
            "raw_return", "return_std", "score", "score_deterministic", "mean_length", "wall_s",
            "expert_return", "expert_std", "reference_random", "reference_expert",
        ),
        pa.float64(),
    ),
}  # fmt: skip


def external_table(header: ExternalHeader, runs: Sequence[ExternalRun]) -> pa.Table:
    """Returns the rows of table `external`."""
    rows: list[dict[str, Any]] = []
    for run in runs:
        content = f"{header.name}\n{run.model_dump_json(exclude_none=True)}"
        rows.append(
            dict(run)
            | {
                "run_id": hashlib.sha256(content.encode("utf-8")).hexdigest()[:_RUN_ID_LENGTH],
                "name": header.name,
                "tool": header.tool,
                "score": run.any_score,
                "provenance": json.dumps(run.provenance, sort_keys=True),
            }
        )
    return arrow_rows(rows, pa.schema(list(_COLUMNS.items())))


_TABLES = ("runs", "curves", "measures", "reward_scores", "episodes", "failures")
_INGESTED = pa.schema([(name, pa.string()) for name in ("path", "stamp", "run_id", "problem")])
_BATCH = 256
# Threads hide the latency of network file systems. Parsing holds Python's lock: on fast disks,
# threads gain nothing and cost a tenth of the time.
_THREADS = 8


@dataclass(frozen=True)
class QuarantinedSource:
    """A run directory, or a file of imported results, that is excluded as unreadable.

    Attributes:
        path: Path below the results folder.
        reason: The file and its problem, in one line.
    """

    path: str
    reason: str


@dataclass(frozen=True)
class CollectionSummary:
    """Result of one collection.

    Attributes:
        added: Number of own runs that are new or changed.
        removed: Number of own runs whose directories are gone.
        quarantined: Excluded sources. They are read again when a file changes.
    """

    added: int
    removed: int
    quarantined: list[QuarantinedSource] = field(default_factory=list)


def collect(out: Path, *, home: Path | None = None) -> CollectionSummary:
    """Updates the database of a results folder to match the files in the folder.

    Args:
        out: Root of the results folder.
        home: Folder of the database; by default the results folder itself.

    Returns:
        Summary of the changes.

    Raises:
        ReadOnlyFolderError: The folder of the database must be written, and may not be.
        InputError: The folder does not exist or cannot be written, or another process does not
            release the database.
    """
    if not out.is_dir():
        raise InputError(f"--out {out}: no such folder; run `imitbench run --out {out}` first")
    home = home or out
    scan = scan_outcomes(out)
    version, known = _version(home), _known(home)
    if known is None or not known.agrees_with(scan):
        with database.exclusive_writer(home):
            # Another process may have collected in the meantime, and more runs may have finished.
            scan = scan_outcomes(out)
            if _version(home) != version:
                known = _known(home)
            if known is None or not known.agrees_with(scan):
                return _revise(out, home, scan, known)
    return CollectionSummary(0, 0, _quarantined(known.problems, scan))


@dataclass(frozen=True)
class _DatabaseState:
    """State of the database: stamps, and problems of excluded sources, by path."""

    stamps: dict[str, str]
    problems: dict[str, str]

    def agrees_with(self, scan: FolderScan) -> bool:
        return not self.gone(scan) and not self.fresh(scan)

    def gone(self, scan: FolderScan) -> list[str]:
        # A source in a folder that cannot be listed is not gone.
        return [p for p in self.stamps if p not in scan.stamps and not scan.hides(p)]

    def fresh(self, scan: FolderScan) -> list[str]:
        return [path for path, stamp in scan.stamps.items() if self.stamps.get(path) != stamp]


def _version(home: Path) -> tuple[int, int, int] | None:
    """Returns what differs between the database and one that replaced it; `None` without one."""
    try:
        stat = (home / database.DATABASE_FILE).stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns


def _known(home: Path) -> _DatabaseState | None:
    """Reads the state of the database; `None` if there is no usable one."""
    if not (home / database.DATABASE_FILE).exists():
        return None
    try:
        with database.reader(home) as connection:
            version = connection.execute("SELECT version FROM schema_version").fetchall()
            if version != [(database.SCHEMA_VERSION,)]:
                return None
            stamps = connection.execute("SELECT path, stamp FROM ingested").fetchall()
            problems = connection.execute("FROM quarantine ORDER BY path").fetchall()
    except (DamagedDatabaseError, duckdb.Error):
        return None
    return _DatabaseState(dict(stamps), dict(problems))


def _revise(
    out: Path, home: Path, scan: FolderScan, known: _DatabaseState | None
) -> CollectionSummary:
    try:
        if known is not None:
            try:
                return _apply(out, home, scan, known, rebuild=False)
            except duckdb.Error:
                pass  # damaged where only writes notice it: rebuild it
        return _apply(out, home, scan, _DatabaseState({}, {}), rebuild=True)
    except duckdb.Error as error:
        if "no space left" in str(error).lower():
            raise InputError(
                f"{home / database.DATABASE_FILE}: No space left on device; all results are in "
                f"the folders of their runs; free some space, then: imitbench collect --out {out}"
            ) from error
        why = one_line(error, 500)  # the end of the message has the cause
        raise InputError(f"{home / database.DATABASE_FILE}: cannot be written ({why})") from error


def _apply(
    out: Path, home: Path, scan: FolderScan, known: _DatabaseState, *, rebuild: bool
) -> CollectionSummary:
    gone, fresh = known.gone(scan), known.fresh(scan)
    problems = dict(known.problems)
    added = 0
    with database.revision(home, rebuild=rebuild) as connection:
        removed = _remove(connection, gone, [path for path in fresh if path in known.stamps])
        for path in chain(gone, fresh):
            problems.pop(path, None)
        for batch in _read_all(out, fresh, scan):
            _insert(connection, batch)
            added += sum(read.rows is not None for read in batch)
            problems |= {read.path: read.problem for read in batch if read.problem is not None}
    return CollectionSummary(added, removed, _quarantined(problems, scan))


def _quarantined(problems: dict[str, str], scan: FolderScan) -> list[QuarantinedSource]:
    closed = {path: f"cannot be listed ({why})" for path, why in scan.closed.items()}
    return [QuarantinedSource(path, reason) for path, reason in sorted((problems | closed).items())]


@dataclass(frozen=True)
class _ReadSource:
    """Content of a run directory or a file of imported results, or its problem."""

    path: str
    stamp: str
    problem: str | None = None
    rows: RunRows | None = None
    external: pa.Table | None = None


def _read(out: Path, scan: FolderScan, path: str) -> _ReadSource | None:
    """Reads one source; `None` if it changed in the meantime: the next collection reads it."""
    stamp = scan.stamps[path]
    try:
        if is_external(path):
            read = _ReadSource(path, stamp, external=external_table(*read_external(out / path)))
        else:
            read = _ReadSource(path, stamp, rows=read_rows(out, path))
    except InputError as error:
        whole = str(out / path)
        problem = str(error).replace(f"{whole}/", "").removeprefix(f"{whole}: ")
        read = _ReadSource(path, stamp, problem)
    try:
        changed = content_stamp(out, path) != stamp
    except OSError:
        changed = True
    return None if changed else read


def _read_all(out: Path, paths: Sequence[str], scan: FolderScan) -> Iterator[list[_ReadSource]]:
    """Yields sources in batches; reads the next batch while the caller handles the current one."""
    todo = iter(paths)
    with ThreadPoolExecutor(_THREADS) as pool:

        def start() -> list[Future[_ReadSource | None]]:
            return [pool.submit(_read, out, scan, path) for path in islice(todo, _BATCH)]

        following = start()
        while following:
            batch, following = following, start()
            yield [source for future in batch if (source := future.result()) is not None]


def _remove(connection: DuckDBPyConnection, gone: Sequence[str], changed: Sequence[str]) -> int:
    """Removes the rows of sources, and returns the number of runs in `gone`."""
    if not gone and not changed:
        return 0
    for name, paths in (("gone", gone), ("stale", [*gone, *changed])):
        connection.register(name, pa.table({"path": arrow_column(paths, pa.string())}))
    [(removed,)] = connection.execute(
        "SELECT count(run_id) FROM ingested SEMI JOIN gone USING (path)"
    ).fetchall()
    connection.begin()
    for table in _TABLES:
        connection.execute(
            f"DELETE FROM {table} WHERE run_id IN "
            "(SELECT run_id FROM ingested SEMI JOIN stale USING (path) WHERE run_id IS NOT NULL)"
        )
    for table in ("external", "ingested"):
        connection.execute(f"DELETE FROM {table} WHERE path IN (SELECT path FROM stale)")
    # DuckDB checks a primary key against rows deleted in the same transaction as well.
    connection.commit()
    connection.unregister("gone")
    connection.unregister("stale")
    return int(removed)


def _insert(connection: DuckDBPyConnection, batch: Sequence[_ReadSource]) -> None:
    tables = arrow_tables([read.rows for read in batch if read.rows is not None])
    imported = [
        read.external.append_column(
            "path", arrow_column([read.path] * len(read.external), pa.string())
        )
        for read in batch
        if read.external is not None
    ]
    if imported:
        tables["external"] = pa.concat_tables(imported)
    tables["ingested"] = arrow_rows(
        [
            {
                "path": read.path,
                "stamp": read.stamp,
                "run_id": read.rows.run_id if read.rows else None,
                "problem": read.problem,
            }
            for read in batch
        ],
        _INGESTED,
    )
    database.insert(connection, tables)


@dataclass(frozen=True)
class CollectedFolder:
    """A results folder whose database is up to date.

    Attributes:
        folder: Folder of the database.
        summary: What the collection changed.
    """

    folder: Path
    summary: CollectionSummary


@contextmanager
def collected(out: Path) -> Iterator[CollectedFolder]:
    """Collects a results folder, without writing into it where that is not allowed.

    The database of such a folder is in the user's cache, where the next call finds it; if that
    cannot be written either, in a temporary folder, which is removed at the end.

    Raises:
        InputError: As for `imitbench.store.collector.collect`.
    """
    try:
        found = CollectedFolder(out, collect(out))
    except ReadOnlyFolderError:
        home = cached_folder(out)
        try:
            found = CollectedFolder(home, collect(out, home=home))
        except ReadOnlyFolderError:
            with tempfile.TemporaryDirectory(prefix="imitbench-") as scratch:
                home = Path(scratch)
                yield CollectedFolder(home, collect(out, home=home))
            return
    yield found


def cached_folder(out: Path) -> Path:
    """Returns the folder in the user's cache for the database of a results folder."""
    name = hashlib.sha256(str(out.resolve()).encode()).hexdigest()[:32]
    return user_cache() / "databases" / name
