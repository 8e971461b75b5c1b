"""The off-policy agent on given rewards: the environment's, a constant, or those of PEBBLE.

Source of the agent of PEBBLE: Lee, Smith and Abbeel 2021, "PEBBLE: Feedback-Efficient Interactive
Reinforcement Learning via Relabeling Experience and Unsupervised Pre-training", arXiv:2106.05091.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces

from imitbench.algorithms.off_policy.collector import Array, Rows
from imitbench.algorithms.off_policy.trainer import OffPolicyTrainer
from imitbench.algorithms.off_policy.transitions import Batch
from imitbench.rewards.reward_function import RewardFn
from imitbench.util.actions import unscale_actions

# Transitions whose rewards are computed in one call, and the largest table of distances.
_AT_ONCE = 8192


class TrueRewardTrainer(OffPolicyTrainer):
    """Trains the agent on the environment's reward, as soft actor-critic (Haarnoja et al. 2018).

    For arguments, see `OffPolicyTrainer`; demonstrations are not used.
    """

    discrete_actions = True
    uses_demonstrations = False

    def critic_loss(self, own: Batch, expert: Batch) -> th.Tensor:
        """Temporal differences of the stored rewards."""
        del expert
        return self.td_loss(own, own.rewards)

    def set_rewards(self, seed: int, rows: Rows) -> Rows:
        """Gives new transitions the environment's rewards; inside the absorbing state it is 0."""
        count = self._collector.n_envs
        rows["rewards"][:count] = self._collector.rewards[seed * count : (seed + 1) * count]
        return rows


class ConstantRewardTrainer(OffPolicyTrainer):
    """Trains the agent on the same reward for every transition, those of absorbing states included.

    Args:
        reward: The reward.
        **kwargs: See `OffPolicyTrainer`; demonstrations are not used.

    Raises:
        ValueError: `reward` is not finite, or see `OffPolicyTrainer`.
    """

    discrete_actions = True
    uses_demonstrations = False

    def __init__(self, *, reward: float, **kwargs: Any) -> None:
        if not np.isfinite(reward):
            raise ValueError(f"reward must be finite, not {reward}")
        super().__init__(**kwargs)
        self.reward = reward

    def critic_loss(self, own: Batch, expert: Batch) -> th.Tensor:
        """Temporal differences of the constant."""
        del expert
        return self.td_loss(own, th.full_like(own.rewards, self.reward))


