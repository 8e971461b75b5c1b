"""LS-IQ: IQ-Learn as least squares with bounded rewards.

Source: Al-Hafez et al. 2023, "LS-IQ: Implicit Reward Regularization for Inverse Reinforcement
Learning", arXiv:2303.00599. Its public code, robfiras/ls-iq, is under the MIT license.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch as th

from imitbench.algorithms.off_policy.inverse_dynamics import InverseDynamicsTrainer
from imitbench.algorithms.off_policy.reward_export import ImplicitRewardTrainer
from imitbench.algorithms.off_policy.transitions import Batch, shares

ExpertTargets = Literal["fixed", "bootstrap"]
PolicyLoss = Literal["value", "replay"]
AbsorbingValues = Literal["fixed", "learned"]


def bounded_targets(
    reward: float,
    next_values: th.Tensor,
    *,
    gamma: float,
    bound: float | None = None,
    ended: th.Tensor | None = None,
    value_at_end: float | th.Tensor = 0.0,
) -> th.Tensor:
    """Targets r + gamma * V(s'), with V(s') within the bounds of bounded rewards' values.

    Args:
        reward: The same for all samples.
        next_values: V(s'), shape (…, n).
        gamma: Discount factor.
        bound: Largest absolute value of V(s'); `None` for no bounds.
        ended: Whether s' is absorbing, shape (…, n), bool; `None` if it nowhere is.
        value_at_end: V of the absorbing state, a number or of shape (n,).

    Returns:
        Shape (…, n).
    """
    if bound is not None:
        next_values = next_values.clamp(-bound, bound)
    if ended is not None:
        next_values = th.where(ended, value_at_end, next_values)
    return reward + gamma * next_values


def ls_iq_loss(
    expert_values: th.Tensor,
    expert_targets: th.Tensor,
    policy_values: th.Tensor,
    policy_targets: th.Tensor,
    *,
    expert: th.Tensor,
    policy: th.Tensor,
) -> th.Tensor:
    """Squared Bellman error with one reward for the expert and another for the policy.

    With Q(s, a) as values and targets ±1/c + gamma * V(s') it is 1/c times IQ-Learn's loss with the
    penalty c * E[r²] on the mixture of both, up to a constant (section 3 of the paper).

    Args:
        expert_values: Values of the expert's samples, shape (…, n).
        expert_targets: Their targets, a shape that broadcasts to (…, n).
        policy_values: Values of the policy's samples, shape (…, m).
        policy_targets: Their targets, a shape that broadcasts to (…, m).
        expert: Probabilities of the expert's samples, shape (n,).
        policy: Probabilities of the policy's samples, shape (m,).

    Returns:
        Half of both expected squared errors together, shape (…).
    """
    of_expert = (expert * (expert_values - expert_targets).square()).sum(dim=-1)
    of_policy = (policy * (policy_values - policy_targets).square()).sum(dim=-1)
    return 0.5 * (of_expert + of_policy)


class LSIQ(ImplicitRewardTrainer):
    """Trains soft Q-values on the largest reward for the expert and the least for the policy.

    Args:
        regularization: The paper's c, for a mixture of equal parts: rewards lie within ±1/c, and
            values within ±1 / (c * (1 - gamma)).
        expert_targets: Whether the expert's values are trained on their upper bound, `fixed`, or on
            1/c + gamma * V(s'), `bootstrap`.
        policy_loss: What is trained on -1/c + gamma * V(s'): V(s) in the states of replay buffer
            and demonstrations, `value`; or Q(s, a) of the replay buffer, `replay`.
        clip_targets: Whether V(s') in targets is limited to the bounds of the values.
        absorbing_values: Whether the value of the absorbing state is its bound, `fixed`, or
            learned like any other, `learned`, which is 0 without `absorbing_states`.
        **kwargs: As for `OffPolicyTrainer`.

    Attributes:
        reward_bound: Largest absolute reward.
        value_bound: Largest absolute discounted sum of rewards.

    Raises:
        ValueError: As `OffPolicyTrainer`, or a value is out of range.
    """

    discrete_actions = True
    improves_on_both = True  # the loss takes V(s) to be the best policy's in both
    least_value = True

    def __init__(
        self,
        *,
        regularization: float = 0.5,
        expert_targets: ExpertTargets = "fixed",
        policy_loss: PolicyLoss = "value",
        clip_targets: bool = True,
        absorbing_values: AbsorbingValues = "fixed",
        **kwargs: Any,
    ) -> None:
        for name, value, known in (
            ("expert_targets", expert_targets, get_args(ExpertTargets)),
            ("policy_loss", policy_loss, get_args(PolicyLoss)),
            ("absorbing_values", absorbing_values, get_args(AbsorbingValues)),
        ):
            if value not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, not {value!r}")
        if not regularization > 0:
            raise ValueError(f"regularization must be positive, not {regularization}")
        super().__init__(**kwargs)
        gamma = self.options.agent.gamma
        if gamma == 1:
            raise ValueError("gamma must be below 1, because values are bounded by 1 / (1 - gamma)")
        self.reward_bound = 1 / regularization
        self.value_bound = self.reward_bound / (1 - gamma)
        self._fixed_expert = expert_targets == "fixed"
        self._in_all_states = policy_loss == "value"
        self.value_limit = self.value_bound if clip_targets else None
        self._fixed_ends = absorbing_values == "fixed"
        size, device = self.options.batch_size, self.streams.device
        self._each = th.full((size,), 1 / size, device=device)
        self._policy_shares = shares(size, 0.5, 0.5, device) if self._in_all_states else self._each
        # The learner's end has the least value. The expert's, where the policy is meant to end like
        # it, has the middle: that is the reward of what both visit alike.
        ends = th.tensor([-self.value_bound, 0.0])
        self._policy_ends = ends.repeat_interleave(size).to(device)

    def critic_loss(self, own: Batch, expert: Batch) -> th.Tensor:
        """Squared Bellman error, summed over critics."""
        bound = self.value_bound
        if self._fixed_expert:
            expert_targets = th.full_like(expert.terminal, bound)
        else:
            expert_targets = self._targets(expert, self.reward_bound, bound)
        if self._in_all_states:
            both = own.joined(expert)
            policy_values = self.agent.soft_values(both.obs)
            policy_targets = self._targets(both, -self.reward_bound, self._policy_ends)
        else:
            policy_values = self.agent.values(own.obs, own.acts)
            policy_targets = self._targets(own, -self.reward_bound, -bound)
        by_critic = ls_iq_loss(
            self.agent.values(expert.obs, expert.acts),
            expert_targets,
            policy_values,
            policy_targets,
            expert=self._each,
            policy=self._policy_shares,
        )
        return by_critic.sum(dim=0)

    def _targets(self, batch: Batch, reward: float, value_at_end: float | th.Tensor) -> th.Tensor:
        with th.no_grad():
            next_values = self.agent.soft_values(batch.next_obs, "target").amin(dim=0)
            if not self._fixed_ends:
                next_values = (1 - batch.terminal) * next_values
            return bounded_targets(
                reward,
                next_values,
                gamma=self.options.agent.gamma,
                bound=self.value_limit,
                ended=self.ended(batch) if self._fixed_ends else None,
                value_at_end=value_at_end,
            )


class LSIQObs(InverseDynamicsTrainer, LSIQ):
    """LS-IQ from observations: an inverse dynamics model infers the expert's actions.

    They are inferred anew for every batch, with the model as it is then. The authors' code draws
    them from the model's distribution; these are its most likely ones.

    Args:
        **kwargs: As for `InverseDynamicsTrainer` and `LSIQ`.
    """

    def critic_loss(self, own: Batch, expert: Batch) -> th.Tensor:
        """LS-IQ's, with the inferred actions."""
        return super().critic_loss(own, self.with_actions(expert))
