"""Reach follows Gymnasium's rules, and its episodes have equal length."""

from pathlib import Path

import pytest
from gymnasium.utils.env_checker import check_env

from imitbench.bench.environments import make_environment
from imitbench.cards.plugins import find_suite
from imitbench.records.runs import EnvironmentSpec

SUITE = find_suite(str(Path(__file__).parent))


@pytest.mark.parametrize("env_id", SUITE.environments)
def test_environments_are_what_the_card_says(env_id: str) -> None:
    card = SUITE.environments[env_id]
    env = make_environment(EnvironmentSpec.of_card(env_id, card))
    check_env(env.unwrapped, skip_render_check=True)
    for seed in range(2):
        env.reset(seed=seed)
        length, over = 0, False
        while not over:
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            length, over = length + 1, terminated or truncated
        assert length == card.max_episode_steps
    env.close()
