"""Full disks, databases of another shape, values that JSON lacks, files of killed sweeps."""

import json
import os
import shutil

import duckdb
import numpy as np
import pytest
from support.command import call_imitbench, refusal
from support.small_disk import room, small_disk
from support.synthetic_runs import plan_runs, write_results

from imitbench.bench.job import JOBS_FOLDER, remove_orphans
from imitbench.store import lease
from imitbench.store.database import DATABASE_FILE


@pytest.fixture
def results(tmp_path):
    out = tmp_path / "runs"
    write_results(out, plan_runs(2))
    return out


def test_json_of_a_query_has_every_value(results, tmp_path):
    query = (
        "select '\\xFF\\x00'::blob as b, interval 90 seconds as i, date '2020-01-02' as d, "
        "1.5::decimal(4, 2) as n, 'nan'::double as x, [interval 1 hour] as l, 2::hugeint as h"
    )
    answer = call_imitbench("sql", query, "--format", "json", "--out", results, cwd=tmp_path)
    [row] = json.loads(answer.out)
    assert row == {
        "b": "ff00", "i": 90.0, "d": "2020-01-02", "n": "1.50", "x": None, "l": [3600.0], "h": 2
    }  # fmt: skip


def test_a_database_of_another_shape_is_one_line(results, tmp_path):
    assert call_imitbench("collect", "--out", results, cwd=tmp_path).code == 0
    other = tmp_path / "other.duckdb"
    shutil.copyfile(results / DATABASE_FILE, other)
    with duckdb.connect(other) as connection:
        connection.execute("CREATE OR REPLACE VIEW latest AS SELECT 1 AS other")
    words = ("compare", "bc", "--out", results, "--against", other)
    assert "another shape" in refusal(call_imitbench(*words, cwd=tmp_path))


def test_a_full_disk_is_one_line(tmp_path):
    size = 2**20
    arrays = {"obs": np.random.default_rng(0).normal(size=(40_000, 8)), "acts": np.ones(40_000)}
    dones = np.zeros(40_000)
    dones[99::100] = 1
    np.savez(tmp_path / "a.npz", **arrays, dones=dones)
    disk = tmp_path / "disk"
    with small_disk(disk, size), room(disk, 64 * 1024):
        line = refusal(call_imitbench("demos", "convert", "a.npz", disk / "new", cwd=tmp_path))
        assert "No space left" in line
        assert not (disk / "new").exists()


def test_job_files_of_ended_processes_are_removed(tmp_path, monkeypatch):
    folder = tmp_path / JOBS_FOLDER
    folder.mkdir()
    machine, own, started = lease.process_mark().rsplit(" ", 2)
    owners = {
        "ended": f"{machine} {own} 1", "mine": f"{machine} {own} {started}",
        "elsewhere": f"x {own} 1", "queued": "",
    }  # fmt: skip

    def read(path):
        return type("Read", (), {"owner": owners[path.stem]})

    monkeypatch.setattr("imitbench.bench.job.Job.read", read)
    for name in owners:
        (folder / f"{name}.json").touch()
    remove_orphans(tmp_path)
    assert {each.stem for each in folder.iterdir()} == {"mine", "elsewhere", "queued"}


def test_logs_that_are_pipes_end_the_command(results, tmp_path):
    [run, *_] = sorted(results.glob("*/*/*/*/result.json"))
    log = run.with_name("log.txt")
    log.unlink(missing_ok=True)
    os.mkfifo(log)
    line = refusal(call_imitbench("logs", run.parent.name, "--out", results, cwd=tmp_path))
    assert "no ordinary file" in line
