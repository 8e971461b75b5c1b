"""Supplements for methods that need one: trajectories of mixed quality, ranked if needed."""

from dataclasses import replace

import numpy as np

from imitbench.bench.learner import Supplement
from imitbench.bench.learners.reward_agreement import held_out_trajectories


def supplement_of(environment, *, ranked, policy=None, rates=(1.0,), count=2):
    """Episodes in which shares of a policy's actions are random, ranked by their true returns."""
    found = held_out_trajectories(policy, environment, 0, rates, count)
    returns = [each.rews.sum() for each in found]
    return Supplement(found, np.argsort(np.argsort(returns)) if ranked else None)


def supplement_like(space, demos, *, ranked=False):
    """Demonstrations with random actions of a space; later ones have higher ranks."""
    draw = np.random.default_rng(0)

    def random_actions(acts):
        if hasattr(space, "n"):
            return draw.integers(space.n, size=acts.shape)
        return draw.uniform(space.low, space.high, acts.shape).astype(acts.dtype)

    hidden = [
        replace(demo, acts=random_actions(demo.acts), rews=np.full(len(demo), np.nan), infos=None)
        for demo in demos
    ]
    return Supplement(hidden, np.arange(len(demos)) if ranked else None)
