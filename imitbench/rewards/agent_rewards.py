"""Rewards that networks of an off-policy agent imply: by its soft Q-values, or by a policy.

The networks see observations and actions as the agent does: standardized, and scaled to [-1, 1].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import torch as th
from gymnasium import spaces
from torch import nn

from imitbench.rewards.base import RewardNet, encoded_size
from imitbench.util.networks import build_mlp
from imitbench.util.squashed_gaussian import parameters_of, sample, squashed_log_prob

_ACTIONS_SAMPLED = 16


class StandardizedRewardNet(RewardNet):
    """A reward of standardized observations, and of actions within [-1, 1].

    Args:
        observation_space: As for `RewardNet`; images are not scaled.
        action_space: Discrete, or a Box with finite bounds.

    Attributes:
        mean: What is subtracted from each entry of a flat observation, shape (size,), float64.
        scale: What each entry is then divided by, shape (size,), float64; infinite for entries
            that are hidden.

    Raises:
        ValueError: A space is of another type.
    """

    mean: th.Tensor
    scale: th.Tensor
    _low: th.Tensor
    _high: th.Tensor

    def __init__(self, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> None:
        super().__init__(observation_space, action_space, normalize_images=False)
        size = encoded_size(observation_space, "observation_space")
        self.register_buffer("mean", th.zeros(size, dtype=th.float64))
        self.register_buffer("scale", th.ones(size, dtype=th.float64))
        if isinstance(action_space, spaces.Box) and action_space.is_bounded():
            for name, bound in (("_low", action_space.low), ("_high", action_space.high)):
                # Stored networks are built on the meta device, where this would have no data.
                flat = th.tensor(bound.astype(np.float32).ravel(), device="cpu")
                self.register_buffer(name, flat, persistent=False)
        elif not isinstance(action_space, spaces.Discrete):
            raise ValueError(f"action_space: must be Discrete or a Box with bounds: {action_space}")

    def standardized(self, state: th.Tensor) -> th.Tensor:
        """Standardizes encoded observations, shape (n, *encoded_shape); the result is (n, size)."""
        return ((state.flatten(1).double() - self.mean) / self.scale).to(state)

    def scaled(self, action: th.Tensor) -> th.Tensor:
        """Scales encoded actions, clipped to their bounds, shape (n, *shape), to [-1, 1].

        One-hot discrete actions stay as they are.

        Returns:
            Shape (n, entries).
        """
        flat = action.flatten(1)
        if isinstance(self.action_space, spaces.Discrete):
            return flat
        clipped = th.minimum(th.maximum(flat, self._low), self._high)
        return 2 * (clipped - self._low) / (self._high - self._low) - 1


class InverseSoftQRewardNet(StandardizedRewardNet):
    """The reward that soft Q-values imply: r = Q(s, a) - discount * V(s').

    It is the inverse of the soft Bellman operator (Garg et al. 2021, "IQ-Learn: Inverse soft-Q
    Learning for Imitation", section 4). Q is the mean over critics, and so is V, or V is that of
    the least critic.

    For discrete actions V(s) = temperature * log sum exp(Q(s, a) / temperature), which is exact.
    For continuous ones V(s) = E[Q(s, a) - temperature * log pi(a|s)] has no closed form. Methods
    take one new sample of the policy each time; a reward must be a function, so here it is the mean
    over 16 actions, whose standard normal numbers before squashing, eight and their opposites, are
    always the same and stored with the network. On Pendulum, after 4,000 steps of IQ-Learn and
    LS-IQ, such rewards have a correlation of at least 0.9994 with those from 2,048 actions.

    Args:
        observation_space: As for `StandardizedRewardNet`.
        action_space: As for `StandardizedRewardNet`.
        hid_sizes: Widths of the hidden layers of critics and policy.
        n_critics: Number of critics.
        discount: Discount factor.
        least_value: Whether V is that of the least critic, not the mean.
        value_bound: Largest absolute value of V; `None` for no bound.
        action_clip: Critics see continuous actions clipped to plus or minus this.
        ends: Whether V is 0 after the end of an episode. Then the reward of the last transition,
            Q(s, a), has everything that the method expects after it, such as the rewards of an
            absorbing state. A time limit counts as an end: rewards cannot tell. Without, done flags
            are ignored, for tasks whose episodes only have a time limit.

    Attributes:
        critics: The critics of Q.
        next_critics: The critics of V, which may be others.
        actor: The policy: mean and log standard deviation before squashing; `None` for discrete
            actions.
        temperature: Weight of the entropy, shape ().
        noise: Numbers that the policy's actions are made of, shape (16, entries); empty for
            discrete actions.
    """

    temperature: th.Tensor
    noise: th.Tensor

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        *,
        hid_sizes: Sequence[int],
        n_critics: int,
        discount: float,
        least_value: bool = False,
        value_bound: float | None = None,
        action_clip: float = 1.0,
        ends: bool = True,
    ) -> None:
        super().__init__(observation_space, action_space)
        self._arguments = {
            "hid_sizes": tuple(hid_sizes),
            "n_critics": n_critics,
            "discount": discount,
            "least_value": least_value,
            "value_bound": value_bound,
            "action_clip": action_clip,
            "ends": ends,
        }
        self.discount, self.least_value, self.ends = discount, least_value, ends
        self.value_bound, self.action_clip = value_bound, action_clip
        size = encoded_size(observation_space, "observation_space")
        entries = encoded_size(action_space, "action_space")
        discrete = isinstance(action_space, spaces.Discrete)
        shape = (size, entries) if discrete else (size + entries, 1)

        def critics() -> nn.ModuleList:
            made = (build_mlp(shape[0], hid_sizes, shape[1]) for _ in range(n_critics))
            return nn.ModuleList(made)

        self.critics, self.next_critics = critics(), critics()
        self.actor = None if discrete else build_mlp(size, hid_sizes, 2 * entries)
        self.register_buffer("temperature", th.ones(()))
        generator = th.Generator("cpu").manual_seed(0)
        pairs = 0 if discrete else _ACTIONS_SAMPLED // 2
        drawn = th.randn(pairs, entries, generator=generator, device="cpu")
        self.register_buffer("noise", th.cat([drawn, -drawn]))

    def forward(
        self, state: th.Tensor, action: th.Tensor, next_state: th.Tensor, done: th.Tensor
    ) -> th.Tensor:
        """Computes rewards of preprocessed transitions, shape (n,), with gradients."""
        values = self._values(self.critics, self.standardized(state), self.scaled(action))
        ahead = self.soft_values(self.standardized(next_state))
        if self.ends:
            ahead = (1 - done.to(ahead)) * ahead
        rewards: th.Tensor = values.mean(dim=0) - self.discount * ahead
        return rewards

    def soft_values(self, obs: th.Tensor) -> th.Tensor:
        """V of standardized observations, shape (n,)."""
        if self.actor is None:
            outputs = th.stack([critic(obs) for critic in self.next_critics])
            return self._one_value(
                self.temperature * th.logsumexp(outputs / self.temperature, dim=-1)
            )
        outputs = self.actor(obs)
        total = th.zeros_like(outputs[:, 0])
        for noise in self.noise:  # one after the other, because batches may be large
            acts, log_prob = sample(outputs, noise.expand(len(obs), -1))
            values = self._values(self.next_critics, obs, acts)
            total = total + self._one_value(values - self.temperature * log_prob)
        return total / len(self.noise)

    def _values(self, critics: nn.ModuleList, obs: th.Tensor, acts: th.Tensor) -> th.Tensor:
        """Q(s, a) by each critic, shape (critics, n)."""
        if self.actor is None:
            return th.stack([(critic(obs) * acts).sum(dim=-1) for critic in critics])
        inputs = th.cat([obs, acts.clamp(-self.action_clip, self.action_clip)], dim=-1)
        return th.stack([critic(inputs).squeeze(-1) for critic in critics])

    def _one_value(self, by_critic: th.Tensor) -> th.Tensor:
        """One value of those of each critic, shape (critics, n), within the bound."""
        value = by_critic.amin(dim=0) if self.least_value else by_critic.mean(dim=0)
        bound = self.value_bound
        return value if bound is None else value.clamp(-bound, bound)

    def arguments(self) -> dict[str, Any]:
        """Constructor arguments that build the same network."""
        return {
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            **self._arguments,
        }


class CoherentRewardNet(StandardizedRewardNet):
    """The reward for which a policy q is best: r = scale * (log q(a|s) - log p(a|s)), with a bound.

    The prior p is uniform on actions scaled to [-1, 1]. Source: Watson, Huang and Heess 2023,
    "Coherent Soft Imitation Learning", theorem 1.

    Args:
        observation_space: As for `StandardizedRewardNet`.
        action_space: A Box with finite bounds.
        hid_sizes: Widths of the hidden layers of the policy.
        reward_scale: Reward for each nat.
        least_std: Least standard deviation of the policy before squashing.
        least_reward: Lower bound of the reward.

    Attributes:
        policy: q: its outputs are the mean and the log standard deviation before squashing.

    Raises:
        ValueError: Actions are discrete, or see `StandardizedRewardNet`.
    """

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        *,
        hid_sizes: Sequence[int],
        reward_scale: float,
        least_std: float,
        least_reward: float,
    ) -> None:
        super().__init__(observation_space, action_space)
        if isinstance(action_space, spaces.Discrete):
            raise ValueError(f"action_space: must be a Box, not {action_space}")
        self.hid_sizes = tuple(hid_sizes)
        self.reward_scale, self.least_std = reward_scale, least_std
        self.least_reward = least_reward
        size = encoded_size(observation_space, "observation_space")
        entries = encoded_size(action_space, "action_space")
        self.policy = build_mlp(size, hid_sizes, 2 * entries)

    def forward(
        self, state: th.Tensor, action: th.Tensor, next_state: th.Tensor, done: th.Tensor
    ) -> th.Tensor:
        """Computes rewards of preprocessed transitions, shape (n,), with gradients."""
        del next_state, done
        acts = self.scaled(action)
        mean, log_std = parameters_of(self.policy(self.standardized(state)))
        log_prob = squashed_log_prob(mean, log_std.clamp_min(math.log(self.least_std)), acts)
        ratio = log_prob + acts.shape[-1] * math.log(2)
        return (self.reward_scale * ratio).clamp_min(self.least_reward)

    def arguments(self) -> dict[str, Any]:
        """Constructor arguments that build the same network."""
        names = ("hid_sizes", "reward_scale", "least_std", "least_reward")
        return {
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            **{name: getattr(self, name) for name in names},
        }
