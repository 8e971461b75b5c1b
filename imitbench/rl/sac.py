"""Soft actor-critic with the interface of Stable-Baselines3 and less overhead.

Source: Haarnoja et al. 2018, "Soft Actor-Critic Algorithms and Applications".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import stable_baselines3
import torch as th
from stable_baselines3.common.policies import ContinuousCritic
from stable_baselines3.common.torch_layers import FlattenExtractor
from stable_baselines3.sac.policies import LOG_STD_MAX, LOG_STD_MIN, Actor, SACPolicy
from torch import nn

from imitbench.rl.lean_algorithm import LeanOffPolicyAlgorithm, discount_of, flat
from imitbench.rl.mlp import FlatParameters, Mlp, Stack, stack_of
from imitbench.util.adam import FlatAdam, why_not_plain
from imitbench.util.torch_startup import one_thread

__all__ = ["SAC"]

# Keeps the logarithm finite for actions at the bounds.
_EPSILON = 1e-6
_LOG_ROOT_2_PI = 0.5 * math.log(2 * math.pi)


class SAC(LeanOffPolicyAlgorithm, stable_baselines3.SAC):
    """Stable-Baselines3's SAC without autograd and without operations per parameter.

    For actors and critics of linear layers with ReLU or Tanh and vector observations, updates use
    the same formulas and random numbers as Stable-Baselines3, without unused gradients, and are
    equal up to rounding. For all others, the implementation of Stable-Baselines3 is used.

    Args:
        *args: See `stable_baselines3.SAC`.
        lean: Whether to use the lean path; `None` to use it if possible.
        **kwargs: See `stable_baselines3.SAC`.

    Raises:
        ValueError: `lean` is `True` but not possible.
    """

    def _why_no_updater(self) -> str | None:
        policy = self.policy
        parts = (type(policy), type(policy.actor), type(policy.critic))
        if parts != (SACPolicy, Actor, ContinuousCritic):
            return f"{type(policy).__name__} is not a plain SACPolicy"
        if _actor_stacks(policy.actor) is None or _critic_stacks(policy.critic) is None:
            return "actor or critic do not consist of linear layers with Tanh or ReLU"
        return why_not_plain(
            policy.actor.optimizer, list(policy.actor.parameters())
        ) or why_not_plain(policy.critic.optimizer, list(policy.critic.parameters()))

    def _make_updater(self) -> _Updater:
        return _Updater(self.policy)

    def train(self, gradient_steps: int, batch_size: int = 64) -> None:
        """Updates everything from `gradient_steps` minibatches of the replay buffer."""
        updater = self._lean_updater()
        if updater is None:
            super().train(gradient_steps, batch_size)
            return
        assert self.replay_buffer is not None, "the constructor creates it"
        optimizers = [self.actor.optimizer, self.critic.optimizer]
        if self.ent_coef_optimizer is not None:
            optimizers.append(self.ent_coef_optimizer)
        self._update_learning_rate(optimizers)
        log: list[dict[str, float]] = []
        with one_thread(), th.no_grad():
            for step in range(gradient_steps):
                batch = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)
                log.append(self._update(updater, batch))
                if step % self.target_update_interval == 0:
                    updater.follow(self.tau)
        self._record_update(
            gradient_steps,
            {name: float(np.mean([metrics[name] for metrics in log])) for name in log[0]},
        )

    def _update(self, updater: _Updater, batch: Any) -> dict[str, float]:
        observations = flat(batch.observations)
        noise = th.randn(batch.actions.shape)
        log_prob = updater.act(observations, noise)
        values: dict[str, float] = {}
        if self.log_ent_coef is None or self.ent_coef_optimizer is None:
            values["ent_coef"] = float(self.ent_coef_tensor)
        else:
            values["ent_coef"] = float(th.exp(self.log_ent_coef))
            excess = float(log_prob.mean()) + float(self.target_entropy)
            values["ent_coef_loss"] = -float(self.log_ent_coef) * excess
            self.log_ent_coef.grad = th.tensor([-excess])
            self.ent_coef_optimizer.step()
        coefficient = values["ent_coef"]
        targets = updater.targets(batch, coefficient, discount_of(batch, self.gamma))
        values["critic_loss"] = updater.update_critics(observations, batch.actions, targets)
        values["actor_loss"] = updater.update_actor(observations, coefficient)
        return values


@dataclass(frozen=True)
class _Sample:
    """Actions of an actor, with intermediate results for the backward pass."""

    traces: tuple[list[th.Tensor], list[th.Tensor], list[th.Tensor]]
    actions: th.Tensor
    log_prob: th.Tensor
    spread: th.Tensor
    slope: th.Tensor
    inside: th.Tensor


class _Squashed:
    """An actor with a squashed Gaussian distribution.

    Mean and standard deviation depend on the observation; actions are the Tanh of the samples.
    """

    def __init__(self, actor: Actor, parameters: FlatParameters) -> None:
        stacks = _actor_stacks(actor)
        assert stacks is not None, "checked before"
        self._latent, self._mean, self._log_std = (Mlp(stack, parameters) for stack in stacks)

    def sample(self, observations: th.Tensor, noise: th.Tensor) -> _Sample:
        """Samples actions.

        Args:
            observations: Shape (batch, features).
            noise: Standard normal numbers, shape (batch, actions).

        Returns:
            Actions, shape (batch, actions), with their log-probabilities, shape (batch, 1).
        """
        latent = self._latent.trace(observations)
        mean, raw = self._mean.trace(latent[-1]), self._log_std.trace(latent[-1])
        log_std = raw[-1].clamp(LOG_STD_MIN, LOG_STD_MAX)
        spread = log_std.exp() * noise
        actions = th.tanh(mean[-1] + spread)
        slope = 1 - actions.square()
        terms = -0.5 * noise.square() - log_std - th.log(slope + _EPSILON) - _LOG_ROOT_2_PI
        log_prob = terms.sum(dim=1, keepdim=True)
        inside = raw[-1] == log_std
        return _Sample((latent, mean, raw), actions, log_prob, spread, slope, inside)

    def backward(self, sample: _Sample, by_actions: th.Tensor, by_log_prob: float) -> None:
        """Computes the gradient of a loss.

        Args:
            sample: Result of `sample`.
            by_actions: Derivative of the loss by the actions, shape (batch, actions).
            by_log_prob: Derivative of the loss by each log-probability.
        """
        # Derivative by the sample before squashing. In the Gaussian log-probability, noise and
        # deviation cancel except for the logarithm of the deviation.
        squeezed = 2 * sample.actions * sample.slope / (sample.slope + _EPSILON)
        by_mean = by_actions * sample.slope + by_log_prob * squeezed
        by_log_std = (by_mean * sample.spread - by_log_prob) * sample.inside
        latent, mean, log_std = sample.traces
        by_latent = self._mean.backward(mean, by_mean, to_inputs=True)
        by_latent += self._log_std.backward(log_std, by_log_std, to_inputs=True)
        self._latent.backward(latent, by_latent)


class _Updater:
    """Networks of a policy with gradients and optimizers."""

    def __init__(self, policy: SACPolicy) -> None:
        self._policy = policy
        self._optimizers = policy.actor.optimizer, policy.critic.optimizer
        self._actor_parameters, self._critic_parameters, self._target_parameters = (
            FlatParameters(list(network.parameters()))
            for network in (policy.actor, policy.critic, policy.critic_target)
        )
        self._actor = _Squashed(policy.actor, self._actor_parameters)
        self._critics, self._targets = (
            [Mlp(stack, parameters) for stack in _critic_stacks(network) or ()]
            for network, parameters in (
                (policy.critic, self._critic_parameters),
                (policy.critic_target, self._target_parameters),
            )
        )
        self._actor_adam = FlatAdam(self._actor_parameters)
        self._critic_adam = FlatAdam(self._critic_parameters)

    def fits(self, algorithm: SAC) -> bool:
        policy = algorithm.policy
        return (
            policy is self._policy
            and policy.actor.optimizer is self._optimizers[0]
            and policy.critic.optimizer is self._optimizers[1]
            and self._actor_parameters.are_views()
            and self._critic_parameters.are_views()
            and self._target_parameters.are_views()
        )

    def act(self, observations: th.Tensor, noise: th.Tensor) -> th.Tensor:
        """Samples actions for `update_actor`; returns their log-probabilities."""
        self._sample = self._actor.sample(observations, noise)
        return self._sample.log_prob

    def targets(self, batch: Any, coefficient: float, discount: Any) -> th.Tensor:
        """Returns the critics' targets, shape (batch, 1)."""
        observations = flat(batch.next_observations)
        sample = self._actor.sample(observations, th.randn(batch.actions.shape))
        inputs = th.cat([observations, sample.actions], dim=1)
        values = th.cat([target(inputs) for target in self._targets], dim=1)
        soft = values.amin(dim=1, keepdim=True) - coefficient * sample.log_prob
        return th.as_tensor(batch.rewards + (1 - batch.dones) * discount * soft)

    def update_critics(
        self, observations: th.Tensor, actions: th.Tensor, targets: th.Tensor
    ) -> float:
        """Takes a gradient step of the critics; returns the loss before the step."""
        inputs = th.cat([observations, actions], dim=1)
        loss = 0.0
        for critic in self._critics:
            trace = critic.trace(inputs)
            error = trace[-1] - targets
            loss += 0.5 * float(error.square().mean())
            critic.backward(trace, error / len(error))
        self._critic_adam.step(self._optimizers[1])
        return loss

    def update_actor(self, observations: th.Tensor, coefficient: float) -> float:
        """Takes a gradient step of the actor; returns the loss before the step."""
        sample = self._sample
        inputs = th.cat([observations, sample.actions], dim=1)
        traces = [critic.trace(inputs) for critic in self._critics]
        least, which = th.cat([trace[-1] for trace in traces], dim=1).min(dim=1, keepdim=True)
        loss = float((coefficient * sample.log_prob - least).mean())
        share = 1 / len(inputs)
        by_inputs = th.zeros_like(inputs)
        for number, (critic, trace) in enumerate(zip(self._critics, traces, strict=True)):
            by_value = (which == number) * -share
            by_inputs += critic.backward(trace, by_value, to_parameters=False, to_inputs=True)
        by_actions = by_inputs[:, observations.shape[1] :]
        self._actor.backward(sample, by_actions, coefficient * share)
        self._actor_adam.step(self._optimizers[0])
        return loss

    def follow(self, tau: float) -> None:
        """Updates the target critics by Polyak averaging."""
        target = self._target_parameters.vector
        target.mul_(1 - tau).add_(self._critic_parameters.vector, alpha=tau)


def _actor_stacks(actor: Any) -> tuple[Stack, Stack, Stack] | None:
    """Returns the hidden layers and the two output layers of an actor; `None` if it has others."""
    latent = stack_of(list(actor.latent_pi))
    mean, log_std = stack_of([actor.mu]), stack_of([actor.log_std])
    if type(actor.features_extractor) is not FlattenExtractor:
        return None
    if latent is None or not latent.activate_last or mean is None or log_std is None:
        return None
    return latent, mean, log_std


def _critic_stacks(critic: Any) -> list[Stack] | None:
    """Returns the layers of each critic; `None` if a critic has other parts."""
    stacks = [
        stack_of(list(network)) if isinstance(network, nn.Sequential) else None
        for network in critic.q_networks
    ]
    if type(critic.features_extractor) is not FlattenExtractor:
        return None
    found = [stack for stack in stacks if stack is not None and not stack.activate_last]
    return found if len(found) == len(stacks) else None
