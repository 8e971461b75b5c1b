"""A check of a claim is registered first, trains what is missing, and says what came out."""

import csv
import json

import pytest
from support.evaluation import short_evaluation
from typer.testing import CliRunner

from imitbench.cli.main import app

ROW = {
    "paper": "Barto",
    "year": "1983",
    "figure": "Table 1",
    "url": "https://example.org/cartpole",
    "task": "seals/CartPole-v1",
    "expert_return": "500",
    "claimed_return": "20",
    "point": "last",
    "algo": "random",
    "suite": "classic",
    "env": "seals/CartPole-v0",
    "budget": "quick",
    "config": "default",
}


@pytest.fixture(scope="module", autouse=True)
def _short_evaluation():
    with short_evaluation():
        yield


@pytest.fixture
def check(tmp_path, monkeypatch):
    """Runs `imitbench claims check 1` on a table with one claim."""
    monkeypatch.chdir(tmp_path)

    def check(*options, number="1", **changes):
        with (tmp_path / "claims.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, [*ROW], lineterminator="\n")
            writer.writeheader()
            writer.writerow(ROW | changes)
        words = ["claims", "check", number, "--table", "claims.csv", "--executor", "inline", "-q"]
        done = CliRunner().invoke(app, [*words, *options])
        return done.exit_code, done.stdout, str(done.exception or "")

    return check


def test_a_check_says_what_came_out_and_is_not_run_twice(check, tmp_path):
    code, said, _ = check("--seeds", "3", "--json")
    found = json.loads(said)
    assert (code, found["verdict"], found["own"]["seeds"]) == (0, "reproduced", 3)
    assert found["own"]["share"]["mean"] == pytest.approx(found["own"]["mean_return"] / 500)
    [design] = tmp_path.glob("runs/.claims/*/design.json")
    registered = json.loads(design.read_text())["registered_at"]
    results = sorted(tmp_path.glob("runs/classic/**/result.json"))
    assert len(results) == 3
    assert all(json.loads(path.read_text())["finished_at"] >= registered for path in results)
    written = {path: path.stat().st_mtime_ns for path in [design, *results]}
    code, said, _ = check("--seeds", "3")
    assert code == 0
    assert said.startswith("reproduced: Barto 1983, Table 1, seals/CartPole-v1 has random at a ")
    assert {path: path.stat().st_mtime_ns for path in written} == written


def test_a_figure_far_away_is_not_reproduced(check):
    code, said, _ = check("--seeds", "3", claimed_return="400")
    assert (code, said.startswith("not reproduced (lower here): ")) == (0, True)


def test_other_seeds_are_another_check(check):
    check("--seeds", "2")
    code, _, error = check("--seeds", "3")
    assert code != 0
    assert "other seeds (2 from 0 to 1, not 3 from 0 to 2); name another --out" in error


def test_a_corrected_figure_is_another_check(check):
    check("--seeds", "2")
    code, _, error = check("--seeds", "2", claimed_return="400")
    assert code != 0
    assert "with another figure or margin (" in error
    assert ", not 0.8 within 0.1); name another --out" in error


def test_results_must_not_be_there_before_the_registration(check, tmp_path):
    words = ["run", "--algo", "random", "--env", ROW["env"], "--seeds", "1", "--budget", "quick"]
    CliRunner().invoke(app, [*words, "--executor", "inline", "-q"], catch_exceptions=False)
    _, _, error = check("--seeds", "2")
    assert "has results of random on seals/CartPole-v0, seed 0 already" in error
    assert list(tmp_path.glob("runs/.claims/*/design.json")) == []


@pytest.mark.parametrize(
    ("changes", "number", "message"),
    [
        ({"task": "CartPole-v1"}, "1", "claim 1: not comparable (other task); no run can settle"),
        ({}, "2", "claim 2: there are claims 1 to 1; `imitbench claims` lists them"),
    ],
)
def test_what_cannot_be_checked_is_refused(check, tmp_path, changes, number, message):
    _, _, error = check(number=number, **changes)
    assert message in error
    assert not (tmp_path / "runs").exists()


def test_a_dry_run_registers_nothing(check, tmp_path):
    code, said, _ = check("--seeds", "3", "--dry-run")
    assert code == 0
    assert "3" in said
    assert not (tmp_path / "runs").exists()


def test_an_edited_design_is_noticed(check, tmp_path):
    check("--seeds", "2")
    [design] = tmp_path.glob("runs/.claims/*/design.json")
    design.write_text(design.read_text().replace('"margin": 0.1', '"margin": 0.9'))
    _, _, error = check("--seeds", "2")
    assert "design.json: was changed after it was registered" in error
