"""Off-policy methods that learn a reward as a network of its own, from whole trajectories."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch as th

from imitbench.algorithms.demonstration_fit import common_time_limit
from imitbench.algorithms.off_policy.agent import Adam
from imitbench.algorithms.off_policy.collector import Rows
from imitbench.algorithms.off_policy.episodes import (
    Episode,
    RecentEpisodes,
    Trajectories,
    demonstrated_episodes,
    take_trajectories,
)
from imitbench.algorithms.off_policy.reward_export import pair_reward_nets
from imitbench.algorithms.off_policy.stacked_mlp import StackedMlp
from imitbench.algorithms.off_policy.trainer import OffPolicyTrainer
from imitbench.algorithms.off_policy.transitions import Batch, PairInputs
from imitbench.rewards.networks import BasicRewardNet

# Rewards that hardly differ are not told apart by scaling them.
_LEAST_SCALE = 1e-3
# Largest relative difference of equal lengths, which are sums of float32.
_SAME = 1e-5


class ExplicitRewardTrainer(OffPolicyTrainer):
    """Alternates between the agent on the present reward and steps of the reward.

    The reward is a network r(s), or r(s, a). Rewards of sampled transitions are computed with the
    network as it is then; none is stored. Every few updates of the agent the network takes a step
    down a gradient that is linear in the derivatives of the reward along trajectories: the
    learner's latest episodes, and as many of the expert's, drawn with replacement.

    A method overrides `slopes`.

    Args:
        reward_hidden_sizes: Units of the reward's hidden layers.
        reward_learning_rate: Learning rate of the reward.
        reward_decay: Weight of half the squared norm of the reward's parameters.
        reward_interval: Updates of the agent for each step of the reward.
        trajectories: Latest episodes of the learner in each step, and as many of the expert.
        scale_rewards: Whether the agent's rewards are those of the network divided by their
            standard deviation along the trajectories of its latest step. The network's grow as
            long as learner and expert differ.
        use_actions: Whether the reward depends on the action.
        hidden_entries: Entries of observations that the reward does not see.
        **kwargs: See `OffPolicyTrainer`.

    Raises:
        ValueError: A number is out of range, or see `OffPolicyTrainer`.
    """

    discrete_actions = True

    def __init__(
        self,
        *,
        reward_hidden_sizes: Sequence[int] = (64, 64),
        reward_learning_rate: float = 3e-4,
        reward_decay: float = 0.0,
        reward_interval: int = 50,
        trajectories: int = 5,
        scale_rewards: bool = True,
        use_actions: bool = False,
        hidden_entries: Sequence[int] = (),
        **kwargs: Any,
    ) -> None:
        for name, value in (("reward_interval", reward_interval), ("trajectories", trajectories)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        super().__init__(**kwargs)
        streams = self.streams
        self.reward_interval = reward_interval
        self.trajectories = trajectories
        self._decay = reward_decay
        self._scales = scale_rewards
        self._scale = th.ones(len(streams), 1, device=streams.device)
        self._inputs = PairInputs(
            self.features,
            self.venv.action_space,
            hidden_entries=hidden_entries,
            use_actions=use_actions,
            device=streams.device,
        )
        sizes = (self._inputs.size, *reward_hidden_sizes, 1)
        self._reward = StackedMlp(sizes, streams.torch, streams.device)
        self._reward_adam = Adam(self._reward.vector, reward_learning_rate)
        self._episodes = RecentEpisodes(len(streams), self._collector.n_envs, trajectories)
        self._hidden = tuple(hidden_entries)
        self._use_actions = use_actions

    # The reward.

    @abstractmethod
    def slopes(self, own: Trajectories, expert: Trajectories) -> tuple[th.Tensor, th.Tensor]:
        """Derivatives of what the reward minimizes by the reward of each transition.

        Args:
            own: Latest trajectories of the learner.
            expert: As many of the expert.

        Returns:
            Those of the learner's transitions and of the expert's, of the shapes of their weights.
        """

    def rewards(self, batch: Batch) -> th.Tensor:
        """The present rewards, without derivatives; shape (seeds, batch)."""
        with th.no_grad():
            return self._reward(self._inputs(batch)).squeeze(-1)

    def critic_loss(self, own: Batch, expert: Batch) -> th.Tensor:
        """Temporal differences of the present reward."""
        del expert
        return self.td_loss(own, self.rewards(own) / self._scale)

    def _update(self) -> dict[str, th.Tensor]:
        logged = super()._update()
        if self.n_updates % self.reward_interval == 0:
            # Outside of what a GPU repeats, because trajectories have any length.
            logged = {**logged, **self.update_reward(*self._draw())}
        return logged

    def update_reward(self, own: Trajectories, expert: Trajectories) -> dict[str, th.Tensor]:
        """Takes a step of the reward.

        Args:
            own: Latest trajectories of the learner.
            expert: As many of the expert.

        Returns:
            Mean reward of a step of either, before the step; each of shape (seeds,).
        """
        kinds = own, expert
        rewards = [self._reward(self._inputs(kind.batch)).squeeze(-1) for kind in kinds]
        loss = 0.5 * self._decay * self._reward.vector.square().sum()
        for reward, slopes in zip(rewards, self.slopes(own, expert), strict=True):
            loss = loss + (slopes.flatten(1) * reward).sum()
        (gradient,) = th.autograd.grad(loss, self._reward.vector)
        self._reward_adam.step_along(self._without_constant(gradient, kinds))
        present = [reward.detach() for reward in rewards]
        means = [kind.mean(reward) for kind, reward in zip(kinds, present, strict=True)]
        if self._scales:
            centre = (means[0] + means[1]).unsqueeze(1) / 2
            spread = [
                kind.mean((reward - centre).square())
                for kind, reward in zip(kinds, present, strict=True)
            ]
            variance = (spread[0] + spread[1]) / 2
            self._scale.copy_(variance.sqrt().clamp_min(_LEAST_SCALE).unsqueeze(1))
        return {"reward/own": means[0], "reward/expert": means[1]}

    def _without_constant(self, gradient: th.Tensor, kinds: Sequence[Trajectories]) -> th.Tensor:
        """The gradient with an exact derivative by the last bias, where that follows from decay.

        What is added to all rewards changes nothing where all trajectories have the same length, so
        Adam would turn the rounding errors of its derivative into steps.
        """
        lengths = th.cat([kind.weights.sum(dim=-1) for kind in kinds], dim=1)
        same = lengths.amax(dim=1) <= lengths.amin(dim=1) * (1 + _SAME)
        decayed = self._decay * self._reward.vector.detach()[:, -1]
        gradient[:, -1] = th.where(same, decayed, gradient[:, -1])
        return gradient

    # Trajectories.

    def set_rewards(self, seed: int, rows: Rows) -> Rows:
        """Notes which episodes the new transitions belong to."""
        n_envs, marked = self._collector.n_envs, self._encoders[seed].absorbing
        absorbed = rows["next_obs"][:n_envs, -1] > 0 if marked else np.zeros(n_envs, bool)
        ended = self._collector.ended[seed * n_envs : (seed + 1) * n_envs]
        self._episodes.add(seed, self._replay.added[seed], ended, absorbed)
        return rows

    def _draw(self) -> tuple[Trajectories, Trajectories]:
        """The learner's latest trajectories, and some of the expert's."""
        capacity, count = self.options.buffer_size, self.trajectories
        own = [
            self._episodes.latest(seed, added - capacity, capacity)
            for seed, added in enumerate(self._replay.added)
        ]
        absorbing = self._encoders[0].absorbing
        theirs = [demonstrated_episodes(rows, absorbing) for rows in self._demonstrations]
        drawn = self.streams.indices([len(episodes) for episodes in theirs], count)
        chosen = [
            [episodes[number] for number in numbers]
            for episodes, numbers in zip(theirs, drawn, strict=True)
        ]
        horizon = self._trajectory_steps(theirs)
        repeated = [[episodes[i % len(episodes)] for i in range(count)] for episodes in own]
        return (
            take_trajectories(self._replay, repeated, horizon, self.trajectory_discount),
            take_trajectories(self.expert, chosen, horizon, self.trajectory_discount),
        )

    trajectory_discount = 1.0
    """Discount factor of the weights of a trajectory's steps."""

    def _trajectory_steps(self, demonstrations: Sequence[Sequence[Episode]]) -> int:
        """The environments' time limit, or without one the length of the longest demonstration."""
        longest = max(len(episode.rows) for own in demonstrations for episode in own)
        return common_time_limit(self.venv) or longest

    # The reward for others.

    @property
    def reward_nets(self) -> Sequence[BasicRewardNet]:
        """The reward of each seed as it is now; see `pair_reward_nets`."""
        return pair_reward_nets(
            self._reward,
            self._encoders,
            self.venv,
            hidden_entries=self._hidden,
            use_actions=self._use_actions,
        )

    # State.

    def extra_state(self) -> dict[str, Any]:
        """The reward, its optimizer, and which transitions are the latest episodes."""
        return {
            "reward": self._reward.vector.detach().cpu().clone(),
            "reward_adam": self._reward_adam.state_dict(),
            "scale": self._scale.cpu().clone(),
            "episodes": self._episodes.state_dict(),
        }

    def load_extra_state(self, state: Mapping[str, Any]) -> None:
        """Restores what `extra_state` returned."""
        with th.no_grad():
            self._reward.vector.copy_(state["reward"])
            self._scale.copy_(state["scale"])
        self._reward_adam.load_state_dict(state["reward_adam"])
        self._episodes.load_state_dict(state["episodes"])
