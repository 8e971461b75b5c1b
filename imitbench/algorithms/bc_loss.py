"""The loss of behavioral cloning, with a short cut for common policies, and its log."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch as th
from stable_baselines3.common.distributions import (
    CategoricalDistribution,
    DiagGaussianDistribution,
)
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from stable_baselines3.common.type_aliases import PyTorchObs
from stable_baselines3.common.vec_env import VecEnv

from imitbench.data import rollout
from imitbench.util.actions import action_rows
from imitbench.util.gradients import backward_from
from imitbench.util.logger import HierarchicalLogger

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

GradientStep = Callable[[PyTorchObs, th.Tensor, float], None]
_HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)
# The short cut assumes that these are Stable-Baselines3's own.
_METHODS = ("evaluate_actions", "extract_features", "_get_action_dist_from_latent")


class LossCalculator(Protocol):
    """What behavioral cloning minimizes."""

    @property
    def ent_weight(self) -> float:
        """Weight of the entropy bonus."""

    @property
    def l2_weight(self) -> float:
        """Weight of half the sum of squared parameters."""

    def __call__(self, policy: Any, obs: PyTorchObs, acts: th.Tensor) -> DataclassInstance:
        """The loss and its parts, each a scalar tensor or `None`, to log."""

    def gradient_step(self, policy: Any) -> GradientStep:
        """A function that adds the gradient of the scaled loss to `grad` of the parameters."""


@dataclass(frozen=True)
class BCTrainingMetrics:
    """The loss and its parts, scalars averaged over a batch.

    Attributes:
        neglogp: Negative log-likelihood of the expert's actions, in nats.
        entropy: Entropy of the policy; `None` where it has no closed form.
        ent_loss: `-ent_weight * entropy`.
        prob_true_act: Mean probability (density) of the expert's actions.
        l2_norm: Half the sum of squared parameters.
        l2_loss: `l2_weight * l2_norm`.
        loss: Sum of `neglogp`, `ent_loss` and `l2_loss`.
    """

    neglogp: th.Tensor
    entropy: th.Tensor | None
    ent_loss: th.Tensor
    prob_true_act: th.Tensor
    l2_norm: th.Tensor
    l2_loss: th.Tensor
    loss: th.Tensor


@dataclass(frozen=True)
class BehaviorCloningLossCalculator:
    """Computes the loss of behavioral cloning.

    Attributes:
        ent_weight: Weight of the entropy bonus.
        l2_weight: Weight of half the sum of squared parameters.
    """

    ent_weight: float
    l2_weight: float

    def __call__(
        self, policy: ActorCriticPolicy, obs: PyTorchObs, acts: th.Tensor
    ) -> BCTrainingMetrics:
        """Computes the loss with all its parts.

        Args:
            policy: Actor-critic policy of Stable-Baselines3.
            obs: Observations, shape (batch, *observation_shape), or a dictionary of them.
            acts: The expert's actions, shape (batch, *action_shape).
        """
        log_prob, entropy = log_prob_and_entropy(policy, obs, acts)
        neglogp = -log_prob.mean()
        mean_entropy = entropy.mean() if entropy is not None else None
        ent_loss = -self.ent_weight * mean_entropy if mean_entropy is not None else th.zeros(())
        l2_norm = half_squared_norm(policy)
        l2_loss = self.l2_weight * l2_norm
        return BCTrainingMetrics(
            neglogp=neglogp,
            entropy=mean_entropy,
            ent_loss=ent_loss,
            prob_true_act=log_prob.exp().mean(),
            l2_norm=l2_norm,
            l2_loss=l2_loss,
            loss=neglogp + ent_loss + l2_loss,
        )

    def loss(self, policy: ActorCriticPolicy, obs: PyTorchObs, acts: th.Tensor) -> th.Tensor:
        """Computes only the loss, without terms of weight zero."""
        log_prob, entropy = log_prob_and_entropy(policy, obs, acts)
        objective = log_prob
        if self.ent_weight and entropy is not None:
            objective = objective + self.ent_weight * entropy
        loss = -objective.mean()
        return loss + self.l2_weight * half_squared_norm(policy) if self.l2_weight else loss

    def gradient_step(self, policy: ActorCriticPolicy) -> GradientStep:
        """Chooses the fastest way to compute the gradient of the loss for a policy.

        Args:
            policy: Must keep its class and action distribution afterwards.

        Returns:
            A function of (observations, actions, scale) that adds the gradient of the scaled loss
            to `grad` of the parameters.
        """
        own_loss = type(self).loss is not BehaviorCloningLossCalculator.loss
        if own_loss or not has_short_cut(policy) or self.l2_weight:
            return lambda obs, acts, scale: (scale * self.loss(policy, obs, acts)).backward()  # type: ignore[no-untyped-call]
        discrete = isinstance(policy.action_dist, CategoricalDistribution)
        differentiate = self._categorical_gradient if discrete else self._gaussian_gradient

        def step(obs: PyTorchObs, acts: th.Tensor, scale: float) -> None:
            output = _action_output(policy, obs)
            with th.no_grad():
                gradient = differentiate(policy, output, acts, scale / len(output))
            backward_from(output, gradient)

        return step

    def _categorical_gradient(
        self, policy: ActorCriticPolicy, logits: th.Tensor, acts: th.Tensor, scale: float
    ) -> th.Tensor:
        """Derivative of the loss by the logits, in closed form."""
        log_probs = logits.log_softmax(dim=1)
        probs = log_probs.exp()
        gradient = probs
        if self.ent_weight:
            # dH/dz = -p (log p + H)
            weighted = probs * log_probs
            entropy = weighted.sum(dim=1, keepdim=True)
            gradient = probs + self.ent_weight * (weighted - probs * entropy)
        chosen = acts.long().reshape(-1, 1)
        gradient = gradient.scatter_add(1, chosen, -th.ones_like(chosen, dtype=probs.dtype))
        return gradient.mul_(scale)

    def _gaussian_gradient(
        self, policy: ActorCriticPolicy, mean: th.Tensor, acts: th.Tensor, scale: float
    ) -> th.Tensor:
        """Derivative by the mean, in closed form; adds that by the log-deviation to its `grad`."""
        precision = (-policy.log_std).exp()
        z = (_like(acts, mean) - mean) * precision
        by_log_std = (1 - self.ent_weight) * scale * len(mean) - scale * z.square().sum(dim=0)
        if policy.log_std.requires_grad:
            old = policy.log_std.grad
            policy.log_std.grad = by_log_std if old is None else old + by_log_std
        return z * precision * -scale


def log_prob_and_entropy(
    policy: ActorCriticPolicy, obs: PyTorchObs, acts: th.Tensor
) -> tuple[th.Tensor, th.Tensor | None]:
    """Log-probability of actions, and entropy of the policy.

    For categorical and diagonal Gaussian policies both are computed from the network's output,
    without distribution objects or the value function. Other policies, and those that override the
    evaluation of actions, use `evaluate_actions`.

    Args:
        policy: Actor-critic policy of Stable-Baselines3.
        obs: Observations, shape (batch, *observation_shape).
        acts: Actions, shape (batch, *action_shape).

    Returns:
        Log-probabilities, shape (batch,), and entropies, which broadcast to it, in nats; `None`
        where the entropy has no closed form.
    """
    if not has_short_cut(policy):
        _, log_prob, entropy = policy.evaluate_actions(obs, action_rows(acts, policy.action_space))
        return log_prob, entropy
    output = _action_output(policy, obs)
    if isinstance(policy.action_dist, CategoricalDistribution):
        log_probs = output.log_softmax(dim=1)
        chosen = log_probs.gather(1, acts.long().reshape(-1, 1)).squeeze(1)
        return chosen, -(log_probs.exp() * log_probs).sum(dim=1)
    log_std = policy.log_std
    z = (_like(acts, output) - output) * (-log_std).exp()
    constant = (log_std + _HALF_LOG_TAU).sum()
    return -0.5 * z.square().sum(dim=1) - constant, constant + 0.5 * output.shape[1]


def _action_output(policy: ActorCriticPolicy, obs: PyTorchObs) -> th.Tensor:
    """Logits or mean, shape (batch, actions)."""
    features = policy.extract_features(obs)
    assert isinstance(features, th.Tensor), "a shared extractor gives one tensor"
    output: th.Tensor = policy.action_net(policy.mlp_extractor.forward_actor(features))
    return output


def _like(acts: th.Tensor, output: th.Tensor) -> th.Tensor:
    """Actions in the shape and data type of the network's output; many are float64."""
    return acts.reshape(output.shape).to(output.dtype)


