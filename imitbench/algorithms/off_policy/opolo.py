"""Off-policy imitation learning from observations (OPOLO).

Source: Zhu et al. 2020, "Off-Policy Imitation Learning from Observations", arXiv:2102.13185. Where
its text leaves details open they follow illidanlab/opolo-code (no license), which was read, not
copied.
"""

from __future__ import annotations

from typing import Any

import torch as th

from imitbench.algorithms.off_policy.agent import SoftActorCritic
from imitbench.algorithms.off_policy.dac import DACfO
from imitbench.algorithms.off_policy.inverse_dynamics import InverseDynamicsTrainer
from imitbench.algorithms.off_policy.transitions import Batch


class OPOLO(InverseDynamicsTrainer, DACfO):
    """Bounds the divergence of the policy's pairs of states from the expert's, off-policy.

    The Kullback-Leibler divergence of the policy's pairs (s, s') from the expert's is at most the
    mean of log(replay / expert) over the policy's pairs, plus a divergence of the policy's (s, a)
    from the replay buffer's. With the quadratic f-divergence of weight alpha, the dual is

        max over policies, min over Q, of
        alpha * (1 - gamma) * E_start[Q(s, pi(s))]
            + E_replay[(r(s, s') + gamma * Q(s', pi(s')) - Q(s, a))² / 2],

    where r is the logit of a discriminator between expert and replay buffer. So Q is fitted by
    temporal differences, as in DACfO, and pushed down where the policy acts. As in the public code,
    the states of the replay buffer stand in for initial ones, and the policy ascends the first term
    only. The agent is soft actor-critic, where the paper's is TD3: V(s') is soft.

    The policy is regularized by an inverse dynamics model, whose actions in the expert's states its
    own should be near: that covers all of the expert's modes, where the divergence seeks some.

    Args:
        initial_weight: The weight alpha, of values where episodes begin.
        inverse_weight: Weight of the inverse model's actions in the policy's loss.
        **kwargs: See `InverseDynamicsTrainer` and `OffPolicyAdversarialTrainer`.

    Raises:
        ValueError: A weight is negative, or see `InverseDynamicsTrainer`.
    """

    def __init__(
        self, *, initial_weight: float = 0.1, inverse_weight: float = 0.1, **kwargs: Any
    ) -> None:
        for name, value in (("initial_weight", initial_weight), ("inverse_weight", inverse_weight)):
            if not value >= 0:
                raise ValueError(f"{name} must be at least 0, not {value}")
        super().__init__(**kwargs)
        self._initial_weight = initial_weight
        self._inverse_weight = inverse_weight

    def critic_loss(self, own: Batch, expert: Batch) -> th.Tensor:
        """Temporal differences, and the policy's values in the learner's states.

        For discrete actions, whose policy is the softmax of the critic, the regularization of the
        policy is part of it.
        """
        agent = self.agent
        targets = self.discriminator.logits(own) + self.next_values(own)
        # One pass for the learner's actions and those that the policy starts with.
        obs, acts = th.cat([own.obs, own.obs], dim=1), th.cat([own.acts, agent.act(own.obs)], dim=1)
        values, start = agent.values(obs, acts).chunk(2, dim=-1)
        loss = 0.5 * (values - targets.detach()).square().mean(dim=-1).sum(dim=0)
        weight = self._initial_weight * (1 - self.options.agent.gamma)
        loss = loss + weight * start.mean(dim=-1).sum(dim=0)
        if isinstance(agent, SoftActorCritic):
            return loss
        return loss + self._inverse_weight * self.cloning_loss(expert)

    def improve_policy(self, own: Batch, expert: Batch) -> dict[str, th.Tensor]:
        """Takes a step of the policy, up its values and towards the inverse model's actions."""
        if not isinstance(self.agent, SoftActorCritic):
            return super().improve_policy(own, expert)
        loss = self.cloning_loss(expert, mode_only=True)
        logged = self.agent.update_actor(self.actor_obs(own, expert), self._inverse_weight * loss)
        return {**logged, "bc/loss": loss.detach()}
