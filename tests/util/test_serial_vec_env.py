"""Environments in one process give what Stable-Baselines3's give, without the copying."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv
from support.environments import Counter, DictCounter

from imitbench.data.wrappers import RolloutInfoWrapper
from imitbench.util.serial_vec_env import SerialVecEnv

MAKERS = {
    "CartPole": lambda: gym.make("CartPole-v1"),
    "Pendulum": lambda: gym.make("Pendulum-v1", max_episode_steps=20),
    "cut off": lambda: RolloutInfoWrapper(Counter((2, 3), truncate=True)),
    "ends at the limit": lambda: gym.wrappers.TimeLimit(Counter((3,)), 3),
    "dictionaries": lambda: DictCounter(Counter((3,))),
}


def assert_same(found, expected):
    assert type(found) is type(expected)
    if isinstance(found, dict):
        assert found.keys() == expected.keys()
        for key in found.keys() - {"t"}:  # the clock of the monitor
            assert_same(found[key], expected[key])
    elif isinstance(found, list | tuple):
        for pair in zip(found, expected, strict=True):
            assert_same(*pair)
    else:
        np.testing.assert_array_equal(found, expected)
        assert getattr(found, "dtype", None) == getattr(expected, "dtype", None)


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_equals_dummy_vec_env(maker):
    pair = [cls([lambda: Monitor(maker())] * 3) for cls in (SerialVecEnv, DummyVecEnv)]
    for venv in pair:
        venv.seed(0)
    assert_same(*(venv.reset() for venv in pair))
    ended = 0
    for _ in range(60):
        acts = np.stack([pair[0].action_space.sample() for _ in range(3)])
        found, expected = (venv.step(acts) for venv in pair)
        assert_same(found, expected)
        ended += found[2].sum()
    assert ended > 2
    assert_same(*(venv.reset() for venv in pair))
    assert_same(*(venv.reset_infos for venv in pair))


class _Reusing(gym.Env):
    """Writes every observation into the same memory and returns the same info."""

    observation_space = spaces.Box(0, 100, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self):
        self.memory, self.info = np.zeros(1, np.float32), {}

    def reset(self, *, seed=None, options=None):
        self.memory[:] = 0
        return self.memory, {}

    def step(self, action):
        self.memory += 1
        self.info["step"] = int(self.memory[0])
        return self.memory, 1.0, self.memory[0] == 3, False, self.info


def test_nothing_returned_changes_later():
    venv = SerialVecEnv([_Reusing])
    first = venv.reset()
    steps = [venv.step([0]) for _ in range(4)]
    assert [first.item(), *(obs.item() for obs, *_ in steps)] == [0, 1, 2, 0, 1]
    assert [dones.item() for _, _, dones, _ in steps] == [False, False, True, False]
    assert [infos[0]["step"] for *_, infos in steps] == [1, 2, 3, 1]
    assert steps[2][3][0]["terminal_observation"].item() == 3
    assert "terminal_observation" not in steps[3][3][0]


def test_environments_must_differ():
    env = _Reusing()
    with pytest.raises(ValueError, match="same instance"):
        SerialVecEnv([lambda: env, lambda: env])
