"""`imitbench run` imports its summary during the sweep, and always ends cleanly."""

import importlib
import json
import threading

import pytest
from gymnasium.envs.classic_control.pendulum import PendulumEnv
from support.short_suite import write_short_suite
from typer.testing import CliRunner

from imitbench.bench import sweep
from imitbench.cli import rewards
from imitbench.cli.main import app
from imitbench.envs import batch_choice
from imitbench.errors import InputError
from imitbench.store.run_dir import RunDirectory
from imitbench.store.scan import run_directories


def test_bad_input_is_reported_after_background_imports_end(tmp_path, monkeypatch):
    begun, told = threading.Event(), threading.Event()
    load, loaded = importlib.import_module, []

    def load_slowly(name, package=None):
        if name == "imitbench.store.collector":
            begun.set()
            loaded.append(told.wait(0.5))
        return load(name, package)

    monkeypatch.setattr(importlib, "import_module", load_slowly)
    with pytest.raises(InputError, match="999"):
        app(
            ["run", "--algo", "bc", "--n-demos", "999", "--out", str(tmp_path)],
            standalone_mode=False,
        )
    told.set()
    assert begun.is_set()
    assert loaded == [False]  # it was over before


def test_a_run_whose_return_is_not_finite_has_failed(tmp_path, monkeypatch):
    """As JSON, its result could not be read."""
    step = PendulumEnv.step

    def step_to_nowhere(self, action):
        observation, _, *others = step(self, action)
        return observation, float("nan"), *others

    monkeypatch.setattr(PendulumEnv, "step", step_to_nowhere)
    monkeypatch.setattr(batch_choice, "knows", lambda *_: False)  # batches have their own steps
    words = ["run", "--algo", "random", "--env", "Pendulum-v1", "--seeds", "1", "--out"]
    done = CliRunner().invoke(app, [*words, str(tmp_path), "--executor", "inline", "--quiet"])
    assert done.exit_code == 1
    [directory] = run_directories(tmp_path)
    failure = RunDirectory(tmp_path / directory).read_failure()
    assert failure.message == "a return of the evaluation is not finite"


def test_many_seeds_are_counted_before_they_begin(imitbench):
    command = ("run", "--algo", "random", "--env", "Pendulum-v1", "--budget", "quick", "--dry-run")
    assert "100 seeds, 0 to 99" in imitbench(*command, "--seeds", 100).err
    assert "seeds" not in imitbench(*command, "--seeds", 20).err


def test_logs_list_the_runs_with_their_ids(real_sweep, imitbench, tmp_path):
    real_sweep(tmp_path)
    rows = json.loads(imitbench("logs", "--json").out)
    assert [(row["algo"], row["env"], row["state"]) for row in rows] == [
        (algo, "Pendulum-v1", "done") for algo in ("bc", "random") for _ in range(3)
    ]
    shown = imitbench("logs", "--algo", "bc")
    assert rows[0]["run_id"] in shown.out
    assert rows[3]["run_id"] not in shown.out
    assert imitbench("logs", rows[0]["run_id"][:8], "--json").code == 0
    assert "`imitbench logs` lists the runs" in imitbench("status").err


def test_what_is_left_out_is_told_before_the_first_run_and_with_the_results(imitbench, tmp_path):
    command = (
        "run", "--algo", "random", "--algo", "bc", "--env", "Pendulum-v1", "--seeds", 1,
        "--regime", "few-no-actions", "--budget", "quick", "--executor", "inline",
    )  # fmt: skip
    told = "not applicable: bc on Pendulum-v1: needs the demonstrator's actions, which this regime"
    first = imitbench(*command, cwd=tmp_path)
    assert first.code == 0, first.err
    before, _, after = first.err.partition("[1/1] random on Pendulum-v1")
    assert before.count(told) == after.count(told) == 1
    assert imitbench(*command, cwd=tmp_path).err.count(told) == 1  # nothing was run
    assert imitbench(*command, "--quiet", cwd=tmp_path).err.count(told) == 1


@pytest.mark.parametrize("form", [[], ["--json"]])
@pytest.mark.parametrize("outcome", [{"left": 2}, {"queued": 2}])
def test_no_reward_board_before_all_runs_are_done(tmp_path, monkeypatch, form, outcome):
    """Neither after Ctrl-C nor while runs wait in a queue are policies trained on rewards."""
    write_short_suite(tmp_path / "short")
    (tmp_path / "out").mkdir()
    monkeypatch.setattr(sweep, "carry_out", lambda *_, **__: sweep.SweepOutcome(**outcome))
    monkeypatch.setattr(rewards, "measure_rewards", lambda *_, **__: pytest.fail("measured"))
    done = CliRunner().invoke(
        app,
        ["run", "--algo", "random", "--suite", str(tmp_path / "short"), "--seeds", "2",
         "--out", str(tmp_path / "out"), "--reward-board", *form],
    )  # fmt: skip
    assert done.exit_code == (130 if "left" in outcome else 0), done.output
    if form:
        assert "rewards" not in json.loads(done.stdout)
    if form or "queued" in outcome:
        assert "no reward board yet: 2 of 2 runs are not done" in done.stderr
