"""A method from outside sees no true reward, unless its card asks for them; records say so."""

import dataclasses
import json

import gymnasium as gym
import numpy as np
import pytest
from support.disk_works import tiny_plan
from support.observer import Recorder
from support.plans import make_plan
from support.plugins import PPO_OPTIONS, write_plugin

from imitbench.bench import training, training_setup
from imitbench.bench.checkpoint import CheckpointManager
from imitbench.bench.curve import EpisodeLog
from imitbench.bench.environments import make_training_environments
from imitbench.bench.hidden_parts import (
    HiddenReward,
    hidden_environment_rewards,
    hide_demo_rewards,
)
from imitbench.bench.provenance import isolation_of, remember_verdict
from imitbench.bench.sweep import run_sweeps
from imitbench.bench.worker_death import JobWorker
from imitbench.cards.catalog import suite_directory
from imitbench.cards.wrappers import RandomStart
from imitbench.executors.inline import InlineExecutor
from imitbench.executors.options import RunOptions
from imitbench.experts.lookup import find_environment
from imitbench.records.bundled_cards import is_isolated
from imitbench.records.runs import Budget, Protocol, Provenance
from imitbench.store.run_dir import RunDirectory

SEES = """
import os
from pathlib import Path

import gymnasium as gym

from imitbench.bench.environments import make_training_environments
from imitbench.bench.learners.controls import ZeroRewardLearner


class Mine(ZeroRewardLearner):
    def make_trainer(self, task, demos, rng):
        alone = gym.make(task.environment.id)
        alone.reset(seed=0)
        venv = make_training_environments(task.environment, 1, 0)
        venv.reset()
        seen = [demos[0].rews[0], alone.step(alone.action_space.sample())[1]]
        done = False
        while not done:
            _, rewards, [done], [info] = venv.step([venv.action_space.sample()])
        seen += [rewards[0], info["episode"]["r"]]
        Path(os.environ["SEEN"]).write_text(" ".join(map(str, map(float, seen))))
        return super().make_trainer(task, demos, rng)
"""


# Each round is one episode in each environment.
EPISODES = "n_steps: {type: int, default: 200"


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def planned(folder):
    return make_plan(
        algorithms=[str(folder)],
        suite="classic",
        environment="Pendulum-v1",
        seeds=[0],
        budget="quick",
    )


@pytest.fixture
def train(monkeypatch, tmp_path):
    """Trains a method that notes what it sees; returns that, and the returns of its curve."""

    def train(needs=""):
        monkeypatch.setenv("SEEN", str(tmp_path / "seen.txt"))
        folder = write_plugin(
            tmp_path / f"mine{len(needs)}",
            SEES,
            unit="env_steps",
            needs=needs,
            options=PPO_OPTIONS.replace("n_steps: {type: int, default: 50", EPISODES),
        )
        [spec] = planned(folder)
        config = dataclasses.replace(
            training_setup.TrainingConfig.of(spec),
            budget=Budget(name="quick", unit="env_steps", amount=800),
            protocol=Protocol(episodes=1, environments=1),
            transfer=False,
        )
        directory = RunDirectory(tmp_path / f"run{len(needs)}")
        directory.path.mkdir()

        def load():
            return training_setup.TrainingInputs.of(spec, suite_directory("classic"))

        training.run_trainings(
            [training_setup.Training(config, load, directory)],
            CheckpointManager(directory.checkpoints, 1e9),
            training.Monitor(),
        )
        curve = [json.loads(line) for line in directory.curve.read_text().splitlines()]
        seen = [float(each) for each in (tmp_path / "seen.txt").read_text().split()]
        return seen, [point["rollout/return_mean"] for point in curve]

    return train


def test_a_method_sees_no_reward_and_its_curve_still_has_returns(train):
    seen, returns = train()
    assert len(seen) == 4
    assert np.isnan(seen).all()
    assert len(returns) == 2
    assert all(-2000 < each < 0 for each in returns)  # Pendulum's true returns


def test_a_method_whose_card_asks_for_rewards_sees_the_same_as_the_curve(train):
    _, returns = train()
    seen, again = train(needs=", true_reward: true")
    assert np.isfinite(seen).all()
    assert returns == again


