"""IQ-Learn: one soft Q-function that stands for both the reward and the policy.

Source: Garg et al. 2021, "IQ-Learn: Inverse soft-Q Learning for Imitation", arXiv:2106.12142. Its
public code is for research only and carries a patent notice; it was not read.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch as th

from imitbench.algorithms.off_policy.agent import Critics
from imitbench.algorithms.off_policy.reward_export import ImplicitRewardTrainer
from imitbench.algorithms.off_policy.transitions import Batch, shares

ValueLoss = Literal["initial", "replay", "expert", "both"]
Regularization = Literal["expert", "both"]

# Weight of the learner's samples and of the expert's; "initial" uses neither.
_VISITS = {"replay": (1.0, 0.0), "expert": (0.0, 1.0), "both": (0.5, 0.5)}
_PENALIZED = {"expert": (0.0, 1.0), "both": (0.5, 0.5)}


def iq_loss(
    rewards: th.Tensor,
    value_differences: th.Tensor,
    *,
    expert: th.Tensor,
    visits: th.Tensor,
    penalized: th.Tensor,
    alpha: float,
) -> th.Tensor:
    """Minus the objective J(Q) of the chi-square divergence (sections 3 and 5).

    J(Q) = E_expert[r] - E_visits[V(s) - gamma * V(s')] - E_penalized[r²] / (4 * alpha), with the
    implicit reward r = Q(s, a) - gamma * V(s'). If the penalized samples are the expert's, this is
    E_expert[phi(r)] - (1 - gamma) * E[V(s_0)] with the concave phi(r) = r - r² / (4 * alpha): the
    second expectation telescopes to the third term's under every occupancy of the environment.

    Args:
        rewards: Implicit reward of each sample, shape (…, n).
        value_differences: V(s) - gamma * V(s') of each sample, or (1 - gamma) * V(s_0) of each
            initial state, shape (…, m).
        expert: Probabilities of the samples under the expert's distribution, shape (n,).
        visits: Probabilities of the value differences, shape (m,).
        penalized: Probabilities under the distribution of the penalty, shape (n,).
        alpha: The paper's alpha; a larger one penalizes less.

    Returns:
        Shape (…).
    """
    penalty = (penalized * rewards.square()).sum(dim=-1) / (4 * alpha)
    return (visits * value_differences).sum(dim=-1) - (expert * rewards).sum(dim=-1) + penalty


class IQLearn(ImplicitRewardTrainer):
    """Trains a soft Q-function so that its implicit reward tells the expert from the policy.

    Args:
        value_loss: Where the value of the policy's initial states is estimated: in the states in
            which demonstrations begin, `initial`; or as the expectation of V(s) - gamma * V(s')
            over the replay buffer, the demonstrations, or equal parts of `both`.
        regularization: Where large implicit rewards are penalized: on the demonstrations, `expert`,
            as the chi-square divergence says, or on equal parts of demonstrations and replay
            buffer, `both`, which bounds the reward.
        alpha: Strength of the divergence; the penalty is the mean squared reward / (4 * alpha).
        use_targets: Whether V(s') is that of target critics, without derivatives.
        **kwargs: As for `OffPolicyTrainer`.

    Raises:
        ValueError: As `OffPolicyTrainer`, or a value is out of range.
    """

    discrete_actions = True
    improves_on_both = True  # the loss takes V(s) to be the best policy's in both

    def __init__(
        self,
        *,
        value_loss: ValueLoss = "both",
        regularization: Regularization = "both",
        alpha: float = 0.5,
        use_targets: bool = True,
        **kwargs: Any,
    ) -> None:
        for name, value, known in (
            ("value_loss", value_loss, get_args(ValueLoss)),
            ("regularization", regularization, get_args(Regularization)),
        ):
            if value not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, not {value!r}")
        if not alpha > 0:
            raise ValueError(f"alpha must be positive, not {alpha}")
        super().__init__(**kwargs)
        self._alpha = alpha
        self.value_critics: Critics = "target" if use_targets else "online"
        size, device = self.options.batch_size, self.streams.device
        self._expert_shares = shares(size, 0.0, 1.0, device)
        self._penalized = shares(size, *_PENALIZED[regularization], device)
        self._from_start = value_loss == "initial"
        if self._from_start:
            self._visits = th.full((size,), 1 / size, device=device)
        else:
            self._visits = shares(size, *_VISITS[value_loss], device)

    def critic_loss(self, own: Batch, expert: Batch) -> th.Tensor:
        """Minus J(Q), by each critic for itself and summed over them."""
        batch = own.joined(expert)
        gamma = self.options.agent.gamma
        next_values = self.agent.soft_values(batch.next_obs, self.value_critics)
        ahead = gamma * (1 - batch.terminal) * next_values
        rewards = self.agent.values(batch.obs, batch.acts) - ahead
        if self._from_start:
            initial = self.initial_obs(self.options.batch_size)
            differences = (1 - gamma) * self.agent.soft_values(initial)
        else:
            differences = self.agent.soft_values(batch.obs) - ahead
        by_critic = iq_loss(
            rewards,
            differences,
            expert=self._expert_shares,
            visits=self._visits,
            penalized=self._penalized,
            alpha=self._alpha,
        )
        return by_critic.sum(dim=0)
