"""Learners set up on Pendulum with a few bundled demonstrations."""

import importlib

import numpy as np
import pytest
import torch as th
from support.mixtures import supplement_like

from imitbench.bench.learner import Task
from imitbench.bench.protocol import Evaluator
from imitbench.cards.catalog import load_algorithm, suite_directory
from imitbench.data.demonstrations import read_demonstrations
from imitbench.experts.lookup import find_environment
from imitbench.records.runs import Budget

CELLS = {
    "Pendulum-v1": "sac-Pendulum-v1",
    "seals/CartPole-v0": "ppo-seals-CartPole-v0",
}

LIKE_DEMOS = object()  # a supplement with the observations of the demonstrations


@pytest.fixture(scope="session")
def demos_of():
    """Bundled demonstrations by environment."""
    root = suite_directory("classic") / "demos"
    return {env: read_demonstrations(root / repo) for env, repo in CELLS.items()}


@pytest.fixture
def set_up(demos_of):
    """Makes a learner by the name of its card; its episodes may have fewer `steps`."""

    def make(
        name, env="Pendulum-v1", demos=None, expert=None, supplement=LIKE_DEMOS, hidden=None,
        steps=None,
        **overrides,
    ):  # fmt: skip
        card, environment = load_algorithm(name), find_environment(env)
        if steps is not None:
            kwargs = {**environment.kwargs, "max_episode_steps": steps}
            environment = environment.model_copy(update={"kwargs": kwargs})
        environment = environment.model_copy(update={"hidden_positions": hidden})
        demos = demos_of[env][:4] if demos is None else demos
        th.manual_seed(0)
        np.random.seed(0)  # noqa: NPY002 (Stable-Baselines3 draws from the global generator)
        with Evaluator(environment, 1) as evaluator:
            if supplement is LIKE_DEMOS:
                space, ranked = evaluator.action_space, card.needs.ranking
                supplement = supplement_like(space, demos, ranked=ranked)
            task = Task(
                environment=environment,
                observation_space=evaluator.observation_space,
                action_space=evaluator.action_space,
                hyperparameters=card.resolve(overrides),
                seed=0,
                expert=expert,
                supplement=supplement,
            )
        module, _, cls = card.implementation.partition(":")
        learner = getattr(importlib.import_module(module), cls)()
        learner.setup(task, demos, np.random.default_rng(0), "cpu")
        return learner

    return make


@pytest.fixture
def train():
    """Trains for environment steps; returns those spent, and the curve."""

    def run(learner, amount):
        points = []
        budget = Budget(name="quick", unit="env_steps", amount=amount)
        return learner.train(budget, lambda *point: points.append(point)), points

    return run
