"""Settings of off-policy trainings that take a moment, and parts of them with known values."""

import torch as th

from imitbench.algorithms.off_policy.agent import AgentOptions
from imitbench.algorithms.off_policy.discriminator import Discriminator
from imitbench.algorithms.off_policy.randomness import SeedStreams
from imitbench.algorithms.off_policy.trainer import OffPolicyOptions
from imitbench.algorithms.off_policy.transitions import Batch


def small_options(**given):
    agent = AgentOptions(**{"hidden_sizes": (16, 16)} | given.pop("agent", {}))
    defaults = {"agent": agent, "batch_size": 8, "buffer_size": 500, "learning_starts": 20}
    return OffPolicyOptions(**defaults | given)


def batch(obs, acts, terminal=0.0, rewards=0.0):
    """Transitions of one seed that stay where they are."""
    obs, acts = th.tensor([obs]), th.tensor([acts])
    zeros = th.zeros(obs.shape[:2])
    rewards = zeros + th.as_tensor(rewards)
    return Batch(obs=obs, acts=acts, next_obs=obs, terminal=zeros + terminal, rewards=rewards)


def linear_discriminator(weights, bias=0.0, **given):
    """A logit that is linear in two entries of observations and one of actions."""
    settings = {"discrete": False, "hidden_sizes": (), "learning_rate": 0.1, "penalty": 0.0}
    made = Discriminator(2, 1, **settings | given, streams=SeedStreams([0]))
    with th.no_grad():
        made._net.vector.copy_(th.tensor([*weights, bias]))
    return made
