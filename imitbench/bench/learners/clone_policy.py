"""The policy of BC and DAgger in the harness."""

from __future__ import annotations

from typing import Any

from stable_baselines3.common.policies import ActorCriticPolicy

from imitbench.bench.learner import Task
from imitbench.policies.base import NormalizeFeaturesExtractor
from imitbench.util.networks import RunningNorm


def make_clone_policy(task: Task) -> ActorCriticPolicy:
    """Builds an untrained policy.

    Args:
        task: Uses the hyper-parameters `hidden_size`, `hidden_layers`, `normalize_observations` and
            `learning_rate`.
    """
    options: dict[str, Any] = dict(task.hyperparameters)
    extractor: dict[str, Any] = {}
    if options["normalize_observations"]:
        extractor = {
            "features_extractor_class": NormalizeFeaturesExtractor,
            "features_extractor_kwargs": {"normalize_class": RunningNorm},
        }
    return ActorCriticPolicy(
        task.observation_space,
        task.action_space,
        lr_schedule=lambda _: options["learning_rate"],
        net_arch=[options["hidden_size"]] * options["hidden_layers"],
        **extractor,
    )
