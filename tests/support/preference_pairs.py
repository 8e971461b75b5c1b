"""Fragments, pairs of fragments, and reward networks with known parameters."""

import numpy as np
import torch as th
from gymnasium import spaces
from torch import nn

from imitbench.data.types import Trajectory, TrajectoryWithRew
from imitbench.regularization.updaters import IntervalParamScaler
from imitbench.rewards.reward_nets import BasicRewardNet, RewardEnsemble, RewardNet
from imitbench.util.logger import HierarchicalLogger, configure

OBS_SPACE = spaces.Box(-np.inf, np.inf, (3,), np.float32)
ACT_SPACE = spaces.Box(-2, 2, (1,), np.float32)

# Any validation loss is too large, so that the strength grows.
SCALER = IntervalParamScaler(scaling_factor=0.1, tolerable_interval=(0.0, 0.01))


def fragment(rng, length=5, *, rewards=True, terminal=False):
    """Returns a random fragment for `OBS_SPACE` and `ACT_SPACE`."""
    obs = rng.normal(size=(length + 1, 3)).astype(np.float32)
    acts = rng.uniform(-2, 2, size=(length, 1)).astype(np.float32)
    if not rewards:
        return Trajectory(obs, acts, None, terminal)
    return TrajectoryWithRew(obs, acts, None, terminal, rng.normal(size=length).astype(np.float32))


def pairs_of(rng, lengths, **kwargs):
    """Returns random pairs of fragments, one for each length."""
    return [(fragment(rng, n, **kwargs), fragment(rng, n, **kwargs)) for n in lengths]


class LinearReward(RewardNet):
    """The reward `weight · obs`, with derivatives in closed form."""

    def __init__(self, weight):
        super().__init__(OBS_SPACE, ACT_SPACE)
        self.weight = nn.Parameter(th.tensor(weight, dtype=th.float32))

    def forward(self, state, action, next_state, done):
        return state @ self.weight


def linear_ensemble(*weights):
    """Returns an ensemble of linear rewards."""
    return RewardEnsemble(OBS_SPACE, ACT_SPACE, [LinearReward(weight) for weight in weights])


def perceptron(seed=0, **kwargs):
    """Returns a small `BasicRewardNet`."""
    th.manual_seed(seed)
    return BasicRewardNet(OBS_SPACE, ACT_SPACE, **{"hid_sizes": (8, 8), **kwargs})


def quiet_logger(folder) -> HierarchicalLogger:
    """Returns a logger without output."""
    return configure(folder, [])


def weights(trainer):
    """Returns all parameters of a reward trainer's network as one vector."""
    return th.cat([each.detach().flatten() for each in trainer._preference_model.parameters()])


def logged(trainer):
    """Returns the values that a reward trainer logged since the last dump."""
    return trainer.logger.default_logger.name_to_value
