"""Whoever is killed, and whenever: no run is lost, none counts twice, and all numbers stay."""

import json

import pytest
from support.chaos import ROLES, Chaos
from support.command import call_imitbench
from support.outcomes import database_content, finished_runs

from imitbench.store import database
from imitbench.store.collector import CollectionSummary, collect
from imitbench.store.overview import STATES
from imitbench.store.run_dir import RunDirectory

# Cells that take a second or two, with a checkpoint after every stretch of training.
SETTINGS = (
    "--budget", "quick", "--set", "bc.hidden_size=8", "--checkpoint-minutes", 0, "--quiet",
)  # fmt: skip


def sweep(seeds, env, algorithms=("bc",)):
    chosen = [argument for name in algorithms for argument in ("--algo", name)]
    return ["run", *chosen, "--env", env, "--seeds", seeds, *SETTINGS]


def undisturbed_twin(out, command):
    assert call_imitbench(*command, "--jobs", 2, "--out", out, cwd=out.parent).code == 0
    return finished_runs(out)


def check(out, command, expected):
    """The state of a results folder after every disturbance."""
    again = call_imitbench(*command, "--out", out, "--json", cwd=out.parent)
    assert again.code == 0
    summary = json.loads(again.out)
    assert (summary["already_done"], summary["done"], summary["failed"]) == (len(expected), 0, [])
    assert finished_runs(out) == expected
    cells = json.loads(call_imitbench("status", "--out", out, "--json", cwd=out.parent).out)
    assert {state: sum(cell[state] for cell in cells) for state in STATES} == {
        **dict.fromkeys(STATES, 0), "done": len(expected),
    }  # fmt: skip
    for path in expected:
        with RunDirectory(out / path).claim(wait=False) as claimed:
            assert claimed
    assert collect(out) == CollectionSummary(added=0, removed=0, quarantined=[])
    content = database_content(out)
    assert sorted(row[0] for row in content["runs"]) == sorted(
        path.rpartition("/")[2] for path in expected
    )
    assert content["failures"] == []
    (out / database.DATABASE_FILE).unlink()
    collect(out)
    assert database_content(out) == content
    assert not list(out.glob(f".{database.DATABASE_FILE}.*"))


@pytest.fixture
def chaos():
    """Makes a `Chaos` that leaves no process behind."""
    made = []

    def make(*arguments, **options):
        made.append(Chaos(*arguments, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.slow
def test_fifty_kills_change_nothing(tmp_path, chaos):
    algorithms = ("bc", "random")
    whole = sweep("0-3", "*", algorithms)
    expected = undisturbed_twin(tmp_path / "twin", whole)
    assert len(expected) == 24
    kills = dict.fromkeys(ROLES, 0)
    for number in range(50):
        parts = [[*sweep(seeds, "*", algorithms), "--jobs", 2] for seeds in ("0-2", "1-3")]
        out = tmp_path / f"out {number}" / "runs"
        disturbed = chaos(out, [part[1:] for part in parts], seed=number, pause_s=1.5)
        disturbed.kill(50 - sum(kills.values()))
        disturbed.let_finish()
        assert disturbed.complaints == []
        check(out, whole, expected)
        kills = {role: kills[role] + disturbed.kills[role] for role in ROLES}
        if sum(kills.values()) >= 50:
            break
    assert min(kills.values()) >= 5
