"""Generative adversarial imitation learning (GAIL).

Source: Ho and Ermon 2016, "Generative Adversarial Imitation Learning", arXiv:1606.03476.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv
from torch import nn

from imitbench.algorithms import base
from imitbench.algorithms.adversarial.common import AdversarialTrainer
from imitbench.rewards.reward_nets import NormalizedRewardNet, RewardNet
from imitbench.rewards.wrappers import RewardForm, RewardNetFromDiscriminatorLogit

__all__ = ["GAIL", "RewardNetFromDiscriminatorLogit"]


class GAIL(AdversarialTrainer):
    """Trains a policy whose transitions a discriminator cannot tell from the expert's.

    Args:
        demonstrations: Demonstrations; `None` to set them later.
        demo_batch_size: Expert samples in each batch of the discriminator.
        venv: Environments of the generator.
        gen_algo: Reinforcement-learning algorithm of the generator.
        reward_net: Network whose output is the discriminator's logit.
        reward_form: Formula of rewards from logits, see `RewardNetFromDiscriminatorLogit`.
        normalize_reward: Layer that normalizes the generator's rewards, such as `RunningNorm`;
            none by default.
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
        reward_form: RewardForm = "softplus",
        normalize_reward: Callable[[int], nn.Module] | None = None,
        **kwargs: Any,
    ) -> None:
        self._logit = reward_net
        self._reward = RewardNetFromDiscriminatorLogit(self._logit, reward_form)
        self._reward_train: RewardNet = self._reward
        if normalize_reward is not None:
            # The layer wraps the logits, so that it is trained, saved and restored with them.
            reward_net = NormalizedRewardNet(self._reward, normalize_reward)
            self._reward_train = reward_net
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
    def _penalized_net(self) -> RewardNet:
        return self._logit

    @property
    def reward_train(self) -> RewardNet:
        """-log(1 - D), or the formula of `reward_form`, with `normalize_reward` applied."""
        return self._reward_train

    @property
    def reward_test(self) -> RewardNet:
        """The reward of training without normalization."""
        return self._reward
