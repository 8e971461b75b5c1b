import gymnasium as gym
import numpy as np

from imitbench.data import random_mdps
from imitbench.data.tabular import TabularModel


def test_members_are_always_the_same_and_differ_from_each_other():
    first, second = (
        [
            TabularModel.of(gym.make(f"imitbench/RandomMDP-{i}-v0"))
            for i in range(random_mdps.MEMBERS)
        ]
        for _ in range(2)
    )
    for one, again in zip(first, second, strict=True):
        np.testing.assert_array_equal(one.transitions, again.transitions)
        np.testing.assert_array_equal(one.rewards, again.rewards)
    assert len({model.rewards.tobytes() for model in first}) == random_mdps.MEMBERS


def test_rewards_are_linear_in_observations():
    model = TabularModel.of(gym.make("imitbench/RandomMDP-0-v0"))
    fit = np.linalg.lstsq(model.observations, model.rewards, rcond=None)[0]
    np.testing.assert_allclose(model.observations @ fit, model.rewards, atol=1e-4)
