"""Experts are trained by the recipe on their card."""

import gymnasium as gym
import pytest
import yaml

from imitbench.cards.suite import EnvironmentCard
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


def train(card, folder):
    train_expert("Pendulum-v1", card, folder, command="test", progress=lambda *_: None)
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
    assert [(each["g"], each["render_mode"]) for each in made] == [(8.0, None)] * 2
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
    write_measurement(directory, measured)
    write_expert_card("Pendulum-v1", card, directory)
    assert told in (directory / "README.md").read_text()


@pytest.mark.parametrize("where", ["kwargs", "training_kwargs"])
def test_an_argument_that_the_environment_lacks_is_reported(where, tmp_path):
    given = {"g": 9.0, "gravity": 9.0}
    own, training = (given, {}) if where == "kwargs" else ({}, given)
    with pytest.raises(InputError, match=r"gravity=9\.0 .*training_kwargs of its card"):
        train(environment_card(own, training_kwargs=training), tmp_path)
    assert list(tmp_path.iterdir()) == []
