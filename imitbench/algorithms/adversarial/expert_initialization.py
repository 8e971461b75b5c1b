"""Initialization of the generator's policy from the demonstrations."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.distributions import DiagGaussianDistribution
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.policies import ActorCriticPolicy

from imitbench.algorithms.adversarial.discriminator import Array, ExpertBatches
from imitbench.algorithms.bc import BC
from imitbench.data import types
from imitbench.data.observations import assert_not_dictobs
from imitbench.rl.ppo import PPO
from imitbench.util.logger import HierarchicalLogger
from imitbench.util.networks import RunningNorm
from imitbench.util.util import safe_to_tensor

NormalizerSource = Literal["agent", "expert", "both"]
"""Source of the observation statistics of the policy's normalizing layer."""

_FIT_BATCHES = 1000
_FIT_BATCH_SIZE = 64
_LEAST_STD = math.exp(-3.0)


@dataclass(frozen=True)
class ExpertInitialization:
    """How demonstrations initialize the generator's policy; not at all by default.

    Attributes:
        normalizer_source: `agent` for statistics of the generator's observations; `expert` for
            those of the demonstrations, then fixed; `both` for half of each.
        log_std: Whether the policy's action noise starts at the expert's: the standard deviation of
            demonstrated actions from the mean action of a policy fitted to them.
        batches: Batches, of 64 transitions each, of behavioral cloning before the first round.
        critic_steps: Environment steps after that in which only the critic is trained, so that an
            untrained critic does not harm the policy.

    Raises:
        ValueError: A number is negative, or `normalizer_source` is unknown.
    """

    normalizer_source: NormalizerSource = "agent"
    log_std: bool = False
    batches: int = 0
    critic_steps: int = 0

    def __post_init__(self) -> None:
        if self.normalizer_source not in ("agent", "expert", "both"):
            raise ValueError(
                f"normalizer_source must be agent, expert or both, not {self.normalizer_source!r}"
            )
        for name in ("batches", "critic_steps"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be at least 0, not {getattr(self, name)}")


class PolicyInitializer:
    """Initializes a generator's policy, and updates its normalizer's statistics.

    Args:
        start: How to initialize the policy.
        algorithm: The generator's; `imitbench.rl.ppo.PPO` unless `start` is the default.

    Raises:
        ValueError: The generator does not support `start`.
    """

    def __init__(self, start: ExpertInitialization, algorithm: BaseAlgorithm) -> None:
        self._start = start
        if start == ExpertInitialization():
            return
        policy = algorithm.policy
        if not isinstance(algorithm, PPO) or not isinstance(policy, ActorCriticPolicy):
            raise ValueError(
                f"start: needs a generator of imitbench.rl.ppo.PPO, not {type(algorithm).__name__}"
            )
        self._ppo, self._policy = algorithm, policy
        if start.normalizer_source == "agent":
            return
        normalizer = getattr(policy.features_extractor, "normalize", None)
        if not isinstance(normalizer, RunningNorm):
            raise ValueError(
                f"start: normalizer_source {start.normalizer_source} needs a policy that "
                "normalizes observations; make it with features_extractor_class="
                "NormalizeFeaturesExtractor and normalize_class RunningNorm"
            )
        self._normalizer = normalizer
        self._moments: tuple[ExpertBatches, Array, Array] | None = None
        normalizer.fixed = start.normalizer_source == "expert"

    def begin(self, expert: object, rng: np.random.Generator) -> None:
        """Prepares the policy for its first round.

        Args:
            expert: `ExpertBatches` of the demonstrations.
            rng: Draws the order of the demonstrations in behavioral cloning.

        Raises:
            ValueError: Demonstrations are missing or were given as batches.
        """
        start = self._start
        if start == ExpertInitialization():
            return
        if not isinstance(expert, ExpertBatches):
            raise ValueError("start: needs demonstrations as trajectories or transitions")
        if start.normalizer_source != "agent":
            self._normalizer.reset_running_stats()
            # As many observations as in the first rollout.
            self._merge(expert, self._ppo.n_envs * self._ppo.n_steps)
        transitions = expert.transitions
        if start.batches:
            _clone(self._policy, transitions, start.batches, rng)
        if start.log_std and isinstance(self._policy.action_dist, DiagGaussianDistribution):
            self._set_log_std(transitions, rng)

    def before_round(self) -> None:
        """Sets what is trained in a round."""
        if self._start == ExpertInitialization():
            return
        self._ppo.critic_only = self._ppo.num_timesteps < self._start.critic_steps
        if self._start.normalizer_source == "both":
            self._seen = int(self._normalizer.count)

    def after_round(self, expert: object) -> None:
        """Adds as many expert observations to the statistics as the agent added."""
        if self._start.normalizer_source == "both" and isinstance(expert, ExpertBatches):
            self._merge(expert, int(self._normalizer.count) - self._seen)

    def _merge(self, expert: ExpertBatches, number: int) -> None:
        if self._moments is None or self._moments[0] is not expert:
            self._moments = expert, *expert.moments
        device = self._normalizer.running_mean.device
        mean, var = (th.as_tensor(e, dtype=th.float32, device=device) for e in self._moments[1:])
        self._normalizer.merge(mean, var, number)

    def _set_log_std(self, transitions: types.TransitionsMinimal, rng: np.random.Generator) -> None:
        fitted = self._policy
        if not self._start.batches:
            fitted = copy.deepcopy(self._policy)
            _clone(fitted, transitions, _FIT_BATCHES, rng)
        obs = safe_to_tensor(assert_not_dictobs(transitions.obs), device=fitted.device)
        acts = safe_to_tensor(transitions.acts, device=fitted.device)
        with th.no_grad():
            # The distribution's mode is its mean.
            mean = fitted.get_distribution(obs).get_actions(deterministic=True)
            deviation = (acts.reshape(mean.shape) - mean).square().mean(dim=0).sqrt()
            self._policy.log_std.copy_(deviation.clamp_min(_LEAST_STD).log())


def _clone(
    policy: ActorCriticPolicy,
    transitions: types.TransitionsMinimal,
    batches: int,
    rng: np.random.Generator,
) -> None:
    """Trains a policy by behavioral cloning, with an optimizer of its own."""
    bc = BC(
        observation_space=policy.observation_space,
        action_space=policy.action_space,
        rng=rng,
        policy=policy,
        demonstrations=transitions,
        batch_size=min(_FIT_BATCH_SIZE, len(transitions)),
        device=policy.device,
        custom_logger=HierarchicalLogger(Logger(None, [])),
    )
    bc.train(n_batches=batches, progress_bar=False)
