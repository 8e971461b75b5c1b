"""Pages on which a person acts: `imitbench record`, and DAgger by hand."""

import json
import signal

import pytest
import yaml
from support.command import Started
from support.recording_page import FIRST, RIGHT, Tab

BAD = {
    "unknown environment": ("Nothing-v0", [], "environment Nothing-v0: cannot be created"),
    "no rendering": (
        "seals/Parabola-v0", [],
        "--env seals/Parabola-v0 cannot be rendered here: it has no render mode 'rgb_array'",
    ),
    "many numbers": ("Humanoid-v5", [], "--env Humanoid-v5: its actions have 17 numbers"),
    "other observations": ("Blackjack-v1", [], "its observations are a Tuple"),
    "rate": ("Pendulum-v1", ["--rate", "99"], "'--rate': Input should be less than or equal to 60"),
    "controls": ("Pendulum-v1", ["--controls", "none.yaml"], "none.yaml"),
    "success": ("Pendulum-v1", ["--success", "done:never"], "--success done:never: must be"),
    "folder": ("Pendulum-v1", ["--to", "full"], "--to full: holds 'notes', which is no part"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line(case, imitbench, tmp_path):
    env, more, problem = BAD[case]
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes").write_text("")
    ended = imitbench("record", "--env", env, "--no-browser", "--port", "0", *more)
    assert (ended.code, ended.out) == (2, "")
    assert problem in ended.err
    assert ended.err.count("\n") == 1
    assert not (tmp_path / "recorded").exists() or list((tmp_path / "recorded").iterdir()) == []


def test_the_controls_are_shown_and_read_back(imitbench, tmp_path):
    shown = imitbench("record", "--env", "Pendulum-v1", "--show-controls")
    assert (shown.code, shown.err) == (0, "")
    controls = yaml.safe_load(shown.out)
    assert controls["axes"][0]["keys"] == ["ArrowLeft", "ArrowRight"]
    controls["axes"][0]["keys"] = ["a", "d"]
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(controls))
    again = imitbench(
        "record", "--env", "Pendulum-v1", "--controls", "mine.yaml", "--show-controls", "--json"
    )
    assert json.loads(again.out) == controls


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_stopped(sent, tmp_path):
    words = ["record", "--env", "Pendulum-v1", "--no-browser", "--port", "0"]
    process = Started(*words, cwd=tmp_path)
    assert process.stdout.readline().startswith("http://127.0.0.1:")
    process.signal(sent)
    ended = process.end()
    assert ended.code == 0
    assert "recorded/Pendulum-v1: 0 episodes of 10 kept; the same command goes on" in ended.err
    assert list((tmp_path / "recorded").iterdir()) == []


# DAgger by hand.

BY_HAND = (
    "train", "imitation", "dagger", "--expert", "human", "--env", "Pendulum-v1", "--no-browser",
    "--port", "0", "--rate", "60", "--eval-episodes", "2", "--log-dir", "by-hand",
    "--set", "rollout_round_min_episodes=1", "--set", "rollout_round_min_timesteps=10",
    "--set", "batch_size=8", "--set", "hidden_size=8", "--set", "n_envs=1",
)  # fmt: skip


def coach(process, *, until):
    """Keeps parts of episodes until the page reports a phase or a round; returns its last state."""
    line = next(line for line in process.stderr if "correct the policy" in line)
    tab = Tab(line.rpartition(" ")[2].strip(), FIRST)
    while True:
        state, _ = tab.next()
        if until(state):
            tab.leave()
            return state
        if state["phase"] == "ready":
            tab.does(RIGHT)
        elif state["steps"] >= 10 and state["phase"] in ("running", "ended"):
            tab.asks("keep")  # a busy machine may show the state only after the episode's end


def test_dagger_by_hand_is_stopped_resumed_and_measured(imitbench, tmp_path):
    words = (*BY_HAND, "--total-timesteps", "40")
    process = Started(*words, cwd=tmp_path)
    state = coach(process, until=lambda state: state["round"]["number"] == 1)
    assert state["round"]["policy"]
    process.signal(signal.SIGINT)
    ended = process.end()
    assert ended.code == 130
    assert "the same command resumes" in ended.err
    process = Started(*words, cwd=tmp_path)
    coach(process, until=lambda state: state["phase"] == "complete")
    ended = process.end()
    assert ended.code == 0
    assert ended.out.startswith("return ")
    result = json.loads((tmp_path / "by-hand" / "result.json").read_text())
    measures = result["measures"]
    assert measures["expert_share"] == 1.0  # nobody gave back
    assert measures["expert_queries"] == result["env_steps"] > 0
    record = json.loads((tmp_path / "by-hand" / "config.json").read_text())
    assert record["expert"] == {"name": "human"}
    assert imitbench("demos", "validate", "by-hand/recorded").code == 0


NOT_BY_HAND = {
    "another method": ("imitation bc --expert human", "imitbench record"),
    "a gate": ("ensemble-dagger --expert human", "in which the person decides who acts"),
    "no person": ("imitation dagger --rate 20", "--rate: belongs to --expert human"),
    "no rendering": (
        "imitation dagger --expert human --env seals/Parabola-v0", "cannot be rendered here"
    ),
    "no controls": ("imitation dagger --expert human --env Humanoid-v5", "have 17 numbers"),
    "no file of controls": (
        "imitation dagger --expert human --controls keys.yaml", "keys.yaml: cannot be read"
    ),
    "too fast": ("imitation dagger --expert human --rate 5000", "--rate 5000.0: Input should be"),
    "no port": ("imitation dagger --expert human --port 99999", "--port 99999: Input should be"),
}  # fmt: skip


@pytest.mark.parametrize("case", NOT_BY_HAND)
def test_what_a_person_cannot_do_is_one_line(case, imitbench, tmp_path):
    words, problem = NOT_BY_HAND[case]
    env = () if "--env" in words else ("--env", "Pendulum-v1")
    ended = imitbench("train", *words.split(), *env, "--quiet")
    assert (ended.code, ended.out) == (2, "")
    assert problem in ended.err
    assert ended.err.count("\n") == 1
    assert not (tmp_path / "output").exists()
