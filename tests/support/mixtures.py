"""Supplements for methods that need one: trajectories of mixed quality, ranked if needed."""

import numpy as np

from imitbench.bench.learner import Supplement
from imitbench.bench.learners.reward_agreement import held_out_trajectories


def supplement_of(environment, *, ranked, policy=None, rates=(1.0,), count=2):
    """Episodes in which shares of a policy's actions are random, ranked by their true returns."""
    found = held_out_trajectories(policy, environment, 0, rates, count)
    returns = [each.rews.sum() for each in found]
    return Supplement(found, np.argsort(np.argsort(returns)) if ranked else None)
