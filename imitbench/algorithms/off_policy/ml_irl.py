"""Maximum-likelihood inverse reinforcement learning (ML-IRL) in a single loop.

Source: Zeng et al. 2022, "Maximum-Likelihood Inverse Reinforcement Learning with Finite-Time
Guarantees", arXiv:2210.01808. Where its text leaves details open they follow Cloud0723/ML-IRL,
which was read, not copied.
"""

from __future__ import annotations

from typing import Any

import torch as th

from imitbench.algorithms.off_policy.episodes import Trajectories
from imitbench.algorithms.off_policy.explicit_reward import ExplicitRewardTrainer


class MLIRL(ExplicitRewardTrainer):
    """Raises the likelihood of the expert's actions under the soft policy of the reward.

    The gradient of the log-likelihood by the reward's parameters is the difference

        E_expert[sum of g^t grad r(s_t, a_t)] - E_policy[sum of g^t grad r(s_t, a_t)]

    if the policy is the soft optimal one for r (lemma 1). The agent improves the policy by a few
    updates on the present reward, instead of solving for it; then the reward takes a step up this
    difference, with the learner's latest trajectories in place of the policy's (algorithm 1).

    Args:
        reward_discount: g; 1 counts all steps of a trajectory alike.
        **kwargs: See `ExplicitRewardTrainer`.

    Raises:
        ValueError: `reward_discount` is not in [0, 1], or see `ExplicitRewardTrainer`.
    """

    def __init__(self, *, reward_discount: float = 1.0, **kwargs: Any) -> None:
        if not 0 <= reward_discount <= 1:
            raise ValueError(f"reward_discount must lie in [0, 1], not {reward_discount}")
        super().__init__(**kwargs)
        self.trajectory_discount = reward_discount

    def slopes(self, own: Trajectories, expert: Trajectories) -> tuple[th.Tensor, th.Tensor]:
        """Those of the learner's mean return minus the expert's, for each step of the latter."""
        scale = expert.weights.sum(dim=(1, 2), keepdim=True)
        return own.weights / scale, -expert.weights / scale
