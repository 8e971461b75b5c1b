"""Discriminator-actor-critic (DAC): GAIL with a replay buffer.

Source: Kostrikov et al. 2019, "Discriminator-Actor-Critic: Addressing Sample Inefficiency and
Reward Bias in Adversarial Imitation Learning", arXiv:1809.02925.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch as th
from gymnasium import spaces

from imitbench.algorithms.off_policy.discriminator import Discriminator
from imitbench.algorithms.off_policy.trainer import OffPolicyTrainer
from imitbench.algorithms.off_policy.transitions import Batch


class DAC(OffPolicyTrainer):
    """Trains a soft actor-critic on the logit of a discriminator between expert and replay buffer.

    The paper's agent is TD3, which has no entropy bonus; this one is soft actor-critic, or soft
    Q-learning for discrete actions.

    Args:
        disc_hidden_sizes: Units of the discriminator's hidden layers.
        disc_learning_rate: Learning rate of the discriminator.
        gradient_penalty: Weight of the penalty on its gradient.
        hidden_entries: Entries of observations that the discriminator does not see.
        **kwargs: As for `OffPolicyTrainer`.

    Raises:
        ValueError: As `OffPolicyTrainer`.
    """

    discrete_actions = True

    def __init__(
        self,
        *,
        disc_hidden_sizes: Sequence[int] = (64, 64),
        disc_learning_rate: float = 3e-4,
        gradient_penalty: float = 10.0,
        hidden_entries: Sequence[int] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        space = self.venv.action_space
        self.discriminator = Discriminator(
            self.features,
            spaces.flatdim(space),
            discrete=isinstance(space, spaces.Discrete),
            hidden_sizes=disc_hidden_sizes,
            learning_rate=disc_learning_rate,
            penalty=gradient_penalty,
            streams=self.streams,
            hidden_entries=hidden_entries,
        )

    def learn(self, own: Batch, expert: Batch) -> dict[str, th.Tensor]:
        """Takes a step of the discriminator (equation 2)."""
        return self.discriminator.update(own, expert)

    def critic_loss(self, own: Batch, expert: Batch) -> th.Tensor:
        """Temporal differences of r = log D - log(1 - D), which has both signs (section 4.1)."""
        del expert
        return self.td_loss(own, self.discriminator.logits(own))

    def extra_state(self) -> dict[str, Any]:
        """State of the discriminator."""
        return self.discriminator.state_dict()

    def load_extra_state(self, state: Mapping[str, Any]) -> None:
        """Restores what `extra_state` returned."""
        self.discriminator.load_state_dict(state)
