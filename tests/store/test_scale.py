"""Many runs, several concurrent processes, and collectors that are killed."""

import json
import random
import shutil
import subprocess
import sys
import time

import pytest
from support.command import call_imitbench
from support.synthetic_runs import plan_runs, write_finished, write_results

from imitbench.errors import InputError
from imitbench.store import collector, database, database_access
from imitbench.store.collector import CollectionSummary, collect
from imitbench.store.overview import StatusSurvey, total_status
from imitbench.store.sweep_file import SweepFile

RUNS = 100
TABLES = ("runs", "curves", "measures", "episodes", "failures", "ingested")
COLLECT = (
    "import sys; from pathlib import Path; from imitbench.store.collector import collect\n"
    "print('ready', flush=True); collect(Path(sys.argv[1]))"
)


@pytest.fixture(scope="module")
def specs():
    return plan_runs(300)


@pytest.fixture(scope="module")
def results(tmp_path_factory, specs):
    out = tmp_path_factory.mktemp("results")
    write_results(out, specs[:RUNS], failed_every=10)
    SweepFile.of(out, specs[:RUNS], "imitbench run").write(out)
    return out


def content(out):
    with database.reader(out) as connection:
        return {
            table: connection.execute(f"SELECT * FROM {table} ORDER BY ALL").fetchall()
            for table in TABLES
        }


def start_collecting(out):
    process = subprocess.Popen(
        [sys.executable, "-c", COLLECT, str(out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout.readline() == b"ready\n"
    return process


def test_many_runs_from_plan_to_report(results, specs, monkeypatch):
    monkeypatch.setattr(collector, "_BATCH", 32)  # reads all in several batches
    planned = specs[:RUNS]
    ids = {spec.run_id for spec in planned}
    assert len(ids) == RUNS
    assert total_status(StatusSurvey(results).cells()).counts["done"] == RUNS * 9 // 10
    assert collect(results) == CollectionSummary(RUNS, 0)
    assert collect(results) == CollectionSummary(0, 0)
    rows = content(results)
    assert {row[0] for row in rows["runs"]} | {row[0] for row in rows["failures"]} == ids
    done, failed = RUNS * 9 // 10, RUNS // 10
    assert [len(rows[table]) for table in ("runs", "failures", "episodes", "curves")] == [
        done, failed, 2 * done, 2 * done,
    ]  # fmt: skip
    answer = call_imitbench("report", "--out", results, "--format", "csv", cwd=results)
    assert answer.code == 0
    assert len(answer.out.splitlines()) > len({(s.algo, s.environment.id) for s in planned})


@pytest.mark.slow
def test_killed_collectors_lose_nothing_and_double_nothing(tmp_path, specs):
    out, saved = tmp_path / "out", tmp_path / "saved"
    write_results(out, specs[:100])
    collect(out)
    before = content(out)
    shutil.copy(out / database.DATABASE_FILE, saved)
    write_results(out, specs[100:300], failed_every=50)
    write_results(out, specs[:10])  # repeated
    started = time.monotonic()
    assert start_collecting(out).wait() == 0
    seconds, after = time.monotonic() - started, content(out)
    assert len(after["ingested"]) == 300
    rng = random.Random(0)
    for _ in range(5):
        shutil.copy(saved, out / database.DATABASE_FILE)
        process = start_collecting(out)
        time.sleep(rng.uniform(0, seconds))
        process.kill()
        process.wait()
        assert content(out) in (before, after)
    collect(out)
    assert content(out) == after
    shutil.copy(saved, out / database.DATABASE_FILE)
    collect(out)
    assert content(out) == after
    assert not list(out.glob(f".{database.DATABASE_FILE}.*"))


@pytest.mark.slow
def test_concurrent_readers_and_collectors_see_complete_results(tmp_path, specs):
    out = tmp_path
    write_results(out, specs[:100])
    collect(out)
    collectors = []
    for spec in specs[100:112]:
        write_finished(out, spec)
        if len(collectors) < 3:
            collectors.append(start_collecting(out))
        with database.reader(out) as connection:
            # Successive answers agree, even if the database is replaced between them.
            [(runs,)] = connection.execute("SELECT count(*) FROM runs").fetchall()
            [(episodes,)] = connection.execute("SELECT count(*) FROM episodes").fetchall()
            collect(out)
            [(still,)] = connection.execute("SELECT count(*) FROM runs").fetchall()
        assert (episodes, still) == (2 * runs, runs)
    reports = [
        subprocess.Popen(
            [sys.executable, "-m", "imitbench", "sql", "select count(*) as n from runs",
             "--out", str(out), "--format", "json"],
            stdout=subprocess.PIPE,
        )
        for _ in range(2)
    ]  # fmt: skip
    assert [json.loads(each.communicate()[0]) for each in reports] == [[{"n": 112}]] * 2
    assert [(each.wait(), each.stderr.read()) for each in collectors] == [(0, b"")] * 3


def test_a_process_that_does_not_release_the_database_is_named(tmp_path, specs, monkeypatch):
    monkeypatch.setattr(database, "_WAIT_S", 0.1)
    write_results(tmp_path, specs[:1])
    holder = subprocess.Popen(
        [sys.executable, "-c",
         "import sys, time; from pathlib import Path; from imitbench.store import database\n"
         "with database.exclusive_writer(Path(sys.argv[1])):\n"
         "    print('held', flush=True); time.sleep(60)",
         str(tmp_path)],
        stdout=subprocess.PIPE,
    )  # fmt: skip
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(InputError, match=f"another process is writing it .process {holder.pid} on"):
        collect(tmp_path)
    holder.kill()
    holder.wait()
    assert collect(tmp_path).added == 1


def test_a_third_party_program_that_writes_is_named(tmp_path, specs, monkeypatch):
    monkeypatch.setattr(database_access, "_FOREIGN_S", 0.2)
    write_results(tmp_path, specs[:1])
    collect(tmp_path)
    holder = subprocess.Popen(
        [sys.executable, "-c",
         "import sys, time, duckdb; connection = duckdb.connect(sys.argv[1])\n"
         "print('held', flush=True); time.sleep(60)",
         str(tmp_path / database.DATABASE_FILE)],
        stdout=subprocess.PIPE,
    )  # fmt: skip
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(InputError, match=f"another program.*{holder.pid}"):
        collect(tmp_path)
    holder.kill()
    holder.wait()
    assert collect(tmp_path) == CollectionSummary(0, 0)
