"""Adversarial reward-moment imitation learning (AdRIL): rewards in closed form, by rounds.

Source: Swamy et al. 2021, "Of Moments and Matching: A Game-Theoretic Framework for Closing the
Imitation Gap", arXiv:2103.03236.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch as th

from imitbench.algorithms import base
from imitbench.algorithms.off_policy.collector import Rows
from imitbench.algorithms.off_policy.trainer import OffPolicyTrainer
from imitbench.algorithms.off_policy.transitions import Batch


class AdRIL(OffPolicyTrainer):
    """Trains the agent on rewards that tell the expert's pairs from those of earlier rounds.

    The reward that separates the moments of expert and learner best over a reproducing kernel
    Hilbert space is the difference of their mean embeddings. With the kernel that is 1 for equal
    pairs and else 0, each sampled pair has its own reward. In round k it is

        1          for a pair of the demonstrations,
        0          for a pair of the learner from round k,
        -D / E_k   for a pair of the learner from an earlier round,

    with D the number of the demonstrations' pairs and E_k that of all earlier rounds, of which the
    replay buffer may hold the latest only. The paper divides these by the number of demonstrations;
    then more of them would weigh less against the entropy. A round is a fixed number of environment
    steps. Half of each batch is the expert's.

    Args:
        round_steps: Environment steps of each round; 0 for a single round, which is SQIL (Reddy et
            al. 2020).
        reward_scale: Factor of all rewards; that of the expert's pairs.
        **kwargs: As for `OffPolicyTrainer`.

    Raises:
        ValueError: A value is out of range, or as `OffPolicyTrainer`.
    """

    discrete_actions = True
    improves_on_both = True

    def __init__(
        self, *, round_steps: int = 1250, reward_scale: float = 1.0, **kwargs: Any
    ) -> None:
        if round_steps < 0:
            raise ValueError(f"round_steps must not be negative, not {round_steps}")
        if not reward_scale > 0:
            raise ValueError(f"reward_scale must be positive, not {reward_scale}")
        super().__init__(**kwargs)
        self.round_steps = round_steps
        self.reward_scale = reward_scale

    @property
    def current_round(self) -> int:
        """Number of the current round, from 0."""
        return self.num_timesteps // self.round_steps if self.round_steps else 0

    def update_kind(self) -> int:
        """The round, on which the rewards depend."""
        return self.current_round

    def set_demonstrations_of_seeds(self, demonstrations: Sequence[base.AnyTransitions]) -> None:
        """Replaces the demonstrations; see `OffPolicyTrainer.set_demonstrations_of_seeds`."""
        super().set_demonstrations_of_seeds(demonstrations)
        steps = th.tensor([float(len(rows["dones"])) for rows in self._demonstrations])
        self._expert_steps = steps.unsqueeze(1).to(self.streams.device)

    def set_rewards(self, seed: int, rows: Rows) -> Rows:
        """Stores the number of the round in place of a reward, which changes between rounds."""
        del seed
        rows["rewards"][:] = self.current_round
        return rows

    def rewards(self, own: Batch, expert: Batch) -> th.Tensor:
        """Rewards of this round.

        Args:
            own: Transitions of the learner.
            expert: Transitions of the expert.

        Returns:
            Those of the learner, then those of the expert, shape (seeds, both batches).
        """
        old = (own.rewards < self.current_round).float()
        # There are no old pairs in round 0, whose number of earlier pairs is 0.
        earlier = min(max(self.current_round, 1) * self.round_steps, self.options.buffer_size)
        ours = -old * self._expert_steps / earlier if self.round_steps else th.zeros_like(old)
        return self.reward_scale * th.cat([ours, th.ones_like(expert.rewards)], dim=1)

    def critic_loss(self, own: Batch, expert: Batch) -> th.Tensor:
        """Temporal differences on both halves."""
        return self.td_loss(own.joined(expert), self.rewards(own, expert))
