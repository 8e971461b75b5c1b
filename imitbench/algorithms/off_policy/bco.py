"""Behavioral cloning from observation (BCO): cloning actions that an inverse model infers.

Source: Torabi, Warnell and Stone 2018, "Behavioral Cloning from Observation", arXiv:1805.01954.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import torch as th

from imitbench.algorithms.off_policy.agent import SoftActorCritic
from imitbench.algorithms.off_policy.inverse_dynamics import InverseDynamicsTrainer
from imitbench.algorithms.off_policy.trainer import OffPolicyOptions
from imitbench.algorithms.off_policy.transitions import Batch


class BCO(InverseDynamicsTrainer):
    """Alternates between acting, fitting the inverse model, and cloning: the paper's BCO(alpha).

    The first `learning_starts` steps are random. A round then fits the model to all steps so far,
    infers the expert's actions with it, and clones them. Each further round has its own steps of
    the policy, a share `alpha` of the first number. Model and policy keep their parameters from
    round to round.

    Only the agent's policy is used: for continuous actions its actor, and for discrete ones the
    critic of which it is the softmax, at a temperature of 1. There is no absorbing state.

    Args:
        alpha: Environment steps between two rounds, as a share of `learning_starts`; 0 for a
            single round, so that all further steps are in vain.
        model_updates: Updates of the model in each round.
        bc_updates: Updates of behavioral cloning in each round.
        options: Settings; some are not used: see above.
        **kwargs: See `InverseDynamicsTrainer`.

    Raises:
        ValueError: A value is out of range, or see `InverseDynamicsTrainer`.
    """

    def __init__(
        self,
        *,
        alpha: float = 0.1,
        model_updates: int = 500,
        bc_updates: int = 500,
        options: OffPolicyOptions | None = None,
        **kwargs: Any,
    ) -> None:
        if not alpha >= 0:
            raise ValueError(f"alpha must be at least 0, not {alpha}")
        for name, value in (("model_updates", model_updates), ("bc_updates", bc_updates)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        given = options or OffPolicyOptions()
        options = replace(
            given,
            updates=model_updates + bc_updates,
            absorbing_states=False,
            agent=replace(given.agent, temperature=1.0, n_critics=1),
        )
        super().__init__(options=options, **kwargs)
        self._model_updates = model_updates
        self._round_steps = max(1, round(alpha * options.learning_starts)) if alpha else None

    def _update_is_due(self) -> bool:
        """Whether a round begins."""
        spent = self.num_timesteps - self.options.learning_starts
        if spent < 0:
            return False
        if not self._ready:
            self._become_ready()
            return True
        return self._round_steps is not None and spent % self._round_steps < self._collector.n_envs

    def update_kind(self) -> Hashable | None:
        """Whether it is the model's turn in this round."""
        return self.n_updates % self.options.updates < self._model_updates

    def _compute_update(self) -> dict[str, th.Tensor]:
        size = self.options.batch_size
        if self.update_kind():
            return self.inverse.update(self._replay.sample(self.streams, size))
        expert = self.expert.sample(self.streams, size)
        return self.improve_policy(expert, expert)

    def improve_policy(self, own: Batch, expert: Batch) -> dict[str, th.Tensor]:
        """Takes a step of behavioral cloning."""
        loss = self.critic_loss(own, expert)
        if isinstance(self.agent, SoftActorCritic):
            self.agent.step_actor(loss.sum())
        else:
            self.agent.update_critics(loss.sum())
        self.agent.follow()
        return {"bc/loss": loss.detach()}

    def critic_loss(self, own: Batch, expert: Batch) -> th.Tensor:
        """What the policy minimizes, which is the critic's softmax for discrete actions."""
        del own
        return self.cloning_loss(expert)