def has_short_cut(policy: ActorCriticPolicy) -> bool:
    """Whether `log_prob_and_entropy` may read a policy's network output directly."""
    return (
        type(policy.action_dist) in (CategoricalDistribution, DiagGaussianDistribution)
        and policy.share_features_extractor
        and all(
            getattr(type(policy), name) is getattr(ActorCriticPolicy, name) for name in _METHODS
        )
    )


def half_squared_norm(policy: BasePolicy) -> th.Tensor:
    """Half the sum of a policy's squared parameters, a scalar."""
    return 0.5 * th.stack([parameter.square().sum() for parameter in policy.parameters()]).sum()


@dataclass(frozen=True)
class RolloutStatsComputer:
    """Evaluates a policy during training.

    Attributes:
        venv: Environments to act in; `None` for no evaluation.
        n_episodes: Least number of episodes; no evaluation if not positive.
    """

    venv: VecEnv | None
    n_episodes: int

    def __call__(self, policy: BasePolicy, rng: np.random.Generator) -> Mapping[str, float]:
        """Statistics of `rollout.rollout_stats`; empty without evaluation."""
        if self.venv is None or self.n_episodes <= 0:
            return {}
        trajectories = rollout.generate_trajectories(
            policy, self.venv, rollout.make_min_episodes(self.n_episodes), rng=rng
        )
        return rollout.rollout_stats(trajectories)


