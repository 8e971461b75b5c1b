"""Adversarial inverse reinforcement learning (AIRL).

Source: Fu, Luo and Levine 2018, "Learning Robust Rewards with Adversarial Inverse Reinforcement
Learning", arXiv:1710.11248.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.sac.policies import SACPolicy

from imitbench.algorithms import base
from imitbench.algorithms.adversarial.common import AdversarialTrainer
from imitbench.algorithms.adversarial.discriminator import Array, log_action_probability
from imitbench.policies.bounded_actions import ActionBounds, has_bounds
from imitbench.rewards.reward_nets import RewardNet, RewardNetWrapper, ShapedRewardNet
from imitbench.util.util import safe_to_tensor


class AIRL(AdversarialTrainer):
    """Learns a reward that, without its shaping, transfers to other dynamics.

    The expert must be stochastic: the discriminator compares the reward with the log-probability of
    the action under the generator.

    Args:
        demonstrations: Demonstrations; `None` to set them later.
        demo_batch_size: Expert samples in each batch of the discriminator.
        venv: Environments of the generator.
        gen_algo: The generator, with a stochastic policy: PPO, A2C or SAC.
        reward_net: The reward, usually a `ShapedRewardNet`.
        uniform_share: Share *w* of the uniform distribution in the density that the discriminator
            compares the reward with: (1 - w) pi + w / volume (a defensive mixture, Hesterberg
            1995, "Weighted average importance sampling and defensive mixture distributions"; Finn
            et al. 2016, arXiv:1611.03852, section 4, mix it with a model of the expert). With 0,
            the paper's, expert actions that are improbable under the generator make the
            discriminator certain whatever the reward, which then gets no gradient.
        bounded_density: Whether the log-probability is that of actions as the environment gets
            them, clipped to their bounds (see `imitbench.policies.bounded_actions`), and not that
            of the normal distribution before clipping. The demonstrations have clipped actions
            alone, so only their distributions can be compared. `None` for yes where actions are
            numbers with finite bounds.
        reward_entropy: Weight *c* of the entropy in the generator's reward, f - c log pi(a|s), with
            the density that the discriminator uses, but without the uniform distribution. With 1,
            the paper's (Algorithm 1), the generator keeps as much noise as the expert. With 0, it
            becomes as certain as exploration allows, and the discriminator knows it by its density.
        **kwargs: Passed on to `AdversarialTrainer`.

    Raises:
        TypeError: The generator's policy has no action probabilities.
        ValueError: As `AdversarialTrainer`; or `uniform_share` is not in [0, 1]; or it is positive,
            or `bounded_density` is True, for actions without finite bounds; or `reward_entropy` is
            negative.
    """

    def __init__(
        self,
        *,
        demonstrations: base.AnyTransitions | None,
        demo_batch_size: int,
        venv: VecEnv,
        gen_algo: BaseAlgorithm,
        reward_net: RewardNet,
        uniform_share: float = 0.0,
        bounded_density: bool | None = None,
        reward_entropy: float = 0.0,
        **kwargs: Any,
    ) -> None:
        policy = getattr(gen_algo, "policy", None)
        if isinstance(gen_algo, BaseAlgorithm) and not isinstance(
            policy, ActorCriticPolicy | SACPolicy
        ):
            raise TypeError(
                f"gen_algo: AIRL needs a policy with action probabilities, as PPO, A2C and SAC "
                f"have, not {type(policy).__name__}"
            )
        if not 0 <= uniform_share <= 1:
            raise ValueError(f"uniform_share must lie in [0, 1], not {uniform_share}")
        if not reward_entropy >= 0:
            raise ValueError(f"reward_entropy must be at least 0, not {reward_entropy}")
        self.uniform_share = uniform_share
        self.reward_entropy = reward_entropy
        space = venv.action_space
        if bounded_density is None:
            bounded_density = has_bounds(space)
        self._bounds = ActionBounds.of(space, gen_algo.device) if bounded_density else None
        clipped = self._bounds if isinstance(policy, ActorCriticPolicy) else None
        self._log_uniform = _log_uniform(space, clipped) if uniform_share else 0.0
        self._reward = reward_net
        super().__init__(
            demonstrations=demonstrations,
            demo_batch_size=demo_batch_size,
            venv=venv,
            gen_algo=gen_algo,
            reward_net=reward_net,
            **kwargs,
        )

    def _log_action_probability(self, batch: Mapping[str, Array]) -> th.Tensor | None:
        device = self.policy.device
        obs, acts = (safe_to_tensor(batch[name], device=device) for name in ("obs", "acts"))
        return log_action_probability(self.policy, obs, acts, self._bounds)

    def logits_expert_is_high(
        self,
        state: th.Tensor,
        action: th.Tensor,
        next_state: th.Tensor,
        done: th.Tensor,
        log_policy_act_prob: th.Tensor | None = None,
    ) -> th.Tensor:
        """Computes reward minus log-density of the action: the logit of e^r / (e^r + density).

        The density is the generator's, mixed with the uniform one by `uniform_share`. Arguments as
        in `AdversarialTrainer.logits_expert_is_high`.

        Raises:
            TypeError: `log_policy_act_prob` is `None`.
        """
        if log_policy_act_prob is None:
            raise TypeError("log_policy_act_prob: required by AIRL's discriminator, but None")
        rewards: th.Tensor = self._reward(state, action, next_state, done)
        return rewards - self._log_mixture(log_policy_act_prob)

    def _generator_reward(
        self, state: Array, action: Array, next_state: Array, done: Array
    ) -> Array:
        rewards = super()._generator_reward(state, action, next_state, done)
        if self.reward_entropy == 0:
            return rewards
        log_prob = self._log_action_probability({"obs": state, "acts": action})
        assert log_prob is not None, "checked in the constructor"
        return rewards - self.reward_entropy * log_prob.cpu().numpy()

    def _log_mixture(self, log_prob: th.Tensor) -> th.Tensor:
        share = self.uniform_share
        if share == 0:
            return log_prob
        uniform = th.full_like(log_prob, self._log_uniform + math.log(share))
        if share == 1:
            return uniform
        return th.logaddexp(log_prob + math.log1p(-share), uniform)

    @property
    def reward_train(self) -> RewardNet:
        """The reward with its shaping."""
        return self._reward

    @property
    def reward_test(self) -> RewardNet:
        """The reward inside all wrappers, without its shaping."""
        net = self._reward
        while isinstance(net, RewardNetWrapper):
            if isinstance(net, ShapedRewardNet):
                return net.base
            net = net.base
        return self._reward


def _log_uniform(space: gym.Space[Any], clipped: ActionBounds | None = None) -> float:
    """Log-density of the uniform distribution over a space of actions.

    Args:
        space: The space.
        clipped: Bounds of actions, if densities are those of clipped actions.

    Raises:
        ValueError: The space has no bounds.
    """
    if clipped is not None:
        return clipped.log_uniform()
    if isinstance(space, spaces.Box):
        if not space.is_bounded():
            raise ValueError(f"uniform_share: needs actions with bounds, not {space}")
        return -float(np.log(space.high.astype(np.float64) - space.low).sum())
    if isinstance(space, spaces.MultiDiscrete):
        return -float(np.log(space.nvec).sum())
    if isinstance(space, spaces.MultiBinary):
        return -spaces.flatdim(space) * math.log(2)
    return -math.log(spaces.flatdim(space))
