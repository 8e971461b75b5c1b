"""Writes policies as zips of Stable-Baselines3, for `PPO.load` and similar methods.

Like all zips of `model.save`, they contain pickles of Stable-Baselines3's objects. Policies and
extractors of this library are written as equivalent ones of Stable-Baselines3, so that this
library is not needed for loading.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch as th
from stable_baselines3 import DQN, SAC, TD3
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from stable_baselines3.common.torch_layers import FlattenExtractor
from stable_baselines3.common.vec_env import VecNormalize
from stable_baselines3.sac.policies import SACPolicy

from imitbench.policies.algorithm_storage import policy_arguments
from imitbench.policies.base import FeedForward32Policy, NormalizeFeaturesExtractor, SAC1024Policy
from imitbench.policies.hub_policy import STATISTICS_FILE
from imitbench.policies.observation_statistics import NormalizedPolicy, ObservationStatistics
from imitbench.policies.sb3_objects import ALGORITHMS, POLICIES
from imitbench.policies.space_check import spaces_only
from imitbench.policies.time_feature import TimeFeaturePolicy
from imitbench.util.networks import BaseNorm
from imitbench.util.spaces import space_from_json, space_to_json

_AS_WRITTEN: dict[type[BasePolicy], type[BasePolicy]] = {
    **{cls: cls for cls in POLICIES.values()},
    FeedForward32Policy: ActorCriticPolicy,
    SAC1024Policy: SACPolicy,
}
# Loading a zip allocates the whole replay buffer, even if the model is only evaluated.
_BUFFER_SIZE = 10_000
# Loading rebuilds these from the hyper-parameters; their classes differ between versions.
_SCHEDULES = ("lr_schedule", "exploration_schedule")
_NORM_WEIGHTS = "features_extractor.normalize."
_ACTING = ("", "pi_", "actor.", "q_net.")


@dataclass(frozen=True)
class Sb3ExportResult:
    """Result of an export.

    Attributes:
        files: The zip, and a `vec_normalize.pkl` if observations are normalized.
        missing: Parts that the zip does not restore, one line each.
    """

    files: list[Path]
    missing: list[str]


def export_sb3_zip(
    policy: BasePolicy, path: Path, *, algorithm: str | None = None
) -> Sb3ExportResult:
    """Writes a policy like Stable-Baselines3's `model.save`.

    Hyper-parameters have the defaults of Stable-Baselines3, except for a small replay buffer.

    Normalization of observations, by a `NormalizedPolicy` or a features extractor, is written as
    a `vec_normalize.pkl` next to the zip, for `VecNormalize.load`. A time feature requires
    `TimeFeatureWrapper` of sb3-contrib.

    Args:
        policy: A policy that `storage.save_policy` can store, except for tabular, random and
            zero policies.
        path: Zip to write.
        algorithm: Name such as `ppo`; `None` for the first that has this class of policy.

    Returns:
        The written files, and what they do not restore.

    Raises:
        ValueError: No algorithm of Stable-Baselines3 has such a policy, or observations are
            normalized twice.
    """
    missing = [
        "the state of optimizers: further training starts with new ones",
        "the hyper-parameters and replay buffer of the training",
    ]
    if isinstance(policy, TimeFeaturePolicy):
        missing.append(
            "the time feature: wrap the environment in sb3_contrib's TimeFeatureWrapper, with "
            f"max_steps={policy.max_steps}"
        )
        policy = policy.policy
    statistics, policy = _without_normalization(policy)
    cls, written_as = _algorithm_for(policy, algorithm)
    kwargs = policy_arguments(policy)
    weights = dict(policy.state_dict())
    if kwargs.get("features_extractor_class") is NormalizeFeaturesExtractor:
        if statistics is not None:
            raise ValueError("policy: normalizes observations twice, which a zip cannot store")
        statistics = _extractor_statistics(policy, weights)
        kwargs |= {"features_extractor_class": FlattenExtractor, "features_extractor_kwargs": {}}
        weights = {key: value for key, value in weights.items() if _NORM_WEIGHTS not in key}
        missing.append("separate statistics of the critics, if any: the actor's are used instead")
    model = _model(cls, written_as, policy, kwargs)
    model.policy.load_state_dict(weights)
    model.observation_space = _portable(model.observation_space)
    model.action_space = _portable(model.action_space)
    path.parent.mkdir(parents=True, exist_ok=True)
    model.save(path, exclude=_SCHEDULES)
    files = [path]
    if statistics is not None:
        files.append(_write_statistics(statistics, policy, path.parent / STATISTICS_FILE))
    return Sb3ExportResult(files, missing)


def _without_normalization(
    policy: BasePolicy,
) -> tuple[ObservationStatistics | None, BasePolicy]:
    if not isinstance(policy, NormalizedPolicy):
        return None, policy
    statistics = ObservationStatistics(
        policy.mean.cpu().numpy(), policy.var.cpu().numpy(), policy.epsilon, policy.clip_obs
    )
    return statistics, policy.policy


def _algorithm_for(
    policy: BasePolicy, algorithm: str | None
) -> tuple[type[BaseAlgorithm], type[BasePolicy]]:
    written_as = _AS_WRITTEN.get(type(policy))
    fitting = {
        name: cls
        for name, cls in ALGORITHMS.items()
        if written_as is not None and issubclass(written_as, cls.policy_aliases["MlpPolicy"])
    }
    if written_as is None or not fitting:
        raise ValueError(f"policy: no algorithm of Stable-Baselines3 has a {type(policy).__name__}")
    name = algorithm or next(iter(fitting))
    if name not in fitting:
        raise ValueError(
            f"algorithm: {name!r} has no {type(policy).__name__}; it is one of {', '.join(fitting)}"
        )
    return fitting[name], written_as


def _model(
    cls: type[BaseAlgorithm],
    policy_class: type[BasePolicy],
    policy: BasePolicy,
    policy_kwargs: dict[str, Any],
) -> BaseAlgorithm:
    settings: dict[str, Any] = {}
    if cls in (SAC, TD3, DQN):
        settings["buffer_size"] = _BUFFER_SIZE
    if cls is not DQN and cls is not TD3:
        acting: Any = getattr(policy, "actor", policy)
        settings["use_sde"] = bool(getattr(acting, "use_sde", False))
    venv = spaces_only(policy)
    with th.random.fork_rng(devices=[]):
        model = cls(policy_class, venv, policy_kwargs=policy_kwargs, device="cpu", **settings)
    if cls is DQN:
        # Versions before 2.4 require an optimizer of both networks, and later ones accept it.
        parameters = list(model.policy.parameters())
        model.policy.optimizer = th.optim.Adam(parameters, lr=model.lr_schedule(1.0))
    # As numbers, which all versions convert to schedules.
    for name in ("clip_range", "clip_range_vf"):
        schedule = getattr(model, name, None)
        if callable(schedule):
            setattr(model, name, float(schedule(1.0)))
    return model


def _extractor_statistics(policy: BasePolicy, weights: dict[str, th.Tensor]) -> Any:
    prefix = next(p for p in _ACTING if f"{p}{_NORM_WEIGHTS}running_mean" in weights)
    module = policy.get_submodule(f"{prefix}{_NORM_WEIGHTS}".rstrip("."))
    if not isinstance(module, BaseNorm):
        raise ValueError(
            f"policy: normalizes with a {type(module).__name__}, which a zip cannot store"
        )
    shape = policy.observation_space.shape
    mean, var = (
        getattr(module, name).cpu().double().numpy().reshape(shape)
        for name in ("running_mean", "running_var")
    )
    return ObservationStatistics(mean, var, module.eps, np.inf)


def _write_statistics(statistics: ObservationStatistics, policy: BasePolicy, path: Path) -> Path:
    normalizer = VecNormalize(
        spaces_only(policy),
        training=False,
        norm_reward=False,
        clip_obs=statistics.clip_obs,
        epsilon=statistics.epsilon,
    )
    running: Any = normalizer.obs_rms
    running.mean, running.var = (
        statistics.mean.view(_PortableArray),
        statistics.var.view(_PortableArray),
    )
    normalizer.old_reward = normalizer.old_reward.view(_PortableArray)
    normalizer.observation_space = _portable(normalizer.observation_space)
    normalizer.action_space = _portable(normalizer.action_space)
    normalizer.save(str(path))
    return path


class _PortableArray(np.ndarray[Any, Any]):
    """An array whose pickle NumPy 1.26 can also read, as an ordinary array.

    By default, NumPy 2 pickles arrays with a function that NumPy 1 does not have.
    """

    def __reduce_ex__(self, protocol: Any) -> Any:
        return np.asarray(self).__reduce_ex__(min(int(protocol), 4))


def _portable(space: gym.Space[Any]) -> gym.Space[Any]:
    """Copies a space without its random generator, and with arrays that any NumPy reads."""
    copied = space_from_json(space_to_json(space))
    for part in (copied, *(copied.spaces.values() if isinstance(copied, gym.spaces.Dict) else ())):
        for name, value in vars(part).items():
            if isinstance(value, np.ndarray):
                setattr(part, name, value.view(_PortableArray))
    return copied
