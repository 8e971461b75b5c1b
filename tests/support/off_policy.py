"""Off-policy methods, trainings that take a moment, and parts of them with known values."""

import torch as th
from gymnasium import spaces

from imitbench.algorithms.off_policy.adril import AdRIL
from imitbench.algorithms.off_policy.agent import AgentOptions
from imitbench.algorithms.off_policy.bco import BCO
from imitbench.algorithms.off_policy.csil import CSIL
from imitbench.algorithms.off_policy.dac import DAC, DACfO
from imitbench.algorithms.off_policy.discriminator import Discriminator
from imitbench.algorithms.off_policy.explicit_reward import ExplicitRewardTrainer
from imitbench.algorithms.off_policy.f_irl import FIRL
from imitbench.algorithms.off_policy.hype import HyPE
from imitbench.algorithms.off_policy.iq_learn import IQLearn
from imitbench.algorithms.off_policy.ls_iq import LSIQ, LSIQObs
from imitbench.algorithms.off_policy.ml_irl import MLIRL
from imitbench.algorithms.off_policy.opolo import OPOLO
from imitbench.algorithms.off_policy.pwil import PWIL, PWILState
from imitbench.algorithms.off_policy.randomness import SeedStreams
from imitbench.algorithms.off_policy.trainer import OffPolicyOptions
from imitbench.algorithms.off_policy.transitions import Batch, PairInputs
from imitbench.algorithms.off_policy.value_dice import ValueDICE


class ShortCSIL(CSIL):
    """Clones and fits critics for a moment only."""

    def __init__(self, **kwargs):
        super().__init__(bc_updates=10, critic_updates=10, **kwargs)


class ShortBCO(BCO):
    """Has rounds of a moment."""

    def __init__(self, **kwargs):
        super().__init__(**{"model_updates": 5, "bc_updates": 5} | kwargs)


class OftenFIRL(FIRL):
    """Takes steps of the reward often, of few updates of the discriminator each."""

    def __init__(self, **kwargs):
        super().__init__(**{"reward_interval": 5, "disc_updates": 2, "trajectories": 2} | kwargs)


class OftenMLIRL(MLIRL):
    """Takes steps of the reward often."""

    def __init__(self, **kwargs):
        super().__init__(**{"reward_interval": 5, "trajectories": 2} | kwargs)


EXPLICIT = [OftenFIRL, OftenMLIRL]
FROM_OBSERVATIONS = [ShortBCO, DACfO, LSIQObs, PWILState, OPOLO]
METHODS = [
    *(DAC, IQLearn, LSIQ, HyPE, AdRIL, PWIL, ShortCSIL, ValueDICE),
    *(*EXPLICIT, *FROM_OBSERVATIONS),
]
DISCRETE = [method for method in METHODS if method.discrete_actions]


def vectors(trainer):
    agent = trainer.agent
    found = [agent.critics.vector, agent.targets.vector]
    if isinstance(trainer, ExplicitRewardTrainer):
        found.append(trainer._reward.vector)
    return [*found, agent.actor.vector] if hasattr(agent, "actor") else found


def small_options(**given):
    agent = AgentOptions(**{"hidden_sizes": (16, 16)} | given.pop("agent", {}))
    defaults = {"agent": agent, "batch_size": 8, "buffer_size": 500, "learning_starts": 20}
    return OffPolicyOptions(**defaults | given)


class StubAgent:
    """Q(s, a) = 10 s + a by both critics, V(s) = s, and twice that by the targets."""

    def values(self, obs, acts, critics="online"):
        return self._twice(10 * obs[..., 0] + acts[..., 0])

    def soft_values(self, obs, critics="online"):
        return self._twice(obs[..., 0] * (2.0 if critics == "target" else 1.0))

    def _twice(self, values):
        return th.stack([values, values])


def stub_batches():
    """The learner's states 1 and 2, of which 2 is the last, and the expert's 3 and 4."""
    return _batch([1, 2], [0, 1], [0, 1]), _batch([3, 4], [1, 1], [0, 0])


def _batch(states, acts, terminal):
    obs, acts = (th.tensor([each]).float().unsqueeze(-1) for each in (states, acts))
    ends = th.tensor([terminal]).float()
    return Batch(obs=obs, acts=acts, next_obs=obs + 1, terminal=ends, rewards=th.zeros(1, 2))


def batch(obs, acts, terminal=0.0, rewards=0.0):
    """Transitions of one seed that stay where they are."""
    obs, acts = th.tensor([obs]), th.tensor([acts])
    zeros = th.zeros(obs.shape[:2])
    rewards = zeros + th.as_tensor(rewards)
    return Batch(obs=obs, acts=acts, next_obs=obs, terminal=zeros + terminal, rewards=rewards)


def linear_discriminator(weights, bias=0.0, inputs=None, **given):
    """A logit that is linear in two entries of observations and one of actions, or in `inputs`."""
    settings = {"hidden_sizes": (), "learning_rate": 0.1, "penalty": 0.0}
    seen = PairInputs(2, spaces.Box(-1.0, 1.0, (1,)), **inputs or {})
    made = Discriminator(seen, **settings | given, streams=SeedStreams([0]))
    with th.no_grad():
        made._net.vector.copy_(th.tensor([*weights, bias]))
    return made
