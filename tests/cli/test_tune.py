"""`imitbench tune`: what it refuses and writes, and that it survives kills."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from support.short_suite import write_short_suite

from imitbench.cards.tuned import read_tuned
from imitbench.cli.main import main

CHEAP = (
    "tune", "--algo", "bc", "--env", "Pendulum-v1", "--budget", "quick", "--set", "hidden_layers=1",
    "--search-seeds", "100", "--checkpoint-minutes", "0",
)  # fmt: skip


@pytest.fixture
def here(tmp_path, monkeypatch, capsys):
    """Runs the command in this process, in an empty folder; gives code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["imitbench", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return ended.value.code, captured.out, captured.err

    return call


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--algo: name the algorithm to tune"),
        (["--algo", "bd"], "did you mean 'bc'"),
        (["--algo", "all"], "--algo all: tuning takes one at a time"),
        (["--algo", "random"], "its card has no search space"),
        (["--algo", "bc", "--n-demos", "1,2"], "one at a time"),
        (["--algo", "bc", "--search-seeds", "x"], "--search-seeds x: must be seeds and ranges"),
        (["--algo", "bc", "--held-out-seeds", "102"], "102 also in --search-seeds"),
        (["--algo", "bc", "--name", "../there"], "--name ../there: must name a folder"),
        (["--algo", "bc", "--objective", "episode-length"], "same length"),
        (["--algo", "dagger", "--objective", "demo-likelihood"], "no demonstrations"),
        (["--algo", "mce_irl"], "tabular"),
        (["--algo", "bc", "--trials", "0"], "--trials"),
        (["--algo", "bc", "--objective", "reward"], "'return', 'demo-likelihood'"),
        (["--algo", "bc", "--profile", "p.yaml"], "works only with --executor slurm"),
        (["--show"], "nothing was tuned there"),
        (["--show", "--algo", "bc"], "bc-classic: nothing was tuned there"),
    ],
)
def test_bad_input_is_refused_in_one_line_before_anything_is_written(
    here, tmp_path, arguments, said
):
    code, out, err = here("tune", *arguments)
    assert (code, out) == (2, "")
    [line] = err.splitlines()
    assert line.startswith("error: ")
    assert said in line
    assert not list(tmp_path.iterdir())


def test_runs_refuse_an_invalid_file_of_values(here, tmp_path):
    code, _, err = here("run", "--algo", "bc", "--config", "absent.yaml")
    assert code == 2
    assert "--config absent.yaml: must be default, tuned, or a file" in err


def test_a_tuning_reports_each_trial_and_the_winner(here, tmp_path):
    suite = write_short_suite(tmp_path / "short")
    command = (*CHEAP, "--suite", suite, "--executor", "inline", "--held-out-seeds", "200",
               "--best", 1)  # fmt: skip
    code, out, err = here(*command, "--set", "batch_size=16", "--trials", 2)
    assert code == 0, err
    told = err.splitlines()
    assert told[0].startswith("bc: 2 trials of each of 1 environment, maximizing return (uses rew")
    assert [line[:18] for line in told if line.startswith("[")] == [
        "[1/2] Pendulum-v1:", "[2/2] Pendulum-v1:", "[held out 1/2] Pen", "[held out 2/2] Pen",
    ]  # fmt: skip
    assert "On held-out seeds:" in out
    decision = "not better" if "does not beat the default" in err else "undecided"
    assert "Pendulum-v1: nothing written" in err  # one seed cannot show an improvement
    assert here("tune", "--show") == (0, out, "")
    [study] = json.loads(here("tune", "--show", "--json")[1])["studies"]
    assert [trial["number"] for trial in study["trials"]] == [0, 1]
    assert (study["held_out"]["decision"], study["written"]) == (decision, None)
    code, _, err = here(*command, "--set", "batch_size=16", "--trials", 2)
    assert (code, "Pendulum-v1: 2 of 2 trials finished before" in err) == (0, True)


def start(cwd, *arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "imitbench", *map(str, arguments)],
        cwd=cwd,
        env=dict(os.environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_line(process, beginning):
    for line in process.stderr:
        if line.startswith(beginning):
            return
    raise AssertionError(f"it ended without a line {beginning}")


@pytest.mark.slow
def test_a_killed_tuning_resumes_and_says_whether_it_helped(imitbench, here, tmp_path):
    command = [*CHEAP, "--trials", 8, "--jobs", 2, "--held-out-seeds", "200-202", "--best", 1]
    delays = [random.uniform(2, 15) for _ in range(2)]
    for delay in delays:
        killed = start(tmp_path, *command)
        time.sleep(delay)
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
    answer = imitbench(*command, "--json")
    assert answer.code == 0, answer.err
    [study] = json.loads(answer.out)["studies"]
    trials = study["trials"]
    assert [each["number"] for each in trials] == list(range(8)), delays
    assert {each["state"] for each in trials} <= {"complete", "pruned"}
    assert (study["objective"], study["uses_reward"]) == ("return", True)
    folder = tmp_path / "runs" / ".tuning" / "bc-classic-quick"
    results = list(folder.glob("*/search/*/*/*/*/*/result.json"))
    assert len(results) == sum(each["state"] == "complete" for each in trials)
    file = folder / "tuned.yaml"
    decision = study["held_out"]["decision"]
    assert file.exists() == (decision == "better") == (study["written"] is not None)
    words = {"better": "beats the default", "undecided": "undecided", "not better": "does not beat"}
    assert words[decision] in answer.err

    again = imitbench(*command, "--keep-anyway", "--to", "mine.yaml", "--json")
    assert json.loads(again.out)["studies"][0]["trials"] == trials
    found = read_tuned(tmp_path / "mine.yaml").environments["Pendulum-v1"]
    assert found.tuning.verdict == decision
    assert found.tuning.uses_reward
    assert found.values["hidden_layers"] == 1
    code, out, _ = here("tune", "--show")
    assert code == 0
    assert "objective return (uses reward)" in " ".join(out.split())
    assert "On held-out seeds:" in out
    code, out, err = here("run", "--algo", "bc", "--config", "mine.yaml", "--dry-run", "--json")
    assert code == 0, err
    assert "Pendulum-v1" in out


@pytest.mark.slow
def test_ctrl_c_says_how_to_resume(imitbench, tmp_path):
    command = [*CHEAP, "--trials", 3, "--jobs", 2, "--held-out-seeds", "200", "--best", 1]
    process = start(tmp_path, *command)
    wait_for_line(process, "[1/3]")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert "the same command continues: finished trials are kept" in err
    answer = imitbench(*command)
    assert answer.code == 0, answer.err
    assert "of 3 trials finished before" in answer.err
