import shutil
from pathlib import Path

import duckdb
import pytest
from support.synthetic_runs import plan_runs, write_results

from imitbench.errors import InputError
from imitbench.store import database, run_details
from imitbench.store.collector import collect
from imitbench.store.database_access import DamagedDatabaseError

WRITING = (
    "COPY (SELECT 1) TO '{}' (FORMAT csv, USE_TMP_FILE false)",
    "WITH a AS (COPY (SELECT 1) TO '{}' (FORMAT csv, USE_TMP_FILE false)) SELECT * FROM a",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{}' (FORMAT csv, USE_TMP_FILE false)",
    "EXPORT DATABASE '{}.tmp'",
    "ATTACH '{}' AS other",
    "CALL enable_logging(storage = 'file', storage_path = '{}')",
    "SET disabled_filesystems = ''",
    "SET memory_limit = '100GB'",
)
OTHER = {
    "a macro": "CREATE MACRO count(x) AS 77",
    "a macro of a table": "CREATE MACRO range(x) AS TABLE SELECT 1",
    "a view": "CREATE OR REPLACE VIEW scores AS SELECT 1 AS a",
    "a view for a table": "DROP TABLE ingested; CREATE VIEW ingested AS SELECT 1 AS path",
    "another table": "CREATE TABLE more (a INTEGER)",
    "a schema": "CREATE SCHEMA more",
}


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    write_results(folder, plan_runs(2))
    collect(folder)
    return folder


def content(out):
    return {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}


@pytest.mark.parametrize("query", WRITING)
@pytest.mark.parametrize("end", ["", ".wal"])
def test_no_query_writes_over_the_database(query, end, out, tmp_path):
    before = content(out)
    link = tmp_path / "link"
    link.symlink_to(out / f"{database.DATABASE_FILE}{end}")
    with database.reader(out) as connection:
        for path in (out / f"{database.DATABASE_FILE}{end}", link):
            with pytest.raises(duckdb.Error):
                connection.execute(query.format(path)).fetchall()
    assert content(out) == before


def test_a_file_can_be_open_twice(out):
    with database.reader(out) as one, database.reader(out) as other:
        rows = [each.execute("SELECT count(*) FROM scores").fetchall() for each in (one, other)]
        assert rows == [[(2,)], [(2,)]]
        with pytest.raises(duckdb.PermissionException):
            other.execute(f"COPY runs TO '{out / 'a.csv'}'")


def is_refused(path):
    with pytest.raises(DamagedDatabaseError, match="another shape"), database.reader(path.parent):
        pass
    with pytest.raises(InputError, match="another shape"), database.reader_of_file(path):
        pass


@pytest.mark.parametrize("what", OTHER)
def test_a_database_with_other_content_is_refused(what, out, tmp_path):
    path = Path(shutil.copy(out / database.DATABASE_FILE, tmp_path))
    with duckdb.connect(path) as connection:
        connection.execute(OTHER[what])
    is_refused(path)


def test_a_log_that_is_added_to_a_checked_database_is_checked(out, tmp_path):
    one, other = (tmp_path / name / database.DATABASE_FILE for name in ("one", "other"))
    for path in (one, other):
        path.parent.mkdir()
        shutil.copy(out / database.DATABASE_FILE, path)
    with database.reader(one.parent):
        pass
    with duckdb.connect(other) as connection:
        connection.execute(OTHER["a macro"])
        shutil.copy(f"{other}.wal", one.parent)
    is_refused(one)


def test_a_database_with_other_content_is_rebuilt(out):
    path = out / database.DATABASE_FILE
    with database.reader(out):
        pass  # it is checked again when it has changed
    with duckdb.connect(path) as connection:
        connection.execute(OTHER["a view"])
    is_refused(path)
    assert collect(out).added == 2
    with database.reader(out) as connection:
        assert connection.execute("SELECT count(*) FROM scores").fetchall() == [(2,)]


def test_damage_that_a_query_meets_is_one_line(tmp_path):
    write_results(tmp_path, plan_runs(2))
    collect(tmp_path)
    path = tmp_path / database.DATABASE_FILE
    whole = path.read_bytes()
    readers = (
        database.read_durations,
        run_details.read_details,
        lambda connection: database.read_frame(connection, "curves"),
        lambda connection: run_details.read_episodes(connection, ["0"]),
    )
    met = set()
    for start in range(3 * 4096, len(whole), 2**17):
        path.write_bytes(whole[:start] + b"damage" * 300 + whole[start + 1800 :])
        for reader in readers:
            try:
                with database.reader(tmp_path) as connection:
                    reader(connection)
            except InputError as error:
                assert "\n" not in str(error)
                met.add(str(error).partition(" (")[0])
    assert f"{database.DATABASE_FILE}: cannot be read" in met
