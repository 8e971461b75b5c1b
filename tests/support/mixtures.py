"""Supplements for methods that need one: trajectories of mixed quality, ranked if needed."""

import numpy as np

from imitbench.bench.environments import make_training_environments
from imitbench.bench.learner import Supplement
from imitbench.data.rollout import generate_trajectories, make_min_episodes


def supplement_of(environment, *, ranked):
    """Two episodes of random actions; the ranks are arbitrary."""
    venv = make_training_environments(environment, 2, seed=0)
    found = generate_trajectories(None, venv, make_min_episodes(2), np.random.default_rng(0))
    venv.close()
    return Supplement(found, np.arange(len(found)) if ranked else None)
