"""`imitbench race`: refuses bad input, survives kills, and prints verdicts."""

import json
import os
import signal
import subprocess
import sys

import pytest
import yaml
from support.evaluation import short_evaluation
from support.plugins import write_plugin
from support.races import LEVELS, Training, carry_out, draw, planned
from support.short_suite import write_short_suite

import imitbench
from imitbench.cli.main import main
from imitbench.store.races import read_races

FAST = ("--env", "Pendulum-v1", "--budget", "quick")


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


def test_methods_may_also_be_given_as_for_run(here):
    code, out, err = here("race", "--algo", "sqil", "--baseline", "bc", *FAST, "--dry-run")
    assert code == 0, err
    assert "sqil" in out
    code, _, err = here("race", "--baseline", "bc", *FAST)
    assert (code, "imitbench race NEW --baseline bc" in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["sqil", "--baseline", "bc", "--margin", "0"], "--margin 0: must be above 0"),
        (["sqil", "--baseline", "bc", "--margin", "nan"], "--margin nan: must be above 0"),
        (["sqil", "--baseline", "bc", "--batch", "41"], "--batch 41: is above --max-seeds 40"),
        (["sqil", "--baseline", "bc", "--batch", "1"], "--batch 1: must be at least 2"),
        (["sqil", "--baseline", "bc", "--alpha", "1"], "--alpha 1: must be between 0 and 1"),
        (["sqil", "--baseline", "bc", "--alpha", "1e-12"], "--alpha 1e-12: must be between 0 and"),
        (["sqil", "--baseline", "bc", "--alpha", "1e-10"], "is too small for 6 tests; compare"),
        (["sqil", "--baseline", "bc", "--max-seeds", "9999999"], "--max-seeds 9999999: at most"),
        (["sqil", "--baseline", "sqil"], "--baseline sqil: is also the method to compare"),
        (["sqil", "--baseline", "bd"], "did you mean 'bc'"),
        (["sqil", "--baseline", "bc", "--n-demos", "1,2"], "a race takes one at a time"),
        (["mce_irl", "--baseline", "bc"], "no environment fits all methods"),
        (["sqil"], "--baseline"),
        (["sqil", "--baseline", "bc", "--acting", "often"], "--acting"),
        (["sqil", "--baseline", "bc", "--scores", "runs"], "works only with --simulate"),
        (["sqil", "--baseline", "bc", "--draws", "20"], "--draws 20: works only with --simulate"),
        (["sqil", "--baseline", "bc", "--simulate", "--scores", "normal:x"], "must be normal:DIFF"),
        (
            ["sqil", "--baseline", "bc", "--simulate", "--scores", "none"],
            "--scores none: no such file",
        ),
        (["sqil", "--baseline", "bc", "--simulate"], "runs: no such folder"),
    ],
)
def test_bad_input_is_refused_in_one_line_before_anything_is_written(
    here, tmp_path, arguments, said
):
    code, out, err = here("race", *arguments)
    assert (code, out) == (2, "")
    [line] = err.splitlines()
    assert line.startswith("error: ")
    assert said in line
    assert not list(tmp_path.iterdir())


def test_a_dry_run_prints_the_cost_and_registers_nothing(here, tmp_path):
    code, out, err = here("race", "bc", "--baseline", "random", *FAST, "--dry-run")
    assert code == 0
    assert out.splitlines()[2].split()[:2] == ["bc", "Pendulum-v1"]
    assert "at most; a race ends as soon as all is decided" in err
    assert not (tmp_path / "runs").exists()


def start(cwd, *arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "imitbench", *arguments],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
    )


def kill_after(process, beginning):
    for line in process.stderr:
        if line.startswith(beginning):
            process.send_signal(signal.SIGKILL)
            process.communicate()
            return
    raise AssertionError(process.communicate())


