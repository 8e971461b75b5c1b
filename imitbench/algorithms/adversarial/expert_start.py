"""What the generator's policy takes from the demonstrations, apart from its reward."""

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

from imitbench.algorithms.adversarial.expert_batches import Array, ExpertBatches
from imitbench.algorithms.bc import BC
from imitbench.data import types
from imitbench.data.observations import assert_not_dictobs
from imitbench.rl.ppo import PPO
from imitbench.util.logger import HierarchicalLogger
from imitbench.util.networks import RunningNorm
from imitbench.util.util import safe_to_tensor

NormalizerSource = Literal["agent", "expert", "both"]
"""Whose observations make the statistics of the policy's normalizing layer."""

_FIT_BATCHES = 1000
_FIT_BATCH_SIZE = 64
_LEAST_STD = math.exp(-3.0)


@dataclass(frozen=True)
class ExpertStart:
    """How demonstrations shape the generator's policy; not at all by default.

    Attributes:
        normalizer_source: `agent` for statistics of its own observations; `expert` for those of
            the demonstrations, which stay as they are; `both` for half of each.
        log_std: Whether its action noise starts at the expert's: the deviation of the
            demonstrations' actions from the mean action of a policy that was fitted to them.
        batches: Batches of 64 transitions of behavioral cloning before the first round.
        critic_steps: Environment steps after those in which only the critic is trained, so that
            values of an untrained one do not spoil the policy.

    Raises:
        ValueError: A number is negative, or the source is unknown.
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


class StartedPolicy:
    """Gives a generator's policy its start, and keeps its statistics as wanted.

    Args:
        start: How.
        algorithm: The generator.

    Raises:
        ValueError: The generator cannot do it.
    """

    def __init__(self, start: ExpertStart, algorithm: BaseAlgorithm) -> None:
        self._start = start
        if start == ExpertStart():
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
            expert: The demonstrations.
            rng: Source of the order in which they are cloned.

        Raises:
            ValueError: They were given as batches, or there are none.
        """
        start = self._start
        if start == ExpertStart():
            return
        if not isinstance(expert, ExpertBatches):
            raise ValueError("start: needs demonstrations as trajectories or transitions")
        if start.normalizer_source != "agent":
            self._normalizer.reset_running_stats()
            # As many as the first rollout will have.
            self._merge(expert, self._ppo.n_envs * self._ppo.n_steps)
        transitions = expert.transitions
        if start.batches:
            _clone(self._policy, transitions, start.batches, rng)
        if start.log_std and isinstance(self._policy.action_dist, DiagGaussianDistribution):
            self._set_log_std(transitions, rng)

    def before_round(self) -> None:
        """Decides what is trained in a round."""
        if self._start == ExpertStart():
            return
        self._ppo.critic_only = self._ppo.num_timesteps < self._start.critic_steps
        if self._start.normalizer_source == "both":
            self._seen = int(self._normalizer.count)

    def after_round(self, expert: object) -> None:
        """Takes as many of the expert's observations into the statistics as of the agent's."""
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
    """Trains a policy by behavioral cloning, apart from its own optimizer."""
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
