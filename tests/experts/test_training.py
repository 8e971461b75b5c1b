"""Experts are trained as the recipe on their card says."""

import gymnasium as gym
import pytest
import torch as th
import yaml

from imitbench.cards.suite import EnvironmentCard
from imitbench.errors import InputError
from imitbench.experts.training import train_expert
from imitbench.policies.storage import load_policy

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
    """Arguments of the environments that are made."""
    arguments = []
    make = gym.make

    def spy(name, **kwargs):
        arguments.append(kwargs)
        return make(name, **kwargs)

    monkeypatch.setattr(gym, "make", spy)
    return arguments


def test_arguments_of_training_join_those_of_the_environment(made, tmp_path):
    card = environment_card({"g": 9.0, "render_mode": None}, training_kwargs={"g": 8.0})
    directory = train(card, tmp_path)
    assert [(each["g"], each["render_mode"]) for each in made] == [(8.0, None)] * 2
    # What others are to make is the environment without them.
    assert yaml.safe_load((directory / "env_kwargs.yml").read_text())["g"] == 9.0
    assert yaml.safe_load((directory / "config.yml").read_text())["training_kwargs"] == {"g": 8.0}


@pytest.mark.parametrize(("given", "start"), [(None, 0.0), (-2.0, -2.0)])
def test_the_actor_starts_with_the_noise_of_the_recipe(given, start, tmp_path):
    directory = train(environment_card(log_std_init=given), tmp_path)
    learnt = load_policy(directory).log_std
    # Four of Adam's steps of 3e-4 lead no further.
    assert th.allclose(learnt, th.full_like(learnt, start), atol=0.01)


@pytest.mark.parametrize("where", ["kwargs", "training_kwargs"])
def test_an_argument_that_the_environment_lacks_is_named(where, tmp_path):
    given = {"g": 9.0, "gravity": 9.0}
    own, training = (given, {}) if where == "kwargs" else ({}, given)
    with pytest.raises(InputError, match="Pendulum-v1: has no argument 'gravity'"):
        train(environment_card(own, training_kwargs=training), tmp_path)
    assert list(tmp_path.iterdir()) == []
