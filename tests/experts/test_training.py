"""Experts are trained by the recipe on their card."""

import json
import signal

import gymnasium as gym
import pytest
import yaml
from pydantic import ValidationError

from imitbench.bench.stopping import RunStoppedError
from imitbench.cards.suite import EnvironmentCard, ExpertRecipe
from imitbench.errors import InputError
from imitbench.experts.measurement import measure, write_measurement
from imitbench.experts.training import train_expert, write_expert_card
from imitbench.policies.storage import load_policy
from imitbench.records.runs import EnvironmentSpec

STEPS = 64


def environment_card(kwargs=None, **recipe):
    return EnvironmentCard.model_validate(
        {
            "title": "Pendulum",
            "kwargs": kwargs or {},
            "horizon": "fixed",
            "max_episode_steps": 200,
            "steps_per_second": 1000.0,
            "action_space": "box",
            "expert": {
                "repo": "ppo-test",
                "algo": "ppo",
                "env_steps": STEPS,
                "environments": 2,
                "net_arch": [8],
                "hyperparameters": {"n_steps": 32, "batch_size": 32, "n_epochs": 1},
                **recipe,
            },
            "demos": {"repo": "ppo-test", "trajectories": 1},
            "budgets": {
                name: {"env_steps": STEPS, "batches": 1} for name in ("quick", "default", "full")
            },
        }
    )


def train(card, folder, progress=lambda *_: None):
    train_expert("Pendulum-v1", card, folder, command="test", progress=progress, checkpoint_s=0.0)
    return folder / "ppo-test"


@pytest.fixture
def made(monkeypatch):
    """Arguments of the created environments."""
    arguments = []
    make = gym.make

    def spy(name, **kwargs):
        arguments.append(kwargs)
        return make(name, **kwargs)

    monkeypatch.setattr(gym, "make", spy)
    return arguments


def test_training_arguments_are_added_to_the_environment_s(made, tmp_path):
    card = environment_card({"g": 9.0, "render_mode": None}, training_kwargs={"g": 8.0})
    directory = train(card, tmp_path)
    assert [(each["g"], each["render_mode"]) for each in made] == [(8.0, None)] * 3
    # Other code must create the environment without these arguments.
    assert yaml.safe_load((directory / "env_kwargs.yml").read_text())["g"] == 9.0
    assert yaml.safe_load((directory / "config.yml").read_text())["training_kwargs"] == {"g": 8.0}


@pytest.mark.parametrize(
    ("given", "told"), [({"g": 8.0}, "the environment had `g=8.0`"), ({}, "seed 0. Hyper-")]
)
def test_the_expert_s_card_describes_its_training(given, told, tmp_path):
    card = environment_card(training_kwargs=given)
    directory = train(card, tmp_path)
    spec = EnvironmentSpec.of_card("Pendulum-v1", card)
    measured = measure(spec, load_policy(directory), episodes=1, deterministic=False, seed=0)
    write_measurement(directory, card, measured)
    write_expert_card("Pendulum-v1", card, directory)
    assert told in (directory / "README.md").read_text()
    assert not (directory / "checkpoint").exists()


def test_a_training_argument_may_be_a_range():
    recipe = ExpertRecipe.model_validate(
        {
            "repo": "x",
            "algo": "ppo",
            "env_steps": 1,
            "training_kwargs": {"healthy_z_range": [0.3, 0.9]},
        }
    )
    assert recipe.training_kwargs == {"healthy_z_range": [0.3, 0.9]}


@pytest.mark.parametrize("where", ["kwargs", "training_kwargs"])
def test_an_argument_that_the_environment_lacks_is_reported(where, tmp_path):
    given = {"g": 9.0, "gravity": 9.0}
    own, training = (given, {}) if where == "kwargs" else ({}, given)
    with pytest.raises(InputError, match=r"gravity=9\.0 .*training_kwargs of its card"):
        train(environment_card(own, training_kwargs=training), tmp_path)
    assert list(tmp_path.iterdir()) == []


