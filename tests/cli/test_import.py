"""`imitbench import` as people type it."""

import csv
import io
import json

import numpy as np
import pytest
from support.runs import make_spec
from support.sacred_folders import write_sacred
from support.synthetic_runs import write_failed, write_finished

TABLE = "algo,env,seed,raw_return\nbc,Pendulum-v1,0,-150\nbc,Pendulum-v1,1,-160\n"


def rows_of(imitbench, question, *options):
    return json.loads(imitbench("sql", question, "--format", "json", *options).out)


def test_the_real_runs_of_the_reference_library(imitbench, shared_dir):
    folder = shared_dir / "legacy-fixtures" / "sacred"
    answer = imitbench("import", "sacred", folder, "--name", "reference", "--suite", "classic")
    assert answer.code == 0
    assert "reference: 9 completed, 1 interrupted, 1 killed" in answer.err
    assert "killed: train_adversarial/4 (airl on seals/CartPole-v0, seed 2): " in answer.err
    assert "gail" in answer.out
    again = imitbench("import", "sacred", folder, "--name", "reference", "--suite", "classic")
    assert (again.code, again.out) == (0, answer.out)
    assert "is up to date" in again.err
    document = json.loads(
        imitbench("import", "sacred", folder, "--name", "again", "--json", "--dry-run").out
    )
    counts = {status: number for status, number in document["counts"].items() if number}
    assert counts == {"completed": 9, "interrupted": 1, "killed": 1}
    question = "select name, count(*) as runs, min(score) as least from external_scores group by 1"
    [row] = rows_of(imitbench, question)
    assert (row["name"], row["runs"]) == ("reference", 9)
    assert -1 < row["least"] < 0
    assert rows_of(imitbench, "select * from scores") == []


def test_unusable_runs_are_listed_and_give_exit_code_1(imitbench, tmp_path):
    write_sacred(tmp_path / "sacred" / "1")
    (write_sacred(tmp_path / "sacred" / "2") / "config.json").write_text("{")
    answer = imitbench("import", "sacred", "sacred", "--json", "--out", "other")
    document = json.loads(answer.out)
    assert answer.code == 1
    assert (document["name"], document["written"]) == ("sacred", True)
    assert document["file"] == "other/external/sacred.jsonl"
    [left] = document["not_completed"]
    assert (left["place"], left["status"]) == ("2", "unusable")
    assert "config.json: is no JSON" in left["reason"]
    assert (tmp_path / "other" / "external" / "sacred.jsonl").exists()


def test_a_table_goes_in_and_comes_out(imitbench, tmp_path):
    (tmp_path / "published.csv").write_text(TABLE)
    answer = imitbench("import", "csv", "published.csv", "--quiet")
    assert (answer.code, answer.out, answer.err) == (0, "", "")
    [row] = rows_of(
        imitbench, "select algo, avg(raw_return) as mean from external_scores group by 1"
    )
    assert row == {"algo": "bc", "mean": -155.0}


def test_what_sql_prints_can_be_imported_elsewhere(imitbench, tmp_path):
    for seed in (0, 1):
        write_finished(tmp_path / "runs", make_spec(seed=seed), raw_return=10.0 * seed)
    write_failed(tmp_path / "runs", make_spec(seed=2), "it broke")
    for view in ("scores", "failures"):
        printed = imitbench("sql", f"select * from {view}", "--format", "csv").out
        (tmp_path / f"{view}.csv").write_text(printed)
        assert imitbench("import", "csv", f"{view}.csv", "--out", "theirs").code == 0
    theirs = rows_of(
        imitbench,
        "select algo, env, seed, status, raw_return, score from external order by seed",
        "--out",
        "theirs",
    )
    assert [(row["seed"], row["status"]) for row in theirs] == [
        (0, "completed"),
        (1, "completed"),
        (2, "failed"),
    ]
    own = list(csv.DictReader(io.StringIO((tmp_path / "scores.csv").read_text())))
    assert [row["score"] for row in theirs[:2]] == sorted(float(row["score"]) for row in own)


def test_all_wrong_lines_are_reported_and_nothing_is_imported(imitbench, tmp_path):
    (tmp_path / "table.csv").write_text(TABLE + "bc,A,2,much\nbc,A,3\n")
    answer = imitbench("import", "csv", "table.csv")
    assert (answer.code, answer.out) == (2, "")
    first, second, last = answer.err.splitlines()
    assert first == "table.csv, line 4: raw_return: 'much' is not a number"
    assert second == "table.csv, line 5: 3 cells, and the header has 4"
    assert last.startswith("error: table.csv: 2 lines are wrong, nothing was imported")
    assert not (tmp_path / "runs").exists()


def test_arrays_of_rliable(imitbench, tmp_path):
    np.savez(tmp_path / "atari.npz", DQN=np.array([[0.5, 1.0], [1.5, 2.0]]))
    answer = imitbench("import", "rliable", "atari.npz", "--env", "Alien", "--env", "Pong")
    assert answer.code == 0
    [header, _, alien, pong] = answer.out.splitlines()
    assert alien.split() == ["DQN", "Alien", "2", "0", "1"]
    assert pong.split() == ["DQN", "Pong", "2", "0", "1.5"]
    assert "mean score" in header


def test_a_dry_run_writes_nothing(imitbench, tmp_path):
    (tmp_path / "table.csv").write_text(TABLE)
    answer = imitbench("import", "csv", "table.csv", "--dry-run")
    assert answer.code == 0
    assert "table: 2 completed; runs/external/table.jsonl would be written" in answer.err
    assert not (tmp_path / "runs").exists()


def test_names_in_use_need_force(imitbench, refused, tmp_path):
    (tmp_path / "table.csv").write_text(TABLE)
    assert imitbench("import", "csv", "table.csv").code == 0
    (tmp_path / "table.csv").write_text(TABLE.replace("150", "151"))
    line = refused("import", "csv", "table.csv")
    assert "--name" in line
    assert "--force" in line
    assert imitbench("import", "csv", "table.csv", "--name", "newer").code == 0
    assert imitbench("import", "csv", "table.csv", "--force").code == 0
    assert len(rows_of(imitbench, "select distinct name from external")) == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["sacred", "missing"], "missing: no such folder"),
        (["csv", "missing.csv"], "missing.csv: no such file"),
        (["rliable", "missing.npz"], "missing.npz: no such file"),
        (["csv", "table.csv", "--name", "../x"], "--name '../x'"),
        (["csv", "table.csv", "--suite", "clasic"], "classic"),
    ],
)
def test_bad_input_is_reported_in_one_line(refused, tmp_path, arguments, told):
    (tmp_path / "table.csv").write_text(TABLE)
    assert told in refused("import", *arguments)