class BCLogger:
    """Logs the training of behavioral cloning.

    Args:
        logger: Receives the records.
    """

    def __init__(self, logger: HierarchicalLogger) -> None:
        self._logger = logger
        self._tensorboard_step = 0
        self._current_epoch = 0

    def reset_tensorboard_steps(self) -> None:
        """Restarts the step count at 0."""
        self._tensorboard_step = 0

    def log_epoch(self, epoch_number: int) -> None:
        """Sets the number of the current pass."""
        self._current_epoch = epoch_number

    def log_batch(
        self,
        batch_num: int,
        batch_size: int,
        num_samples_so_far: int,
        training_metrics: DataclassInstance,
        rollout_stats: Mapping[str, float],
    ) -> None:
        """Logs one batch under `bc/`, and rollouts under `rollout/`."""
        self._logger.record("batch_size", batch_size)
        self._logger.record("bc/epoch", self._current_epoch)
        self._logger.record("bc/batch", batch_num)
        self._logger.record("bc/samples_so_far", num_samples_so_far)
        for field in fields(training_metrics):
            value = getattr(training_metrics, field.name)
            if value is not None:
                self._logger.record(f"bc/{field.name}", value.item())
        for name, statistic in rollout_stats.items():
            # The monitor's returns are equal unless a wrapper changes rewards.
            if "return" in name and "monitor" not in name:
                self._logger.record(f"rollout/{name}", statistic)
        self._logger.dump(self._tensorboard_step)
        self._tensorboard_step += 1

    def __getstate__(self) -> dict[str, Any]:
        """The state without the logger, which holds open files."""
        state = self.__dict__.copy()
        del state["_logger"]
        return state
