"""Experts of earlier versions of MuJoCo's tasks act in the current one where the spaces agree."""

import json
import re
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import SAC
from support.command import call_imitbench, refusal

import imitbench

TABLE = (Path(imitbench.__file__).parents[1] / "docs" / "hub.md").read_text()
ROWS = re.findall(r"^\| (\w+) \| (\d+) \| (\d+) \| (\d+) \| (\w+)", TABLE, re.MULTILINE)


class Task(gym.Env):
    """Has the spaces of an earlier version, and no simulator."""

    def __init__(self, entries, actions):
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (entries,), np.float64)
        self.action_space = gym.spaces.Box(-1, 1, (actions,), np.float32)

    def reset(self, *, seed=None, options=None):
        return np.zeros(self.observation_space.shape), {}


def save(path, entries, actions):
    SAC("MlpPolicy", Task(entries, actions), policy_kwargs={"net_arch": [4]}).save(path)


@pytest.mark.filterwarnings("ignore:.*is out of date:DeprecationWarning")
@pytest.mark.parametrize(("task", "early", "fourth", "fifth", "acts"), ROWS)
def test_the_table_has_the_sizes_of_observations(task, early, fourth, fifth, acts):
    sizes = {"-v4": int(fourth), "-v5": int(fifth)}
    for version, size in sizes.items():
        if f"{task}{version}" == "Pusher-v4":
            continue  # its model is not one of the installed simulator's any more
        env = gym.make(f"{task}{version}")
        assert env.observation_space.shape == (size,)
        env.close()
    assert acts == ("yes" if early == fifth else "no")


def test_all_tasks_are_in_the_table():
    known = {
        name.removesuffix("-v5")
        for name, spec in gym.registry.items()
        if name.endswith("-v5") and "mujoco" in str(spec.entry_point)
    }
    assert {row[0] for row in ROWS} == known


def test_ants_of_the_fourth_version_need_an_argument():
    env = gym.make("Ant-v5", include_cfrc_ext_in_observation=False)
    assert env.observation_space.shape == (27,)


@pytest.mark.slow
@pytest.mark.parametrize(("task", "entries", "actions"), [("Hopper", 11, 3), ("Swimmer", 8, 2)])
def test_zips_act_where_the_spaces_agree(tmp_path, task, entries, actions):
    folder = tmp_path / f"sac-{task}-v3"
    folder.mkdir()
    save(folder / f"sac-{task}-v3.zip", entries, actions)
    words = ("experts", "eval", folder, "--env", f"{task}-v5", "--episodes", "2")
    found = json.loads(call_imitbench(*words, "--json", cwd=tmp_path).out)
    assert found["published"] is None
    assert "other_version" not in found
    index = (
        f"---\nmodel-index:\n- results:\n  - dataset: {{name: {task}-v3}}\n    metrics:\n"
        "    - {type: mean_reward, value: 2266.78 +/- 1121.81}\n---\n"
    )
    (folder / "README.md").write_text(index)
    answer = call_imitbench(*words, cwd=tmp_path)
    assert answer.code == 0, answer
    assert (
        f"trained on {task}-v3, measured on {task}-v5: published 2266.78; returns of versions "
        "differ, so they are not compared"
    ) in answer.err
    found = json.loads(call_imitbench(*words, "--json", cwd=tmp_path).out)
    assert found["other_version"] == f"{task}-v3"
    assert found["published"]["mean_return"] == 2266.78
    assert "agrees" not in found["published"]


@pytest.mark.slow
def test_zips_with_other_spaces_are_refused_in_one_line(tmp_path):
    save(tmp_path / "sac-Ant-v3.zip", 111, 8)
    for words in (
        ("experts", "eval", "sac-Ant-v3.zip", "--env", "Ant-v5"),
        ("train", "imitation", "bc", "--env", "Ant-v5", "--expert", "sac-Ant-v3.zip"),
    ):
        line = refusal(call_imitbench(*words, cwd=tmp_path))
        assert "made for observations of 111 numbers, but the environment has 105" in line
    assert [path.name for path in tmp_path.iterdir()] == ["sac-Ant-v3.zip"]


@pytest.mark.slow
def test_an_expert_of_rl_zoo_acts_in_the_current_version(tmp_path, shared_dir):
    folder = shared_dir / "hub-fixtures/rl-zoo/ppo-HalfCheetah-v3"
    words = ("experts", "eval", folder, "--env", "HalfCheetah-v5", "--episodes", "3",
             "--deterministic", "--json")  # fmt: skip
    found = json.loads(call_imitbench(*words, cwd=tmp_path).out)
    assert found["other_version"] == "HalfCheetah-v3"
    assert found["mean_return"] == pytest.approx(5900, abs=200)
