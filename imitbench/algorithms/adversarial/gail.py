"""Generative adversarial imitation learning.

Source: Ho and Ermon 2016, "Generative Adversarial Imitation Learning", arXiv:1606.03476.
"""

from __future__ import annotations

from typing import Any

import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv

from imitbench.algorithms import base
from imitbench.algorithms.adversarial.common import AdversarialTrainer
from imitbench.rewards.discriminator_reward import RewardNetFromDiscriminatorLogit
from imitbench.rewards.reward_nets import RewardNet

__all__ = ["GAIL", "RewardNetFromDiscriminatorLogit"]


class GAIL(AdversarialTrainer):
    """Trains a policy to do what a discriminator cannot tell from the expert.

    Args:
        demonstrations: Demonstrations; `None` when they are set later.
        demo_batch_size: Expert samples in each batch of the discriminator.
        venv: Where the generator acts.
        gen_algo: The generator.
        reward_net: Network whose output is the discriminator's logit.
        **kwargs: Passed on to `AdversarialTrainer`.

    Raises:
        ValueError: As `AdversarialTrainer`.
    """

    def __init__(
        self,
        *,
        demonstrations: base.AnyTransitions | None,
        demo_batch_size: int,
        venv: VecEnv,
        gen_algo: BaseAlgorithm,
        reward_net: RewardNet,
        **kwargs: Any,
    ) -> None:
        self._logit = reward_net
        self._reward = RewardNetFromDiscriminatorLogit(self._logit)
        super().__init__(
            demonstrations=demonstrations,
            demo_batch_size=demo_batch_size,
            venv=venv,
            gen_algo=gen_algo,
            reward_net=reward_net,
            **kwargs,
        )

    def logits_expert_is_high(
        self,
        state: th.Tensor,
        action: th.Tensor,
        next_state: th.Tensor,
        done: th.Tensor,
        log_policy_act_prob: th.Tensor | None = None,
    ) -> th.Tensor:
        """The network's output; see `AdversarialTrainer.logits_expert_is_high`."""
        logits: th.Tensor = self._logit(state, action, next_state, done)
        return logits

    @property
    def reward_train(self) -> RewardNet:
        """-log(1 - D)."""
        return self._reward

    @property
    def reward_test(self) -> RewardNet:
        """-log(1 - D), the same as in training."""
        return self._reward
