"""Discriminator-actor-critic (DAC): GAIL with a replay buffer. DACfO: GAIfO with one.

Source: Kostrikov et al. 2019, "Discriminator-Actor-Critic: Addressing Sample Inefficiency and
Reward Bias in Adversarial Imitation Learning", arXiv:1809.02925. The name DACfO is that of Zhu et
al. 2020, "Off-Policy Imitation Learning from Observations", arXiv:2102.13185.
"""

from __future__ import annotations

import torch as th

from imitbench.algorithms.off_policy.discriminator import OffPolicyAdversarialTrainer
from imitbench.algorithms.off_policy.transitions import Batch


class DAC(OffPolicyAdversarialTrainer):
    """Trains a soft actor-critic on the logit of a discriminator between expert and replay buffer.

    The paper's agent is TD3, which has no entropy bonus; this one is soft actor-critic, or soft
    Q-learning for discrete actions.

    Args:
        **kwargs: See `OffPolicyAdversarialTrainer`.

    Raises:
        ValueError: See `OffPolicyAdversarialTrainer`.
    """

    discrete_actions = True

    def learn(self, own: Batch, expert: Batch) -> dict[str, th.Tensor]:
        """Takes a step of the discriminator (equation 2)."""
        return self.discriminator.update(own, expert)

    def critic_loss(self, own: Batch, expert: Batch) -> th.Tensor:
        """Temporal differences of r = log D - log(1 - D), which has both signs (section 4.1)."""
        del expert
        return self.td_loss(own, self.discriminator.logits(own))


class DACfO(DAC):
    """DAC whose discriminator sees a state and the next one, and no actions."""

    reads_actions = False
