"""The tutorials on PushT run: own demonstrations, and policies of LeRobot.

Nobody sits at the mouse. Where a person records, the planner of PushT chooses the place of the
pointer, and the session behind the page does the rest.
"""

import re
import shlex
import shutil
import subprocess
import sys
from contextlib import closing
from math import comb
from pathlib import Path

import pytest
import torch as th
from support.command import call_imitbench
from support.command_lines import with_options
from support.evaluation import short_evaluation, short_training
from typer.testing import CliRunner

from imitbench.cli.main import app
from imitbench.data.inspection import inspect_demonstrations
from imitbench.data.sources import open_trajectories
from imitbench.experts.lookup import find_environment
from imitbench.experts.measurement import spaces_of
from imitbench.policies.pusht_planner import PushTPlannerPolicy
from imitbench.recording.controls import Inputs
from imitbench.recording.episode_store import EpisodeStore
from imitbench.recording.session import Session
from imitbench.recording.task import controls_for, make_task
from imitbench.stats.proportions import exact_p_value, wilson_interval

DOCS = Path(__file__).parents[1] / "docs"
POLICIES = Path(__file__).parent / "policies" / "robot_policies"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PUSHT = "gym_pusht/PushT-v0"
INSTALL = "pip install 'imitbench[pusht]'"


def page(name):
    return (DOCS / "tutorials" / f"{name}.md").read_text()


def record(folder, episodes):
    """Records PushT in a session whose pointer is where the planner wants to go."""
    spec = find_environment(PUSHT).evaluated
    task = make_task(
        spec, controls_for(spec, None),
        rate_hz=None, goal=episodes, undo_s=2.0, seed=0, success=None,
    )  # fmt: skip
    room = spaces_of(spec)
    planner = PushTPlannerPolicy(room.observation_space, room.action_space)
    th.manual_seed(0)
    with closing(EpisodeStore(folder, task.spec.id, task.stored_kwargs)) as store:
        session = Session(task, store)
        steps = 0
        while session.phase != "complete":
            memory = None
            while session.phase in ("ready", "running"):
                place, memory = planner.predict(session._draft.obs[-1], memory)
                steps += session.tick(Inputs(pointer=tuple((place / 512).tolist())), steps / 10)
            assert session.state()["success"]
            session.perform("keep")
        session.close()


@pytest.mark.slow
def test_own_demonstrations_lead_to_a_verdict(tmp_path, monkeypatch):
    pytest.importorskip("gym_pusht")
    monkeypatch.chdir(tmp_path)
    smaller = {
        "run": {"--seeds": "1", "--executor": "inline", "--jobs": "1"},
        "eval": {"--episodes": "3"},
        "compare": {"--replicates": "200"},
    }
    printed, runs = {}, {}
    for language, code in BLOCK.findall(page("own_pusht")):
        assert language == "bash"
        for line in code.splitlines():
            if line == INSTALL:
                continue
            program, *words = shlex.split(line)
            assert program == "imitbench"
            if words[0] == "record":
                assert words == ["record", "--env", PUSHT, "--episodes", "20"]
                record(Path("recorded/gym_pusht-PushT-v0"), 3)
                continue
            words = [
                runs.get(word, word) for word in with_options(words, smaller.get(words[0], {}))
            ]
            with short_evaluation(), short_training(batches=20):
                done = CliRunner().invoke(app, words, standalone_mode=False)
            assert done.exception is None, (line, done.exception)
            printed[words[0]] = done.stdout
            if words[0] == "sql":
                rows = [row.split() for row in done.stdout.splitlines()[2:]]
                runs = {"BC": rows[0][0], "DIFFUSION": rows[1][0]}
                assert [row[1] for row in rows] == ["bc", "diffusion_policy"]
    card = Path("my_pusht/suite.yaml").read_text()
    assert "batches: 4000\n" in card  # as the page says
    assert "key: is_success\n" in card
    found = inspect_demonstrations(open_trajectories(Path("recorded/gym_pusht-PushT-v0")))
    assert (found.rows, found.problems) == (3, [])
    assert "Success" in printed["report"]
    assert "undecided" in printed["compare"]
    assert "difference in success" in printed["eval"]


@pytest.mark.slow
def test_two_folders_of_lerobot_become_a_table(tmp_path):
    pytest.importorskip("gym_pusht")
    for name, folder in (("act", "act"), ("diffusion", "diffusion_ddim")):
        shutil.copytree(POLICIES / folder, tmp_path / name)
    printed = ""
    for language, code in BLOCK.findall(page("lerobot_table")):
        if language == "text":
            assert code.strip() in printed
            continue
        if language == "python":
            printed = subprocess.run(
                [sys.executable, "-c", code],
                capture_output=True, text=True, check=True, cwd=tmp_path,
            ).stdout  # fmt: skip
            continue
        [line] = code.splitlines()
        if line == INSTALL:
            continue
        line, _, file = line.partition(" > ")
        program, *words = shlex.split(line)
        assert program == "imitbench"
        if "--race" in words:
            words = with_options(words, {"--batch": "2", "--max-episodes": "4"})
        elif "diffusion" in words and not file:
            words = with_options(words, {"--episodes": "4"})
        done = call_imitbench(*words, cwd=tmp_path)
        assert done.code == (0 if "--observation-key" in words else 2), done.err
        printed = done.out + done.err
        if file:
            (tmp_path / file).write_text(done.out)
        if "--race" in words:
            assert "act is undecided against diffusion" in done.err


def test_the_intervals_and_tests_of_the_tutorials_are_right():
    shares = {"half": 0.5, "90 %": 0.9, "all": 1.0}
    rows = re.findall(r"^\| (half|90 %|all) \| (.*) \|$", page("own_pusht"), re.MULTILINE)
    assert [name for name, _ in rows] == list(shares)
    for name, cells in rows:
        for episodes, cell in zip((20, 50, 200), cells.split(" | "), strict=True):
            due = wilson_interval(round(shares[name] * episodes), episodes)
            assert cell == f"{due.low:.2f} to {due.high:.2f}"
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\d+) \|$", page("lerobot_table"), re.MULTILINE)
    assert len(rows) == 4
    for episodes, one, other in (map(int, row) for row in rows):
        assert one == episodes / 2
        assert exact_p_value((other, episodes), (one, episodes)) < 0.05
        assert exact_p_value((other - 1, episodes), (one, episodes)) >= 0.05
    for seeds, stated in ((3, "0.10"), (4, "0.03"), (5, "0.008")):
        least = 2 / comb(2 * seeds, seeds)
        assert f"p = {stated}" in page("own_pusht")
        assert float(stated) == round(least, len(stated) - 2)
