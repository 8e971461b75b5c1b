"""ValueDICE: matching the expert's distribution with one objective for values and policy.

Source: Kostrikov, Nachum and Tompson 2020, "Imitation Learning via Off-Policy Distribution
Matching", arXiv:1912.05032. Where its text leaves details open they follow
google-research/google-research (Apache-2.0), folder value_dice, which was read, not copied.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch as th

from imitbench.algorithms.off_policy.agent import Critics
from imitbench.algorithms.off_policy.discriminator import stacked_gradient_penalty
from imitbench.algorithms.off_policy.stacked_mlp import StackedMlp
from imitbench.algorithms.off_policy.trainer import OffPolicyOptions, OffPolicyTrainer
from imitbench.algorithms.off_policy.transitions import Batch


class ValueDICE(OffPolicyTrainer):
    """Solves max over policies, min over nu, of the Donsker-Varadhan objective.

    The agent's critic is nu. There is neither a reward nor an entropy bonus, and targets, their
    rate and the temperature are unused.

    Args:
        replay_weight: Share of the replay buffer in the two distributions that are matched.
        gradient_penalty: Weight of the penalty on the gradient of nu.
        orthogonality: Weight of the actor's orthogonal regularization.
        options: Settings; the number of critics is always 1.
        **kwargs: As for `OffPolicyTrainer`.

    Raises:
        ValueError: As `OffPolicyTrainer`, or `replay_weight` is outside [0, 1).
    """

    def __init__(
        self,
        *,
        replay_weight: float = 0.1,
        gradient_penalty: float = 10.0,
        orthogonality: float = 1e-4,
        options: OffPolicyOptions | None = None,
        **kwargs: Any,
    ) -> None:
        if not 0 <= replay_weight < 1:
            raise ValueError(f"replay_weight must lie in [0, 1), not {replay_weight}")
        options = options or OffPolicyOptions()
        options = replace(options, agent=replace(options.agent, n_critics=1))
        super().__init__(options=options, **kwargs)
        self._replay_weight = replay_weight
        self._gradient_penalty = gradient_penalty
        self._orthogonality = orthogonality
        self._drop_constant()

    def objective(
        self, own: Batch, expert: Batch, acts: th.Tensor, critics: Critics = "online"
    ) -> th.Tensor:
        """The objective with replay (equation 18) on a batch of each kind.

        Every state of the expert counts as an initial one, as in the public code.

        Args:
            own: Transitions of the learner.
            expert: Transitions of the expert.
            acts: Actions of the policy in `decisions`, shape (seeds, decisions, actions).
            critics: Whose parameters have derivatives.

        Returns:
            Shape (seeds,).
        """
        count, others = expert.obs.shape[1], own.obs.shape[1]
        obs = th.cat([expert.obs, own.obs, self.decisions(own, expert)], dim=1)
        nu = self.agent.values(obs, th.cat([expert.acts, own.acts, acts], dim=1), critics)[0]
        theirs, ours, start, theirs_next, ours_next = th.split(
            nu, [count, others, count, count, others], dim=1
        )
        gamma = self.options.agent.gamma
        return donsker_varadhan(
            theirs - gamma * (1 - expert.terminal) * theirs_next,
            ours - gamma * (1 - own.terminal) * ours_next,
            (1 - gamma) * start,
            self._replay_weight,
        )

    def decisions(self, own: Batch, expert: Batch) -> th.Tensor:
        """Where the policy acts: initial states, then next ones of the expert and the learner."""
        return th.cat([expert.obs, expert.next_obs, own.next_obs], dim=1)

    def critic_loss(self, own: Batch, expert: Batch) -> th.Tensor:
        """The objective, which nu minimizes, and the penalty on its gradient."""
        acts = self.agent.act(self.decisions(own, expert))
        loss = self.objective(own, expert, acts)
        if not self._gradient_penalty:
            return loss
        count = expert.obs.shape[1]
        _, theirs_next, ours_next = th.split(acts, [count, count, own.obs.shape[1]], dim=1)
        penalty = stacked_gradient_penalty(
            self.agent.critics, _pairs(expert, theirs_next), _pairs(own, ours_next), self.streams
        )
        return loss + self._gradient_penalty * penalty

    def improve_policy(self, own: Batch, expert: Batch) -> dict[str, th.Tensor]:
        """Takes a step of the policy up the same objective."""
        self._drop_constant()
        agent = self.actor_critic
        acts, log_prob = agent.sample(self.decisions(own, expert))
        objective = self.objective(own, expert, acts, "frozen")
        loss = -objective
        if self._orthogonality:
            loss = loss + self._orthogonality * off_diagonal(agent.actor)
        agent.step_actor(loss.sum())
        return {"objective": objective.detach(), "entropy": -log_prob.detach().mean(dim=1)}

    def _drop_constant(self) -> None:
        """Keeps the last bias of nu at 0.

        The objective does not change with it, so Adam would turn the rounding errors of its
        derivative into steps.
        """
        with th.no_grad():
            self.agent.critics.vector[:, -1] = 0.0


def donsker_varadhan(
    theirs: th.Tensor, ours: th.Tensor, start: th.Tensor, replay_weight: float
) -> th.Tensor:
    """Log of the mean of exp(x) over the mixture, minus the mean of x under the policy's mixture.

    For the best nu it is minus the Kullback-Leibler divergence of the policy's mixture from the
    expert's, where x = nu(s, a) - gamma * nu(s', pi(s')). The mean of x under the policy is that of
    (1 - gamma) * nu(s, pi(s)) in initial states.

    Args:
        theirs: x of the expert's transitions, shape (seeds, batch).
        ours: x of the learner's, shape (seeds, other batch).
        start: (1 - gamma) * nu in initial states, shape (seeds, any batch).
        replay_weight: Share of the learner's transitions in both mixtures.

    Returns:
        Shape (seeds,).
    """
    share = math.log1p(-replay_weight) - math.log(theirs.shape[1])
    parts = [theirs + share]
    if replay_weight:
        parts.append(ours + (math.log(replay_weight) - math.log(ours.shape[1])))
    linear = (1 - replay_weight) * start.mean(dim=1) + replay_weight * ours.mean(dim=1)
    return th.logsumexp(th.cat(parts, dim=1), dim=1) - linear


def off_diagonal(stack: StackedMlp) -> th.Tensor:
    """Squared products of different columns of the weights, summed over layers.

    Source: Brock, Donahue and Simonyan 2019, "Large Scale GAN Training", equation 3.

    Returns:
        Shape (members,), with derivatives by the parameters.
    """
    total = th.zeros(stack.members, device=stack.vector.device)
    for weight, _ in stack.layers(stack.vector):
        products = weight.transpose(1, 2) @ weight
        diagonal = products.diagonal(dim1=1, dim2=2)
        total = total + products.square().sum(dim=(1, 2)) - diagonal.square().sum(dim=1)
    return total


def _pairs(batch: Batch, next_acts: th.Tensor) -> th.Tensor:
    """Inputs of nu at a batch's pairs and at the next ones."""
    now = th.cat([batch.obs, batch.acts], dim=-1)
    return th.cat([now, th.cat([batch.next_obs, next_acts], dim=-1)], dim=1)
