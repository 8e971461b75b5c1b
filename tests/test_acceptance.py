"""The main promises of this project, at full size where size is what is promised."""

import csv
import io
import json
import os
import subprocess
import sys

import pytest
from support.command import call_imitbench
from support.short_suite import write_short_suite

pytestmark = pytest.mark.slow

COMMAND = [
    sys.executable, "-m", "imitbench", "run", "--algo", "bc", "--suite", "classic",
    "--seeds", "3", "--jobs", "2", "--json", "--quiet",
]  # fmt: skip


def run(folder):
    done = subprocess.run(COMMAND, cwd=folder, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def numbers(document):
    names = ("run_id", "raw_return", "score", "score_deterministic", "mean_length")
    return sorted(tuple(row[name] for name in names) for row in document["scores"])


def test_behavioral_cloning_reaches_the_expert_on_classic_and_is_not_repeated(tmp_path):
    document = run(tmp_path)
    assert document["done"] == 9
    table = call_imitbench("report", "--format", "csv", cwd=tmp_path).out
    [row] = [
        row
        for row in csv.DictReader(io.StringIO(table))
        if (row["row"], row["algorithm"]) == ("aggregate", "bc")
    ]
    assert float(row["score_iqm"]) >= 0.9
    again = run(tmp_path)
    assert (again["done"], again["already_done"]) == (0, 9)
    assert numbers(again) == numbers(document)


def test_adversarial_training_reaches_the_expert_on_cartpole(tmp_path):
    command = [
        *COMMAND[:4], "--algo", "gail", "--algo", "airl", "--env", "seals/CartPole-v0",
        "--seeds", "1", "--jobs", "2", "--json", "--quiet",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    scores = {row["algo"]: row["score"] for row in json.loads(done.stdout)["scores"]}
    assert scores.keys() == {"gail", "airl"}
    assert min(scores.values()) >= 0.9


def test_preferences_reach_the_expert_and_recover_the_reward(tmp_path):
    command = [
        *COMMAND[:4], "--algo", "preference_comparisons", "--env", "Pendulum-v1",
        "--seeds", "1", "--json", "--quiet",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    [score] = [row["score"] for row in json.loads(done.stdout)["scores"]]
    assert score >= 0.8
    table = call_imitbench("report", "--format", "csv", cwd=tmp_path).out
    measured = {
        row["measure"]: float(row["measure_mean"])
        for row in csv.DictReader(io.StringIO(table))
        if row["row"] == "measure"
    }
    assert measured["reward_correlation"] >= 0.8
    assert measured["preference_accuracy"] >= 0.9
    assert -0.5 < measured["transfer_score"] < 1.5
    assert len(list(tmp_path.glob("runs/*/*/*/*/reward/*"))) >= 1


def test_airl_on_seals_runs_and_reports_without_network(tmp_path):
    command = [sys.executable, "-m", "imitbench"]
    offline = {**os.environ, "HF_HUB_OFFLINE": "1"}
    # Two rounds, and short episodes: a hundred whole ones of each task would take minutes.
    write_short_suite(tmp_path / "short", None, "seals", steps=50, env_steps=4096)
    asked = "run --algo airl --suite ./short --seeds 1 --budget quick --jobs 2 --json --quiet"
    done = subprocess.run(
        [*command, *asked.split()], cwd=tmp_path, env=offline, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["done"], document["failed"]) == (5, [])
    assert len({row["env"] for row in document["scores"]}) == 5
    report = subprocess.run(
        [*command, "report"], cwd=tmp_path, env=offline, capture_output=True, text=True
    )
    assert report.returncode == 0, report.stderr
    assert "airl" in report.stdout
    assert "5 of 5" in report.stdout
