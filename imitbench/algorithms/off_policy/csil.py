"""Coherent soft imitation learning (CSIL): a cloned policy defines the reward that it is best for.

Source: Watson, Huang and Heess 2023, "Coherent Soft Imitation Learning", arXiv:2305.16498. Where
its text leaves details open they follow google-deepmind/csil (Apache-2.0), which was read, not
copied.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch as th
from gymnasium import spaces

from imitbench.algorithms.off_policy.agent import Adam
from imitbench.algorithms.off_policy.reward_export import (
    encoder_state,
    perceptron_state,
    unmarked,
)
from imitbench.algorithms.off_policy.stacked_mlp import StackedMlp
from imitbench.algorithms.off_policy.trainer import OffPolicyTrainer
from imitbench.algorithms.off_policy.transitions import Batch
from imitbench.rewards.agent_rewards import CoherentRewardNet
from imitbench.util import squashed_gaussian

# A deterministic policy's log-ratios have no lower bound; the public code clips here too.
_LEAST_REWARD = -5.0
# Farthest states of the prior's sample, in standard deviations of observations.
_FARTHEST = 3.0


class CSIL(OffPolicyTrainer):
    """Clones the expert, then improves the clone on the reward that the clone implies.

    By theorem 1, a policy q is the best one for the reward alpha * (log q(a|s) - log p(a|s)) if
    divergence from the prior p costs alpha for each nat. Here p is uniform. After cloning, policy,
    reward and the policy's prior are the clone; the first two then change.

    The default temperature of `AgentOptions` is too high for rewards of this size; the paper's is
    0.01, and not learned.

    Args:
        reward_scale: Reward for each nat of the log-ratio, times the number of action entries.
        least_std: Least standard deviation of the policies in reward and prior, before squashing.
        bc_updates: Updates of behavioral cloning.
        bc_learning_rate: Its learning rate.
        prior_weight: Weight, while cloning, of actions of the prior in random states.
        critic_updates: Updates of the critics on demonstrations alone.
        action_gradient_weight: Weight of the critics' slope by the expert's actions, beside half
            the squared temporal difference.
        reward_learning_rate: Learning rate of the reward; 0 keeps the clone's.
        **kwargs: As for `OffPolicyTrainer`.

    Raises:
        ValueError: As `OffPolicyTrainer`, or `least_std` is not positive.
    """

    def __init__(
        self,
        *,
        reward_scale: float = 1.0,
        least_std: float = 0.05,
        bc_updates: int = 5000,
        bc_learning_rate: float = 1e-3,
        prior_weight: float = 0.01,
        critic_updates: int = 1000,
        action_gradient_weight: float = 0.5,
        reward_learning_rate: float = 1e-3,
        **kwargs: Any,
    ) -> None:
        if not least_std > 0:
            raise ValueError(f"least_std must be positive, not {least_std}")
        super().__init__(**kwargs)
        self._size = spaces.flatdim(self.venv.action_space)
        self._scale = reward_scale / self._size
        self._least_log_std = math.log(least_std)
        self._bc_updates, self._bc_learning_rate = bc_updates, bc_learning_rate
        self._prior_weight = prior_weight
        self._critic_updates = critic_updates
        self._action_gradient_weight = action_gradient_weight
        self._refine = reward_learning_rate > 0
        agent = self.actor_critic
        self._clone, self._reward = agent.actor.copy(), agent.actor.copy()
        self._reward_adam = Adam(self._reward.vector.requires_grad_(), reward_learning_rate)
        agent.prior = lambda obs: self._outputs(self._clone, obs)

    # The coherent reward.

    def log_ratio(self, net: StackedMlp, obs: th.Tensor, acts: th.Tensor) -> th.Tensor:
        """Log q(a|s) - log p(a|s), with derivatives by the net; 0 in the absorbing state.

        Args:
            net: The policy q of each seed.
            obs: Shape (seeds, batch, features).
            acts: Shape (seeds, batch, actions).

        Returns:
            In nats, shape (seeds, batch).
        """
        log_prob = squashed_gaussian.tailed_log_prob(self._outputs(net, obs), acts)
        return self._alive(obs) * (log_prob + self._size * math.log(2))

    def rewards(self, batch: Batch) -> th.Tensor:
        """The coherent reward, without derivatives; shape (seeds, batch)."""
        with th.no_grad():
            ratio = self.log_ratio(self._reward, batch.obs, batch.acts)
            return (self._scale * ratio).clamp_min(_LEAST_REWARD)

    def learn(self, own: Batch, expert: Batch) -> dict[str, th.Tensor]:
        """Takes a step of the reward, up for the expert and towards 0 for the learner."""
        both = expert.joined(own)
        rewards = self._scale * self.log_ratio(self._reward, both.obs, both.acts)
        theirs, ours = rewards.tensor_split([expert.obs.shape[1]], dim=1)
        if self._refine:
            self._reward_adam.step(refinement_loss(theirs, ours).sum())
        logged = {"reward/expert": theirs, "reward/own": ours.clamp_min(_LEAST_REWARD)}
        return {name: values.detach().mean(dim=1) for name, values in logged.items()}

    @property
    def reward_nets(self) -> Sequence[CoherentRewardNet]:
        """The coherent reward of each seed as it is now."""
        return [self._coherent_reward(seed) for seed in range(len(self.streams))]

    def _coherent_reward(self, seed: int) -> CoherentRewardNet:
        encoder = self._encoders[seed]
        with th.device("meta"):
            net = CoherentRewardNet(
                self.venv.observation_space,
                self.venv.action_space,
                hid_sizes=self.options.agent.hidden_sizes,
                reward_scale=self._scale,
                least_std=math.exp(self._least_log_std),
                least_reward=_LEAST_REWARD,
            )
        layers = unmarked(self._reward.member(seed), encoder)
        state = encoder_state(encoder) | perceptron_state("policy", layers)
        net.load_state_dict(state, assign=True)
        return net

    # Critics and policy: those of the core, with the clone as prior.

    def critic_loss(self, own: Batch, expert: Batch) -> th.Tensor:
        """Temporal differences on both kinds, and the slope by the expert's actions."""
        both = expert.joined(own)
        return self.td_loss(both, self.rewards(both)) + self.action_gradient(expert)

    def action_gradient(self, expert: Batch) -> th.Tensor:
        """Root mean square of dQ/da at the expert's actions, which should be the best ones.

        Returns:
            The sum over critics, times its weight, shape (seeds,).
        """
        agent = self.actor_critic
        inputs = th.cat([expert.obs, expert.acts], dim=-1).repeat(agent.n_critics, 1, 1)
        slopes = agent.critics.input_gradients(inputs)[..., -self._size :]
        norms = (slopes.square().sum(dim=-1).mean(dim=1) + 1e-12).sqrt()
        return self._action_gradient_weight * norms.view(agent.n_critics, -1).sum(dim=0)

    def actor_obs(self, own: Batch, expert: Batch) -> th.Tensor:
        """Observations of both kinds."""
        return th.cat([expert.obs, own.obs], dim=1)

    # Before training.

    def prepare(self) -> None:
        """Clones the expert, then fits the critics to the clone's reward by SARSA."""
        agent, size = self.actor_critic, self.options.batch_size
        with th.no_grad():
            self._clone.vector.copy_(agent.actor.vector)
        policy = self._clone.copy()
        adam = Adam(policy.vector.requires_grad_(), self._bc_learning_rate)
        for _ in range(self._bc_updates):
            adam.step(self.cloning_loss(policy, self.expert.sample(self.streams, size)).sum())
        with th.no_grad():
            for network in (agent.actor, self._clone, self._reward):
                network.vector.copy_(policy.vector)
        agent.restart_average()
        for _ in range(self._critic_updates):
            agent.update_critics(self.sarsa_loss().sum())
            agent.follow()
        agent.targets.follow(agent.critics, 1.0)

    def cloning_loss(self, policy: StackedMlp, expert: Batch) -> th.Tensor:
        """Squared error of the mode, and likelihood.

        The paper fits the mean by the error alone ("faithful" regression). At a bound of the
        actions this leaves the mean far from the expert's tail before squashing, which only a large
        deviation explains. The prior's actions in random states make the policy uniform where there
        are no demonstrations, which the paper has from a stationary process.

        Args:
            policy: The policy of each seed.
            expert: Demonstrations.

        Returns:
            Shape (seeds,).
        """
        outputs = self._outputs(policy, expert.obs)
        fit = squashed_gaussian.cloning_loss(outputs, expert.acts)
        loss = (self._alive(expert.obs) * fit).mean(dim=1)
        if self._prior_weight:
            obs, acts = self._prior_sample(expert)
            loss = loss - self._prior_weight * self.log_ratio(policy, obs, acts).mean(dim=1)
        return loss

    def _prior_sample(self, like: Batch) -> tuple[th.Tensor, th.Tensor]:
        """States at every distance from the data, and actions of the uniform prior."""
        count, features = like.obs.shape[1:]
        distance = _FARTHEST * self.streams.uniform(count, 1)
        obs = distance * self.streams.normal(count, features)
        obs[..., self._encoders[0].size :] = 0.0
        return obs, 2 * self.streams.uniform(count, self._size) - 1

    def sarsa_loss(self) -> th.Tensor:
        """Temporal differences along demonstrations, with the action that the expert took next.

        Where a trajectory ends, the action is the clone's.

        Returns:
            Shape (seeds,).
        """
        index = self.streams.indices(self.expert.sizes, self.options.batch_size)
        batch = self.expert.take(index)
        after = self.expert.take((index + 1) % [[size] for size in self.expert.sizes])
        with th.no_grad():
            linked = (after.obs == batch.next_obs).all(dim=-1, keepdim=True)
            acts = th.where(linked, after.acts, self.agent.act(batch.next_obs))
            values = self.agent.values(batch.next_obs, acts, "target").amin(dim=0)
            following = self.options.agent.gamma * (1 - batch.terminal) * values
        loss = self.td_loss(batch, self.rewards(batch), following)
        return loss + self.action_gradient(batch)

    # What the above share.

    def _outputs(self, net: StackedMlp, obs: th.Tensor) -> th.Tensor:
        """Outputs of a policy whose standard deviation has a lower bound."""
        return squashed_gaussian.with_least_std(net(obs), self._least_log_std)

    def _alive(self, obs: th.Tensor) -> th.Tensor:
        """1, or 0 in the absorbing state, where nothing is chosen; shape (seeds, batch)."""
        encoder = self._encoders[0]
        return 1 - obs[..., -1] if encoder.absorbing else th.ones_like(obs[..., 0])

    def extra_state(self) -> dict[str, Any]:
        """Clone, reward and its optimizer."""
        return {
            "clone": self._clone.vector.cpu().clone(),
            "reward": self._reward.vector.detach().cpu().clone(),
            "reward_adam": self._reward_adam.state_dict(),
        }

    def load_extra_state(self, state: Mapping[str, Any]) -> None:
        """Restores what `extra_state` returned."""
        with th.no_grad():
            self._clone.vector.copy_(state["clone"])
            self._reward.vector.copy_(state["reward"])
        self._reward_adam.load_state_dict(state["reward_adam"])


def refinement_loss(theirs: th.Tensor, ours: th.Tensor) -> th.Tensor:
    """What the reward minimizes: minus the expert's, plus the learner's divergence from the prior.

    The divergence is estimated by exp(-x) - 1 + x of the learner's rewards x, which is never
    negative (Schulman 2020, "Approximating KL Divergence").

    Args:
        theirs: Rewards of the expert, shape (seeds, batch).
        ours: Rewards of the learner, of the same shape.

    Returns:
        Shape (seeds,).
    """
    bounded = ours.clamp_min(_LEAST_REWARD)
    return (th.exp(-bounded) - 1 + bounded).mean(dim=1) - theirs.mean(dim=1)