@pytest.mark.slow
def test_a_race_killed_twice_ends_with_the_same_verdict(here, tmp_path):
    race = ("race", "bc", "--baseline", "random", *FAST, "--batch", "2", "--max-seeds", "4")
    race += ("--set", "bc.hidden_layers=1", "--checkpoint-minutes", "0")
    whole = here(*race, "--json", "--out", "whole")
    kill_after(start(tmp_path, *race, "--out", "killed"), "[1/4]")
    kill_after(start(tmp_path, *race, "--out", "killed"), "look 2")
    code, out, _ = here("resume", "--json", "--out", "killed")
    assert (whole[0], code) == (0, 0)
    [killed] = json.loads(out)["races"]
    uninterrupted = json.loads(whole[1])
    for part in ("design", "verdicts", "looks", "seeds", "over"):
        assert killed[part] == uninterrupted[part]
    assert killed["verdicts"][0]["verdict"] == "better"
    assert len(list((tmp_path / "killed").glob("classic/*/*/*/result.json"))) == 8


@pytest.mark.slow
def test_a_copy_of_a_method_is_never_better(here, tmp_path):
    write_plugin(tmp_path / "one", name="one")
    write_plugin(tmp_path / "two", name="two")
    with short_evaluation():
        code, out, _ = here(
            "race", "./one", "--baseline", "./two", *FAST, "--batch", "2", "--max-seeds", "4",
            "--executor", "inline", "--json",
        )  # fmt: skip
    assert code == 0
    [verdict] = json.loads(out)["verdicts"]
    assert verdict["verdict"] in ("equivalent", "undecided")


def test_verdicts_and_seeds_are_printed(here, tmp_path):
    carry_out(planned(), tmp_path / "runs")
    code, out, err = here("race", "gail", "--baseline", "bc", *FAST, "--batch", "3",
                          "--max-seeds", "12")  # fmt: skip
    assert code == 0
    rows = [line.split() for line in out.splitlines()]
    assert rows[2][:5] == ["gail", "bc", "overall", "worse", "6"]
    assert ["gail", "Pendulum-v1", "6", "11", "45%"] in rows
    assert "decided with 6 seeds: gail is worse than bc: -0." in err


def test_resume_goes_on_with_open_races_and_keeps_over_ones(here, tmp_path):
    out = tmp_path / "runs"
    carry_out(planned(), out, Training(out, stop_after=9))
    code, printed, _ = here("resume", "--dry-run")
    assert code == 0
    assert "bc" in printed
    carry_out(planned(), out)
    assert here("resume") == (0, "", "nothing is missing in runs\n")
    assert len(read_races(out)) == 1


def test_resume_names_a_race_that_cards_no_longer_give(here, tmp_path):
    out = tmp_path / "runs"
    carry_out(planned(), out, Training(out, stop_after=2))
    [path] = out.glob(".races/*/request.json")
    path.write_text(path.read_text().replace('"budget": "quick"', '"budget": "full"'))
    code, _, err = here("resume")
    assert code == 1
    assert "skipped: race of gail against bc" in err
    assert "have changed since it was registered" in err


def test_resume_names_a_race_whose_second_reference_is_gone(here, tmp_path):
    suite = write_short_suite(tmp_path / "own")
    race = planned(suite="./own", acting=None)
    assert race.race.design.acting == "both"
    carry_out(race, tmp_path / "runs", Training(tmp_path / "runs", stop_after=2))
    card = suite / "suite.yaml"
    document = yaml.safe_load(card.read_text())
    del document["environments"]["Pendulum-v1"]["references"]["expert_likely"]
    card.write_text(yaml.safe_dump(document))
    code, _, err = here("resume", "--suite", suite)
    assert code == 1
    [line] = [line for line in err.splitlines() if "skipped: race" in line]
    assert "have changed since it was registered" in line


def test_a_simulation_prints_chances_and_cost_of_several_designs(here, tmp_path):
    race = ("race", "gail", "--baseline", "bc", *FAST, "--max-seeds", "12", "--draws", "20")
    code, out, _ = here(*race, "--simulate", "--scores", "normal:0.5,0.02", "--json")
    assert code == 0
    designs = json.loads(out)["designs"]
    assert {(each["batch"], each["max_seeds"]) for each in designs} == {
        (5, 12), (3, 12), (10, 12), (5, 6), (3, 6)
    }  # fmt: skip
    assert all(each["better"] == 1 for each in designs)
    assert min(each["runs"] for each in designs) == 10  # two methods, the first batch of 5
    assert all(each["core_hours"] > 0 for each in designs)
    assert not list(tmp_path.iterdir())


