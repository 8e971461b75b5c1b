"""Hybrid policy emulation (HyPE): inverse reinforcement learning that fits critics to both sides.

Sources: Ren et al. 2024, "Hybrid Inverse Reinforcement Learning", arXiv:2402.08848; Swamy et al.
2021, "Of Moments and Matching", arXiv:2103.03236, for the moments; Gulrajani et al. 2017,
"Improved Training of Wasserstein GANs", for the penalty.
"""

from __future__ import annotations

from typing import Any

import torch as th

from imitbench.algorithms.off_policy.discriminator import Objective, OffPolicyAdversarialTrainer
from imitbench.algorithms.off_policy.transitions import Batch


class HyPE(OffPolicyAdversarialTrainer):
    """Trains a soft actor-critic on batches that are half the learner's and half the expert's.

    Its reward is the function f that separates their moments best,

        max E_expert[f(s, a)] - E_learner[f(s, a)] - weight * E[(|grad f| - 1)^2],

    where the learner's moment is that of the replay buffer, which has all policies so far. The
    reward is updated less often than the agent.

    Args:
        reward_interval: Updates of the agent for each update of the reward.
        objective: `moments` as above, or `cross_entropy` for DAC's discriminator.
        **kwargs: See `OffPolicyAdversarialTrainer`; its discriminator is f.

    Raises:
        ValueError: `reward_interval` is not positive; or see `OffPolicyAdversarialTrainer`.
    """

    improves_on_both = True

    def __init__(
        self, *, reward_interval: int = 10, objective: Objective = "moments", **kwargs: Any
    ) -> None:
        if reward_interval < 1:
            raise ValueError(f"reward_interval must be at least 1, not {reward_interval}")
        super().__init__(objective=objective, **kwargs)
        self.reward_interval = reward_interval

    def update_kind(self) -> bool:
        """Whether a step of f is due."""
        return self.n_updates % self.reward_interval == 0

    def learn(self, own: Batch, expert: Batch) -> dict[str, th.Tensor]:
        """Takes a step of f, if it is due."""
        return self.discriminator.update(own, expert) if self.update_kind() else {}

    def critic_loss(self, own: Batch, expert: Batch) -> th.Tensor:
        """Temporal differences of r = f on both halves, as in hybrid Q-learning."""
        both = own.joined(expert)
        return self.td_loss(both, self.discriminator.logits(both))
