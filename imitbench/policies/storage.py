"""Stores policies without pickle: architecture as JSON, weights as safetensors.

A stored policy is a folder with `policy.json` and `policy.safetensors`. Reading only builds
classes named in this module and executes no code from files.
"""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch as th
from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer
from stable_baselines3.common import policies as sb3_policies
from stable_baselines3.common import torch_layers
from stable_baselines3.dqn.policies import DQNPolicy
from stable_baselines3.sac.policies import SACPolicy
from stable_baselines3.td3.policies import TD3Policy

from imitbench.errors import InputError
from imitbench.policies.action_heads import (
    DeterministicPolicy,
    EnsemblePolicy,
    FlowPolicy,
    HeadPolicy,
    MixturePolicy,
)
from imitbench.policies.base import (
    FeedForward32Policy,
    NormalizeFeaturesExtractor,
    RandomPolicy,
    SAC1024Policy,
    ZeroPolicy,
)
from imitbench.policies.bounded_construction import allocations_limited_by, check_finite
from imitbench.policies.foreign import ForeignPolicy, is_foreign, load_foreign_policy
from imitbench.policies.normalized import NormalizedPolicy
from imitbench.policies.tabular import ObservationTabularPolicy
from imitbench.policies.time_feature import TimeFeaturePolicy
from imitbench.util.extras import import_extra
from imitbench.util.spaces import space_from_json, space_to_json
from imitbench.util.tensor_storage import (
    LAYER_TYPES,
    ArgumentCodec,
    digest,
    read_description,
    read_weights,
    weights_to_bytes,
    write_network,
)

DESCRIPTION_FILE = "policy.json"
WEIGHTS_FILE = "policy.safetensors"

_POLICIES: dict[str, type[sb3_policies.BasePolicy]] = {
    "ActorCriticPolicy": sb3_policies.ActorCriticPolicy,
    "ActorCriticCnnPolicy": sb3_policies.ActorCriticCnnPolicy,
    "MultiInputActorCriticPolicy": sb3_policies.MultiInputActorCriticPolicy,
    "FeedForward32Policy": FeedForward32Policy,
    "SACPolicy": SACPolicy,
    "SAC1024Policy": SAC1024Policy,
    "TD3Policy": TD3Policy,
    "DQNPolicy": DQNPolicy,
    "DeterministicPolicy": DeterministicPolicy,
    "MixturePolicy": MixturePolicy,
    "FlowPolicy": FlowPolicy,
    "EnsemblePolicy": EnsemblePolicy,
    "ObservationTabularPolicy": ObservationTabularPolicy,
    "RandomPolicy": RandomPolicy,
    "ZeroPolicy": ZeroPolicy,
}
# Supported if the package sb3-contrib is installed.
_OF_SB3_CONTRIB = {"TQCPolicy": "tqc", "QRDQNPolicy": "qrdqn"}
# The architecture of these classes is fixed, and they do not accept it as an argument.
_FIXED_ARCHITECTURE = ("FeedForward32Policy", "SAC1024Policy")
# These have weights but no optimizer of their own.
_WITHOUT_SCHEDULE = (HeadPolicy, ObservationTabularPolicy)
# Stored separately, or not needed for acting; training state belongs to checkpoints.
_NOT_STORED = (
    "observation_space",
    "action_space",
    "lr_schedule",
    "optimizer_class",
    "optimizer_kwargs",
)
_CODEC = ArgumentCodec(
    "policy",
    {
        **LAYER_TYPES,
        "FlattenExtractor": torch_layers.FlattenExtractor,
        "NatureCNN": torch_layers.NatureCNN,
        "CombinedExtractor": torch_layers.CombinedExtractor,
        "NormalizeFeaturesExtractor": NormalizeFeaturesExtractor,
    },
)