def test_a_simulation_draws_from_existing_runs(here, tmp_path):
    carry_out(planned(), tmp_path / "before")
    race = ("race", "gail", "--baseline", "bc", *FAST, "--max-seeds", "12", "--draws", "20")
    code, out, _ = here(*race, "--simulate", "--scores", "before", "--json")
    assert code == 0
    assert json.loads(out)["designs"][0]["worse"] == 1
    code, _, err = here("race", "sqil", "--baseline", "bc", *FAST, "--simulate", "--scores",
                        "before")  # fmt: skip
    assert code == 2
    assert "has 0 runs of sqil on Pendulum-v1" in err


def test_a_simulation_draws_the_scores_of_one_way_of_acting(here, tmp_path):
    write = Training(
        tmp_path / "before", lambda spec: (draw(spec), draw(spec, dict.fromkeys(LEVELS, 1)))
    )
    carry_out(planned(), tmp_path / "before", write)
    race = ("race", "gail", "--baseline", "bc", *FAST, "--max-seeds", "12", "--draws", "20",
            "--simulate", "--scores", "before")  # fmt: skip
    code, out, _ = here(*race, "--acting", "likely", "--json")
    assert code == 0
    assert json.loads(out)["designs"][0]["worse"] < 0.5
    assert json.loads(here(*race, "--json")[1])["designs"][0]["worse"] == 1
    code, _, err = here(*race)
    assert code == 0
    assert "simulated by sampled actions alone; races that decide by both ways take longer" in err


def test_a_simulation_does_not_take_unknown_scores_for_failed_runs(here, tmp_path):
    rows = [f"classic,quick,Pendulum-v1,{algo},{seed},0.{seed}" for algo in ("gail", "bc")
            for seed in range(4)]  # fmt: skip
    (tmp_path / "table.csv").write_text("\n".join(["suite,budget,env,algo,seed,score", *rows]))
    race = ("race", "gail", "--baseline", "bc", *FAST, "--max-seeds", "12", "--draws", "20",
            "--simulate", "--scores", "table.csv")  # fmt: skip
    assert here(*race)[0] == 0
    code, _, err = here(*race, "--acting", "likely")
    assert code == 2
    assert "has 0 runs of gail on Pendulum-v1 with scores of most likely actions" in err


def test_the_python_function_does_the_same(here, tmp_path):
    carry_out(planned(), tmp_path / "runs")
    found = imitbench.race(
        "gail", "bc", env="Pendulum-v1", budget="quick", batch=3, max_seeds=12,
        out=tmp_path / "runs", progress=False,
    )  # fmt: skip
    assert found.over
    [verdict] = found.verdicts
    assert (verdict.method, verdict.verdict, verdict.seeds) == ("gail", "worse", 6)
    assert found.seeds == {("gail", "Pendulum-v1"): 6, ("bc", "Pendulum-v1"): 6}
    assert list(found.to_frame()["verdict"]) == ["worse"]
    both = tmp_path / "both"
    carry_out(planned(acting="both"), both)
    found = imitbench.race(
        "gail", "bc", env="Pendulum-v1", budget="quick", batch=3, max_seeds=12, out=both
    )
    assert found.verdicts[0].by_acting == {"sampled": "worse", "likely": "worse"}
    assert list(found.to_frame()["verdict_likely"]) == ["worse"]
    with pytest.raises(imitbench.InputError, match="acting often: not accepted"):
        imitbench.race("gail", "bc", acting="often")
    with pytest.raises(imitbench.InputError, match="--margin 0: must be above 0"):
        imitbench.race("gail", "bc", margin=0, out=tmp_path / "runs")
