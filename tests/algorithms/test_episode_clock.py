"""Times of transitions follow from where episodes end, however they are handed over."""

import numpy as np
import pytest
from stable_baselines3.common.vec_env import DummyVecEnv
from support.environments import Counter

from imitbench.algorithms.density_model import EpisodeClock

LENGTHS = ((3, 1, 4), (2, 5, 1))
STEPS = 20


@pytest.fixture
def clock():
    return EpisodeClock(DummyVecEnv([lambda n=n: Counter(n) for n in LENGTHS]))


def play(clock):
    """Ends and true times of some steps; each environment counts its own."""
    clock.reset()
    dones, times = [], []
    for _ in range(STEPS):
        times.append([env.count for env in clock.unwrapped.envs])
        dones.append(clock.step(np.zeros(2, dtype=int))[2])
    return np.array(dones), np.array(times)


@pytest.mark.parametrize("at_once", [1, 3, 7, STEPS])
def test_times_are_those_of_the_environments(clock, at_once):
    dones, times = play(clock)
    for start in range(0, STEPS, at_once):
        part = slice(start, start + at_once)
        assert clock.advance(dones[part].ravel()).tolist() == times[part].ravel().tolist()
    assert clock.steps.tolist() == [env.count for env in clock.unwrapped.envs]


def test_a_reset_restarts_the_clock(clock):
    clock.advance(np.zeros(4, dtype=bool))
    assert clock.steps.tolist() == [2, 2]
    clock.reset()
    assert clock.steps.tolist() == [0, 0]