def test_a_run_records_it(tmp_path):
    executor = InlineExecutor(JobWorker())
    plan, out = tiny_plan(), tmp_path / "runs"
    given = {"out": out, "command": "imitbench run", "observer": Recorder()}
    run_sweeps([plan], executor, options=RunOptions(), **given)
    for spec in plan:
        assert RunDirectory.of(out, spec).read_result().provenance.isolation == "tested"


def test_methods_of_this_package_get_demonstrations_without_rewards():
    [spec] = planned("bc")
    view = training_setup.TrainingConfig.of(spec).rewards
    assert view == "environment"
    demos = training_setup.TrainingInputs.of(spec, suite_directory("classic")).demos
    shown = hide_demo_rewards(demos, view)
    assert all(np.isnan(each.rews).all() for each in shown)
    assert all(np.array_equal(one.obs, two.obs) for one, two in zip(shown, demos, strict=True))
    asks = spec.model_copy(update={"uses_reward": True})
    assert training_setup.TrainingConfig.of(asks).rewards == "all"
    assert isolation_of(spec) == "tested"
    assert is_isolated(spec, None) is True
    assert is_isolated(spec.model_copy(update={"uses_reward": True}), "tested") is False


def test_a_run_states_what_check_algo_found(tmp_path):
    [spec] = planned(write_plugin(tmp_path / "mine"))
    digest = spec.implementation_digest
    found = []
    for verdict in (True, False, None):
        remember_verdict(digest, isolated=verdict)
        found.append((isolation_of(spec), is_isolated(spec, isolation_of(spec))))
    assert found == [("checked", True), ("peeks", False), ("unchecked", False)]
    assert is_isolated(spec, None) is None  # a record from before runs stated it
    program = spec.model_copy(
        update={"implementation": "imitbench.bench.learners.command:CommandLearner"}
    )
    assert isolation_of(program) == "program"
    assert is_isolated(program, "program") is False


def test_records_that_do_not_state_it_keep_their_bytes(tmp_path):
    known = {"imitbench": "0.2.0", "git_sha": None, "python": "3.11", "packages": {}}
    known |= {"host": "", "cpu": "", "gpu": None, "command": ""}
    assert Provenance(**known).model_dump() == known
    assert Provenance(**known, isolation="tested").model_dump()["isolation"] == "tested"


def test_parts_of_the_reward_are_hidden_in_every_kind_of_info():
    class Env(gym.Env):
        observation_space = action_space = gym.spaces.Discrete(2)

        def step(self, action):
            info = {
                "reward": 3, "reward_terms": np.array([1, 2]), "won": True, "lives": 2,
                "rewards": {"near": 0.5, "far": 2}, "parts": [1.5, {"reward_far": 2}],
                "place": (4,),
            }  # fmt: skip
            return 0, 3, False, False, info

    *_, info = HiddenReward(Env()).step(0)
    nan = float("nan")
    np.testing.assert_equal(
        info,
        {
            "reward": nan, "reward_terms": np.array([nan, nan]), "won": True, "lives": 2,
            "rewards": {"near": nan, "far": nan}, "parts": [1.5, {"reward_far": nan}],
            "place": (4,),
        },
    )  # fmt: skip


def returns_of_curve(env_id, view, length):
    spec = find_environment(env_id).model_copy(
        update={
            "wrappers": [RandomStart(name="random_start", steps=20)],
            "kwargs": {"max_episode_steps": length},
        }
    )
    with hidden_environment_rewards(spec.gym_id, view):
        venv = EpisodeLog(make_training_environments(spec, 1, 0))
    venv.reset()
    found = []
    for _ in range(60):
        venv.step(np.array([venv.action_space.sample() * 0]))
        found += venv.pop().values()
    return found


# Falls over during some random starts, and then begins anew.
@pytest.mark.parametrize("env_id", ["Pendulum-v1", "CartPole-v1"])
def test_random_starts_do_not_count_where_rewards_are_hidden(env_id):
    shown = returns_of_curve(env_id, "all", 15)
    assert len(shown) >= 9
    assert returns_of_curve(env_id, "none", 15) == pytest.approx(shown)
