"""`imitbench record`: bad input is one line, and the page can be started and ended."""

import json
import signal

import pytest
import yaml
from support.command import Started

BAD = {
    "unknown environment": ("Nothing-v0", [], "environment Nothing-v0: cannot be created"),
    "no rendering": ("seals/Parabola-v0", [], "--env seals/Parabola-v0 cannot be rendered here"),
    "many numbers": ("Humanoid-v5", [], "--env Humanoid-v5: its actions have 17 numbers"),
    "other observations": ("Blackjack-v1", [], "its observations are a Tuple"),
    "rate": ("Pendulum-v1", ["--rate", "99"], "'--rate': Input should be less than or equal to 60"),
    "controls": ("Pendulum-v1", ["--controls", "none.yaml"], "none.yaml"),
    "success": ("Pendulum-v1", ["--success", "done:never"], "--success done:never: must be"),
    "folder": ("Pendulum-v1", ["--to", "full"], "--to full: holds 'notes', which is no part"),
}


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