class RewardedTrainer(OffPolicyTrainer):
    """Trains the agent on a reward function, and before that on novelty.

    Until `begin`, the reward of a transition is how far its observation is from its k-th nearest
    neighbor in the replay buffer, divided by the standard deviation of these distances: particles
    that spread raise an estimate of the entropy of states (section 4.1). `begin` sets the critics
    back, because they have learned another reward. `relabel` computes the rewards of all stored
    transitions anew (section 4.3).

    Rewards are standardized with their mean and standard deviation over the replay buffer at the
    latest relabelling, so that the temperature suits them. That shifts all rewards: it must not
    matter when episodes end.

    Args:
        reward_fn: Rewards of raw observations, actions, next observations and dones.
        neighbours: Which nearest neighbor counts.
        reset_updates: Updates in `begin`, before the next environment step.
        **kwargs: See `OffPolicyTrainer`; one seed, and no demonstrations.

    Attributes:
        began: Whether `begin` was called.

    Raises:
        ValueError: A number is out of range, observations are not a box, or see `OffPolicyTrainer`.
    """

    discrete_actions = True
    uses_demonstrations = False

    def __init__(
        self,
        *,
        reward_fn: RewardFn,
        neighbours: int = 5,
        reset_updates: int = 100,
        **kwargs: Any,
    ) -> None:
        if neighbours < 1:
            raise ValueError(f"neighbours must be at least 1, not {neighbours}")
        if reset_updates < 0:
            raise ValueError(f"reset_updates must be at least 0, not {reset_updates}")
        super().__init__(demonstrations=None, **kwargs)
        if len(self.streams) != 1:
            raise ValueError(f"seeds: a reward is of one seed, not of {len(self.streams)}")
        if not isinstance(self.venv.observation_space, spaces.Box):
            raise ValueError(f"observation_space: must be a box, not {self.venv.observation_space}")
        if self._encoders[0].absorbing:
            raise ValueError("options: absorbing_states must be false; they have no reward")
        self.reward_fn = reward_fn
        self.neighbours = neighbours
        self.reset_updates = reset_updates
        self.began = False
        self._mean, self._std = 0.0, 1.0

    # What the agent learns from.

    def critic_loss(self, own: Batch, expert: Batch) -> th.Tensor:
        """Temporal differences of the stored rewards, or of novelty before `begin`."""
        del expert
        return self.td_loss(own, own.rewards if self.began else self.novelty(own.obs))

    def update_kind(self) -> Hashable | None:
        """`None` until `begin`, because novelty compares with a growing replay buffer."""
        return () if self.began else None

    def novelty(self, obs: th.Tensor) -> th.Tensor:
        """Distances to the k-th nearest neighbor in units of their standard deviation.

        Args:
            obs: Encoded observations of the replay buffer, shape (1, batch, features).

        Returns:
            Shape (1, batch).
        """
        stored = self._replay.column("obs", 0)
        nearest: list[th.Tensor] = []
        # The nearest of all is the observation itself.
        count = min(self.neighbours + 1, len(stored))
        for start in range(0, len(stored), _AT_ONCE):
            part = stored[start : start + _AT_ONCE]
            distances = th.cdist(obs[0], part)
            nearest.append(distances.topk(min(count, len(part)), largest=False).values)
        kth = th.cat(nearest, dim=1).topk(count, largest=False).values[:, -1]
        return (kth / kth.std().clamp_min(1e-6)).unsqueeze(0)

    def set_rewards(self, seed: int, rows: Rows) -> Rows:
        """Gives new transitions their rewards."""
        del seed
        if self.began:
            rows["rewards"] = (self._rewards(rows) - self._mean) / self._std
        return rows

    def begin(self) -> None:
        """Turns from novelty to the reward function."""
        self.began = True
        self.relabel()
        if self._ready:
            self.agent.reset_critics()
            for _ in range(self.reset_updates):
                self._update()

    def relabel(self) -> None:
        """Computes the rewards of all stored transitions with the reward function as it is now."""
        names = ("obs", "acts", "next_obs", "terminal")
        stored = {name: self._replay.column(name, 0).cpu().numpy() for name in names}
        parts = range(0, len(stored["acts"]), _AT_ONCE)
        rewards = [
            self._rewards(
                {name: column[start : start + _AT_ONCE] for name, column in stored.items()}
            )
            for start in parts
        ]
        if not rewards:
            return
        joined = np.concatenate(rewards)
        self._mean, self._std = float(joined.mean()), float(max(joined.std(), 1e-6))
        standardized = th.from_numpy((joined - self._mean) / self._std)
        self._replay.replace("rewards", 0, standardized.to(self.streams.device))

    def _rewards(self, rows: Mapping[str, Array]) -> Array:
        """Rewards of encoded transitions, shape (n,), float32."""
        space = self.venv.action_space
        acts = unscale_actions(rows["acts"].reshape(-1, *(space.shape or ())), space)
        obs, next_obs = self._decoded(rows["obs"]), self._decoded(rows["next_obs"])
        rewards = self.reward_fn(obs, acts, next_obs, rows["terminal"].astype(bool))
        if not np.isfinite(rewards).all():
            raise ValueError("reward_fn returned rewards that are not finite")
        return rewards.astype(np.float32)

    def _decoded(self, obs: Array) -> Array:
        """Raw observations; entries that are hidden from the agent are hidden here, too."""
        space = self.venv.observation_space
        raw = self._encoders[0].decode(obs)
        return raw.reshape(-1, *(space.shape or ())).astype(space.dtype)

    # State.

    def extra_state(self) -> dict[str, Any]:
        """Whether `begin` was called, and the scale of rewards."""
        return {"began": self.began, "scale": (self._mean, self._std)}

    def load_extra_state(self, state: Mapping[str, Any]) -> None:
        """Restores what `extra_state` returned."""
        self.began = state["began"]
        self._mean, self._std = state["scale"]
