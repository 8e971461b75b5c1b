"""Learners know how long episodes are, also where no limit is registered."""

import gymnasium as gym
import pytest
from stable_baselines3.common.vec_env import DummyVecEnv

from imitbench.bench.environments import make_training_environments, time_limit_of
from imitbench.cards.catalog import load_suite
from imitbench.records.environments import EnvironmentSpec

CASES = [
    (suite, env_id)
    for suite in ("tabular", "transfer", "diagnostics", "classic", "seals")
    for env_id in load_suite(suite).environments
]


@pytest.mark.parametrize(("suite", "env_id"), CASES)
def test_the_limit_is_that_of_the_card(suite, env_id):
    card = load_suite(suite).environments[env_id]
    venv = make_training_environments(EnvironmentSpec.of_card(env_id, card), 1, 0)
    assert time_limit_of(venv) == card.max_episode_steps
    venv.close()


def test_an_environment_may_have_none():
    venv = DummyVecEnv([lambda: gym.make("CartPole-v1", max_episode_steps=-1)])
    assert time_limit_of(venv) is None
    venv.close()