class _Weights(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    file: Literal["policy.safetensors"] = "policy.safetensors"
    sha256: str


class _Normalization(BaseModel):
    """Settings of a `NormalizedPolicy`; its statistics are stored with the weights.

    `clip_obs` is null if nothing is clipped.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    epsilon: float = Field(ge=0)
    clip_obs: float | None = Field(ge=0)


class _TimeFeature(BaseModel):
    """Settings of a `TimeFeaturePolicy`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    max_steps: int = Field(ge=1)


class _Description(BaseModel):
    """`policy.json`.

    Spaces are those of the networks. The optional last fields describe wrappers between networks
    and environment.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    format: Literal["imitbench-policy"] = "imitbench-policy"
    version: Literal[1] = 1
    policy_class: str
    observation_space: dict[str, Any]
    action_space: dict[str, Any]
    kwargs: dict[str, Any]
    weights: _Weights
    normalization: _Normalization | None = None
    time_feature: _TimeFeature | None = None

    @model_serializer(mode="wrap")
    def _without_nothing(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in handler(self).items() if value is not None}


def save_policy(policy: sb3_policies.BasePolicy, directory: Path) -> None:
    """Writes a policy to `directory`.

    Args:
        policy: A policy of a class and with layers that this module supports; or a
            `NormalizedPolicy` or `TimeFeaturePolicy` around one; or a `ForeignPolicy`.
        directory: Created if missing; an existing policy in it is replaced.

    Raises:
        ValueError: The class of the policy or of a layer, or a space, cannot be stored; the
            message names it.
    """
    if isinstance(policy, ForeignPolicy):
        policy.save_to(directory)
        return
    whole = policy
    time_feature = normalization = None
    if isinstance(policy, TimeFeaturePolicy):
        time_feature = _TimeFeature(max_steps=policy.max_steps)
        policy = policy.policy
    if isinstance(policy, NormalizedPolicy):
        clip = policy.clip_obs if math.isfinite(policy.clip_obs) else None
        normalization = _Normalization(epsilon=policy.epsilon, clip_obs=clip)
        policy = policy.policy
    name = type(policy).__name__
    if _class_of(name) is not type(policy):
        raise ValueError(
            f"policy: class {type(policy).__module__}.{name} cannot be stored without pickle; "
            f"storable: {', '.join((*_POLICIES, *_OF_SB3_CONTRIB))}"
        )
    kwargs = {k: v for k, v in policy._get_constructor_parameters().items() if k not in _NOT_STORED}
    if name in _FIXED_ARCHITECTURE:
        kwargs.pop("net_arch", None)
    shared = getattr(policy, "share_features_extractor", None)
    if shared is not None:  # Stable-Baselines3 omits it from most policies' parameters
        kwargs["share_features_extractor"] = shared
    # Policies without weights (random, zero) take only spaces.
    if not policy.state_dict():
        kwargs = {}
    weights = weights_to_bytes(whole)
    description = _Description(
        policy_class=name,
        observation_space=space_to_json(policy.observation_space),
        action_space=space_to_json(policy.action_space),
        kwargs=_CODEC.encode(kwargs),
        weights=_Weights(sha256=digest(weights)),
        normalization=normalization,
        time_feature=time_feature,
    )
    write_network(directory / WEIGHTS_FILE, weights, directory / DESCRIPTION_FILE, description)


def load_policy(directory: Path, *, device: th.device | str = "cpu") -> sb3_policies.BasePolicy:
    """Reads a policy written by `save_policy`.

    Args:
        directory: Folder with `policy.json`.
        device: Device of the loaded policy.

    Returns:
        The policy, in evaluation mode.

    Raises:
        InputError: A file is missing, truncated, altered or describes something unknown.
    """
    path = directory / DESCRIPTION_FILE
    if is_foreign(directory):
        return load_foreign_policy(directory, programs=False).to(device)
    description = read_description(path, _Description, "policy")
    weights = read_weights(directory / WEIGHTS_FILE, description.weights.sha256, DESCRIPTION_FILE)
    name = description.policy_class
    policy_class = _class_of(name)
    if policy_class is None and name in _OF_SB3_CONTRIB:
        import_extra("sb3_contrib", "contrib", f"{path}: policy_class {name}")
    if policy_class is None:
        raise InputError(
            f"{path}: policy_class: {name!r} is not known; "
            f"accepted: {', '.join((*_POLICIES, *_OF_SB3_CONTRIB))}"
        )
    try:
        check_finite(weights)
        with allocations_limited_by(weights):
            policy = _build(policy_class, description, has_weights=bool(weights))
        policy.load_state_dict(weights)
    except (TypeError, ValueError, KeyError, RuntimeError, MemoryError) as error:
        problem = (str(error) or type(error).__name__).splitlines()[0]
        raise InputError(f"{path}: does not describe its weights ({problem})") from error
    policy.set_training_mode(False)
    draw_exploration(policy)
    return policy.to(device)


def _class_of(name: str) -> type[sb3_policies.BasePolicy] | None:
    """Returns the class of a name; `None` if it is unknown, or its package is missing."""
    if name not in _OF_SB3_CONTRIB:
        return _POLICIES.get(name)
    try:
        home = importlib.import_module(f"sb3_contrib.{_OF_SB3_CONTRIB[name]}.policies")
    except ImportError:
        return None
    found: type[sb3_policies.BasePolicy] = getattr(home, name)
    return found


def _build(
    policy_class: type[sb3_policies.BasePolicy], description: _Description, *, has_weights: bool
) -> sb3_policies.BasePolicy:
    kwargs: dict[str, Any] = {
        "observation_space": space_from_json(description.observation_space),
        "action_space": space_from_json(description.action_space),
        **_CODEC.decode(description.kwargs),
    }
    if has_weights and not issubclass(policy_class, _WITHOUT_SCHEDULE):
        kwargs["lr_schedule"] = _no_schedule
    policy = policy_class(**kwargs)
    normalization, time_feature = description.normalization, description.time_feature
    if normalization is not None:
        shape = policy.observation_space.shape
        if shape is None:
            raise ValueError("only array observations can be normalized")
        policy = NormalizedPolicy(
            policy,
            np.zeros(shape),
            np.ones(shape),
            epsilon=normalization.epsilon,
            clip_obs=math.inf if normalization.clip_obs is None else normalization.clip_obs,
        )
    if time_feature is not None:
        policy = TimeFeaturePolicy(policy, time_feature.max_steps)
    return policy


def draw_exploration(policy: sb3_policies.BasePolicy) -> None:
    """Samples the exploration noise of gSDE, which would otherwise be that of the untrained policy.

    Torch's generator is not changed.
    """
    while isinstance(policy, NormalizedPolicy | TimeFeaturePolicy):
        policy = policy.policy
    acting: Any = getattr(policy, "actor", policy)
    if getattr(acting, "use_sde", False):
        with th.random.fork_rng(devices=[]):
            acting.reset_noise()


def _no_schedule(_progress: float) -> float:
    """Returns the learning rate of the unused optimizer that Stable-Baselines3 always builds."""
    return 0.0