OFF_POLICY = {"learning_starts": 300, "batch_size": 16}
RECIPES = {
    "ppo": {
        "normalize_observations": True,
        "normalize_rewards": True,
        "learning_rate_decay": "linear",
        "hyperparameters": {
            "n_steps": 16, "batch_size": 32, "n_epochs": 1, "learning_rate": 0.001,
        },
    },
    "lean sac": {"algo": "sac", "lean": True, "environments": 1,
                 "hyperparameters": {**OFF_POLICY, "train_freq": 4}},
    "ppo method": {
        "algo": "ppo_true_reward",
        "environments": 2,
        "net_arch": [64, 64],
        "hyperparameters": {"n_steps": 16, "n_epochs": 1, "hidden_size": 8},
    },
    "sac method": {
        "algo": "sac_true_reward",
        "environments": 1,
        "net_arch": [64, 64],
        "hyperparameters": {**OFF_POLICY, "hidden_size": 8, "steps_per_update": 4},
    },
}  # fmt: skip


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_a_killed_training_resumes_and_gives_the_same_expert(recipe, tmp_path):
    # Two episodes of 200 steps, of each environment.
    card = environment_card(**{"env_steps": 900, **recipe})
    whole = train(card, tmp_path / "whole")

    class Killed(BaseException):
        pass

    seen = []

    def kill(step, mean):
        seen.append(step)
        if len(seen) == 2:
            raise Killed

    with pytest.raises(Killed):
        train(card, tmp_path / "killed", kill)
    assert 0 < seen[-1] < 900
    assert not (tmp_path / "killed" / "ppo-test" / "policy.safetensors").exists()
    again = []
    killed = train(card, tmp_path / "killed", lambda step, _: again.append(step))
    assert again[0] > seen[0]  # it did not start from the beginning
    assert (killed / "policy.safetensors").read_bytes() == (
        whole / "policy.safetensors"
    ).read_bytes()
    curves = [json.loads((folder / "training.json").read_text()) for folder in (killed, whole)]
    assert curves[0]["curve"] == curves[1]["curve"]
    assert len(curves[0]["curve"]) >= 2
    unmeasured = (killed / "policy.safetensors").stat().st_mtime_ns
    train(card, tmp_path / "killed", kill)  # nothing is left to train
    assert (killed / "policy.safetensors").stat().st_mtime_ns == unmeasured


def test_checkpoints_belong_to_one_recipe(tmp_path):
    def stop(step, mean):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(environment_card(env_steps=900), tmp_path, stop)
    with pytest.raises(InputError, match=r"checkpoint: holds a training by another recipe"):
        train(environment_card(env_steps=900, seed=1), tmp_path)


def test_ctrl_c_saves_a_checkpoint(tmp_path):
    def press(step, mean):
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(RunStoppedError):
        train(environment_card(env_steps=900), tmp_path, press)
    assert list((tmp_path / "ppo-test" / "checkpoint").glob("*.state"))


@pytest.mark.parametrize(
    ("recipe", "told"),
    [
        ({"lean": True}, "lean: only for ppo and sac"),
        ({"net_arch": [8]}, "net_arch: only for ppo and sac"),
    ],
)
def test_settings_that_a_method_does_not_have(recipe, told):
    with pytest.raises(ValidationError, match=told):
        environment_card(algo="sac_true_reward", **{"net_arch": [64, 64], **recipe})


def test_hyperparameters_that_a_method_does_not_have(tmp_path):
    given = {"algo": "sac_true_reward", "net_arch": [64, 64]}
    for wrong, told in (
        ({"n_steps": 16}, "sac_true_reward has no n_steps; did you mean"),
        ({"gamma": 2.0}, "gamma must be"),
    ):
        with pytest.raises(InputError, match=told):
            train(environment_card(**given, hyperparameters=wrong), tmp_path)
    assert list(tmp_path.iterdir()) == []
