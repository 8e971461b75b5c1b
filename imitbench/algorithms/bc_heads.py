"""Behavioral cloning of continuous actions with other outputs than one Gaussian.

The head, a policy of `imitbench.policies.action_heads`, brings its own loss; everything else is
`BC`. See `docs/methods/bc.md` for the equations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch as th
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.type_aliases import PyTorchObs

from imitbench.algorithms import base
from imitbench.algorithms.bc import BC
from imitbench.algorithms.bc_loss import GradientStep, half_squared_norm
from imitbench.policies.action_heads import HeadPolicy


@dataclass(frozen=True)
class HeadMetrics:
    """The loss and its parts, scalars averaged over a batch.

    Attributes:
        head_loss: Loss of the head, in its own units.
        action_error: Root of the mean squared difference of the deterministic action from the
            expert's, in scaled actions.
        l2_norm: Half the sum of squared parameters.
        l2_loss: `l2_weight * l2_norm`.
        loss: Sum of `head_loss` and `l2_loss`.
    """

    head_loss: th.Tensor
    action_error: th.Tensor
    l2_norm: th.Tensor
    l2_loss: th.Tensor
    loss: th.Tensor


@dataclass(frozen=True)
class HeadLossCalculator:
    """Computes the loss of a head.

    Attributes:
        l2_weight: Weight of half the sum of squared parameters.
        rng: Source of randomness of heads whose loss is random.
    """

    l2_weight: float
    rng: np.random.Generator

    @property
    def ent_weight(self) -> float:
        """Heads have no entropy bonus."""
        return 0.0

    def __call__(self, policy: HeadPolicy, obs: PyTorchObs, acts: th.Tensor) -> HeadMetrics:
        """Computes the loss with all its parts, always with the same random numbers.

        Args:
            policy: The policy.
            obs: Observations, shape (batch, *observation_shape), or a dictionary of them.
            acts: The expert's actions, shape (batch, *action_shape).
        """
        # A measurement must not use up random numbers of the training.
        head_loss = policy.loss(obs, acts, np.random.default_rng(0)).mean()
        chosen = policy.choose(policy.features(obs), deterministic=True)
        l2_norm = half_squared_norm(policy)
        l2_loss = self.l2_weight * l2_norm
        return HeadMetrics(
            head_loss=head_loss,
            action_error=(chosen - policy.scaled(acts)).square().mean().sqrt(),
            l2_norm=l2_norm,
            l2_loss=l2_loss,
            loss=head_loss + l2_loss,
        )

    def gradient_step(self, policy: HeadPolicy) -> GradientStep:
        """As `BehaviorCloningLossCalculator.gradient_step`."""

        def step(obs: PyTorchObs, acts: th.Tensor, scale: float) -> None:
            loss = policy.loss(obs, acts, self.rng).mean()
            if self.l2_weight:
                loss = loss + self.l2_weight * half_squared_norm(policy)
            (scale * loss).backward()  # type: ignore[no-untyped-call]

        return step


class BCWithHead(BC):
    """Behavioral cloning with the loss of a policy from `imitbench.policies.action_heads`.

    Args:
        policy: Policy to train; its spaces are those of the demonstrations.
        rng: Draws the order of the demonstrations and the randomness of losses, and seeds rollouts.
        demonstrations: Demonstrations; `None` to set them later.
        batch_size: Transitions for each optimizer step.
        l2_weight: Weight of half the sum of squared parameters.
        **kwargs: Further arguments of `BC`, without `ent_weight`.

    Raises:
        TypeError: `policy` is of another kind.
        ValueError: As `BC`.
    """

    def __init__(
        self,
        *,
        policy: HeadPolicy,
        rng: np.random.Generator,
        demonstrations: base.AnyTransitions | None = None,
        batch_size: int = 64,
        l2_weight: float = 0.0,
        **kwargs: Any,
    ) -> None:
        if not isinstance(policy, HeadPolicy):
            raise TypeError(
                "policy must be one of imitbench.policies.action_heads, "
                f"not {type(policy).__name__}; others are trained by BC"
            )
        super().__init__(
            observation_space=policy.observation_space,
            action_space=policy.action_space,
            rng=rng,
            # `BC` asks nothing of it that only actor-critic policies have, apart from the loss.
            policy=cast(ActorCriticPolicy, policy),
            demonstrations=demonstrations,
            batch_size=batch_size,
            ent_weight=0.0,
            l2_weight=l2_weight,
            **kwargs,
        )
        self.loss_calculator = HeadLossCalculator(l2_weight, rng)

    @property
    def policy(self) -> HeadPolicy:  # type: ignore[override]
        """The policy that imitates the demonstrations."""
        return cast(HeadPolicy, self._policy)
