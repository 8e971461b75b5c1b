"""Reinforcement learning on a learned reward goes on after an interruption as without one."""

import importlib

import numpy as np
import pytest
import torch as th

from imitbench.bench.checkpoint import generator_states, restore_generators
from imitbench.bench.learner import Task
from imitbench.bench.learners.reinforcement import reinforcement_card
from imitbench.bench.protocol import Evaluator
from imitbench.experts.lookup import find_environment
from imitbench.records.runs import Budget

SETTINGS = {
    "n_envs": 2, "learning_starts": 20, "batch_size": 16, "hidden_size": 16, "train_freq": 1,
}  # fmt: skip
PPO_SETTINGS = {"n_envs": 2, "n_steps": 20, "batch_size": 20, "hidden_size": 16}


def reward_of_states(state, action, next_state, done):
    return 10 * state[:, 0].astype(np.float32)


@pytest.fixture
def make():
    def ready(name, env_id):
        card, environment = reinforcement_card(name), find_environment(env_id)
        kwargs = {**environment.kwargs, "max_episode_steps": 30}
        environment = environment.model_copy(update={"kwargs": kwargs})
        th.manual_seed(0)
        np.random.seed(0)  # noqa: NPY002 (Stable-Baselines3 draws from the global generator)
        wanted = PPO_SETTINGS if name == "ppo" else SETTINGS
        values = card.resolve({key: str(value) for key, value in wanted.items()})
        with Evaluator(environment, 1) as evaluator:
            spaces = evaluator.observation_space, evaluator.action_space
        module, _, cls = card.implementation.partition(":")
        learner = getattr(importlib.import_module(module), cls)(reward_of_states)
        learner.setup(
            Task(environment, *spaces, values, seed=0), [], np.random.default_rng(0), "cpu"
        )
        return learner

    return ready


@pytest.mark.parametrize(
    ("name", "env_id"),
    [("sac", "Pendulum-v1"), ("dqn", "seals/CartPole-v0"), ("ppo", "Pendulum-v1")],
)
def test_a_resumed_training_on_a_learned_reward_equals_an_uninterrupted_one(name, env_id, make):
    budget = Budget(name="quick", unit="env_steps", amount=160)
    saved = []
    whole, learner = [], make(name, env_id)
    learner.train(
        budget,
        lambda *point: whole.append(point),
        lambda: saved.append((learner.state_dict(), generator_states(), len(whole))),
    )
    state, generators, count = saved[len(saved) // 2]
    rest, resumed = whole[:count], make(name, env_id)
    resumed.load_state_dict(state)
    restore_generators(generators)
    resumed.train(budget, lambda *point: rest.append(point))
    np.testing.assert_equal(rest, whole)
    for key, value in learner.policy().state_dict().items():
        assert th.equal(resumed.policy().state_dict()[key], value), key
