"""Problems whose states and actions can be counted, for offline methods."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy

from imitbench.algorithms.offline.weighted_cloning import CloningOptions
from imitbench.data.types import TrajectoryWithRew
from imitbench.util.logger import configure

STATES, CHOICES = 2, 2


def episode(*steps, last=0):
    """A trajectory of (state, action), which ends in the state `last`."""
    states, acts = zip(*steps, strict=True)
    return TrajectoryWithRew(
        obs=np.array([*states, last]),
        acts=np.array(acts),
        infos=None,
        terminal=False,
        rews=np.zeros(len(steps)),
    )


def settled(trainer, of, batches=500):
    """Trains, and returns the mean of what is `of` the trainer over the second half of batches.

    Parameters go on moving around the optimum, since gradients are noisy.
    """
    trainer.train(batches // 2)
    found = []
    for _ in range(25):
        trainer.train(batches // 50)
        found.append(of(trainer))
    return th.stack(found).mean(dim=0)


@pytest.fixture
def make(tmp_path):
    """Makes a method for two states and two actions, whose policy can be anything there."""

    def make(method, demonstrations, supplement, seed=0, options=None, **given):
        th.manual_seed(seed)
        policy = ActorCriticPolicy(
            spaces.Discrete(STATES), spaces.Discrete(CHOICES), lambda _: 1e-3, net_arch=[]
        )
        return method(
            policy=policy,
            demonstrations=demonstrations,
            supplement=supplement,
            options=options or CloningOptions(batch_size=512, learning_rate=0.03, ent_weight=0.0),
            seed=seed,
            custom_logger=configure(tmp_path / "log", []),
            **given,
        )

    return make


@pytest.fixture
def probabilities():
    """Probability of action 1 in each state."""

    def of(trainer):
        with th.no_grad():
            return trainer.policy.get_distribution(th.arange(STATES)).distribution.probs[:, 1]

    return of
