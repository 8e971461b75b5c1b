"""Vector environments and trajectories with known contents."""

import numpy as np
import pytest
from stable_baselines3.common.vec_env import DummyVecEnv
from support.environments import Counter

from imitbench.data.trajectories import TrajectoryWithRew


@pytest.fixture
def counters():
    """Makes a vector environment with one counter per given episode length."""

    def make(*lengths, wrap=lambda env: env, **kwargs):
        return DummyVecEnv([lambda n=n: wrap(Counter((n,), **kwargs)) for n in lengths])

    return make


@pytest.fixture
def trajectories():
    """Three trajectories of a two-dimensional box and a discrete action, 3 to 5 steps long."""

    def make(act_shape=(), obs_dtype=np.float32):
        rng = np.random.default_rng(0)
        made = []
        for steps in (3, 4, 5):
            shape = (steps, *act_shape)
            acts = rng.random(shape) if act_shape else rng.integers(2, size=steps)
            made.append(
                TrajectoryWithRew(
                    obs=rng.random((steps + 1, 2)).astype(obs_dtype),
                    acts=acts,
                    infos=None,
                    terminal=steps != 4,
                    rews=rng.random(steps),
                )
            )
        return made

    return make
