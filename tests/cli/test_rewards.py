"""`imitbench rewards show`: figures, numbers, and one line for each wrong input."""

import json

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from support.runs import make_spec
from typer.testing import CliRunner

from imitbench.cards.plugins import find_algorithm
from imitbench.cli.main import app
from imitbench.cli.rewards import parse_dims
from imitbench.errors import InputError
from imitbench.policies.base import ZeroPolicy
from imitbench.policies.storage import save_policy
from imitbench.rewards.networks import BasicRewardNet
from imitbench.rewards.storage import save_reward
from imitbench.store.run_dir import RunDirectory
from imitbench.templates.writing import write_template
from imitbench.util import source_import
from imitbench.util.source_import import import_source

PENDULUM = gym.make("Pendulum-v1")


def net_of(env=PENDULUM, **more):
    th.manual_seed(0)
    return BasicRewardNet(env.observation_space, env.action_space, **more)


def policy_of(env=PENDULUM):
    from stable_baselines3.common.policies import ActorCriticPolicy

    th.manual_seed(0)
    return ActorCriticPolicy(env.observation_space, env.action_space, lambda _: 0.0)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A working directory with a run that has a reward, one without, and a reward alone."""
    monkeypatch.chdir(tmp_path)
    for algo in ("airl", "bc"):
        spec = make_spec(algo=algo, seed=3)
        run = RunDirectory.of(tmp_path / "runs", spec)
        run.path.mkdir(parents=True)
        (run.path / "spec.json").write_text(spec.model_dump_json())
        save_policy(policy_of(), run.policy)
        if algo == "airl":
            save_reward(net_of(use_action=False), run.reward)
        (tmp_path / f"{algo}.id").write_text(spec.run_id)
    save_reward(net_of(), tmp_path / "alone")
    return tmp_path


def call(*words):
    return CliRunner().invoke(app, ["rewards", "show", *words], standalone_mode=False)


def document(*words):
    done = call(*words, "--json", "--episodes", "1")
    assert done.exception is None, done.exception
    return json.loads(done.stdout)


def test_a_run_is_drawn_with_expert_policy_and_random_actions(place):
    run = (place / "airl.id").read_text()
    done = call(run[:8], "--episodes", "1")
    assert done.exception is None, done.exception
    assert (place / "reward.png").read_bytes()[1:4] == b"PNG"
    for words in ("expert", "policy", "random actions", "sin(angle)", "Spearman"):
        assert words in done.stdout
    with pytest.raises(InputError, match=r"--to reward\.png: already exists"):
        raise call(run).exception


def test_the_numbers_are_one_document(place):
    run = str(next((place / "runs/classic/airl").glob("*/*")))
    first = document(run)
    assert first["seed"] == 3
    assert first["file"] is None
    assert not list(place.glob("*.png"))
    assert [each["behavior"] for each in first["episodes"]] == [
        "expert",
        "policy",
        "random actions",
    ]
    assert all(-1 <= each["spearman"] <= 1 for each in first["episodes"])
    shares = {each["name"]: each["share"] for each in first["sensitivity"]}
    assert shares["action"] == 0  # the network does not see it
    assert shares["sin(angle)"] > 0
    assert first["map"]["action"] == "the most likely one of the run's policy"
    assert document(run) == first
    assert document(f"{run}/reward") == first
    assert document(run, "--seed", "4") != first
    assert document(run, "--to", "a.svg")["file"] == "a.svg"
    assert (place / "a.svg").is_file()


def test_a_reward_alone_needs_its_environment(place):
    found = document("alone", "--env", "Pendulum-v1", "--dims", "0,2")
    assert [each["behavior"] for each in found["episodes"]] == ["expert", "random actions"]
    assert found["map"]["true"] is None
    assert found["map"]["x"]["name"] == "cos(angle)"
    with pytest.raises(
        InputError, match=r"alone: does not state its environment; name it by --env"
    ):
        raise call("alone").exception


class Pictures(gym.Env):
    observation_space = spaces.Box(0, 255, (8, 8, 3), np.uint8)
    action_space = spaces.Discrete(2)


class Words(Pictures):
    observation_space = spaces.Dict({"a": spaces.Discrete(2)})


class Single(Pictures):
    observation_space = spaces.Box(-1, 1, (1,), np.float32)


for _class in (Pictures, Words, Single):
    gym.register(id=f"tests/{_class.__name__}-v0", entry_point=_class)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["{bc}"], "has no stored reward; methods such as gail and airl learn one"),
        (["ffff"], "run ffff: no run of runs starts with it"),
        (["alone", "--env", "tests/Pictures-v0"], "observations are images"),
        (["alone", "--env", "tests/Words-v0"], "observations are dictionaries"),
        (["alone", "--env", "tests/Single-v0"], "have 1 dimension, and a map needs two"),
        (["alone", "--env", "CartPole-v1"], "alone: made for observations Box"),
        (["alone", "--env", "nothing-v0"], "environment nothing-v0: cannot be created"),
        (["alone", "--env", "Pendulum-v1", "--dims", "0,3"], "--dims 0,3: observations have "
         "dimensions 0 to 2; name two of these"),
        (["alone", "--env", "Pendulum-v1", "--dims", "1,1"], "name two different dimensions"),
        (["alone", "--dims", "0"], "--dims 0: must be two numbers from 0, such as 0,2"),
        (["alone", "--dims", "a,b"], "--dims a,b: must be two numbers"),
        (["alone", "--to", "x.pdf"], "--to x.pdf: must end in .png, .svg or .html"),
        (["alone", "--to", "alone"], "--to alone: must end in"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_line(words, line, place):
    names = {"bc": (place / "bc.id").read_text()}
    before = sorted(place.rglob("*"))
    done = call(*(word.format(**names) for word in words))
    assert isinstance(done.exception, InputError)
    message = str(done.exception)
    assert line in message
    assert "\n" not in message
    assert sorted(place.rglob("*")) == before


def test_a_reward_of_a_plug_in_is_imported_only_if_it_is_named(place):
    path = place / "alone/reward.json"
    stated = json.loads(path.read_text())
    path.write_text(json.dumps(stated | {"plugin": {"name": "mine", "digest": "0" * 64}}))
    with pytest.raises(InputError, match=r"name it: --algo \./mine, or --trust"):
        raise call("alone", "--env", "Pendulum-v1").exception


def test_the_class_of_a_reward_can_be_that_of_a_plug_in(place, monkeypatch):
    folder = write_template("gail", "mine", place)
    digest = find_algorithm(str(folder)).origin.digest
    net = import_source(digest, "learner", "a reward").MineReward(net_of(use_action=False))
    save_reward(net, place / "reward")
    monkeypatch.setattr(source_import, "_locations", {})  # as in another process
    words = ("reward", "--env", "Pendulum-v1")
    with pytest.raises(InputError, match=r"only if you name it: --algo \./mine, or --trust$"):
        raise call(*words).exception
    found = document(*words, "--algo", str(folder))
    assert [each["behavior"] for each in found["episodes"]] == ["expert", "random actions"]
    (folder / "learner.py").write_text((folder / "learner.py").read_text() + "\n# changed\n")
    with pytest.raises(InputError, match=r"^--algo .*: its source has changed .* pass --trust"):
        raise call(*words, "--algo", str(folder)).exception
    assert document(*words, "--algo", str(folder), "--trust")["sensitivity"]


def test_the_command_exits_with_2(place, imitbench_in):
    done = imitbench_in(place, "rewards", "show", "alone")
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert done.err.startswith("error: alone: does not state its environment")


@pytest.fixture
def imitbench_in():
    from support.command import call_imitbench

    def call_in(folder, *words):
        return call_imitbench(*words, cwd=folder)

    return call_in


@pytest.mark.parametrize("given", ["", "1", "1,2,3", "-1,0", "1;2", "²,1"])
def test_two_dimensions_are_two_numbers(given):
    with pytest.raises(InputError, match="two numbers"):
        parse_dims(given)
    assert parse_dims(" 4, 0") == (4, 0)


def test_a_policy_without_most_likely_action_is_shown_too(place):
    """Any stored policy acts."""
    run = RunDirectory(next((place / "runs/classic/airl").glob("*/*")))
    save_policy(ZeroPolicy(PENDULUM.observation_space, PENDULUM.action_space), run.policy)
    assert document(str(run.path))["episodes"][1]["behavior"] == "policy"
