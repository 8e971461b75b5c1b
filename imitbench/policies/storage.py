"""Stores policies without pickle: architecture as JSON, weights as safetensors.

A stored policy is a folder with `policy.json` and `policy.safetensors`. Reading builds only classes
named in this module, and classes in the source of a method that the user named; it executes no
code from files.
"""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch as th
from pydantic import BaseModel, Field, SerializerFunctionWrapHandler, model_serializer
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.utils import ConstantSchedule

from imitbench.cards.plugin_classes import (
    PluginCodec,
    PluginSource,
    accepts,
    choose_source,
    constructor_arguments,
)
from imitbench.errors import InputError
from imitbench.policies.action_heads import (
    DeterministicPolicy,
    EnsemblePolicy,
    FlowPolicy,
    MixturePolicy,
)
from imitbench.policies.base import RandomPolicy, ZeroPolicy
from imitbench.policies.bounded_construction import allocations_limited_by, check_finite
from imitbench.policies.foreign import ForeignPolicy, is_foreign, load_foreign_policy
from imitbench.policies.observation_statistics import NormalizedPolicy
from imitbench.policies.sb3_objects import EXTRACTORS, POLICIES
from imitbench.policies.scripted import ScriptedPolicy, scripted_class
from imitbench.policies.tabular import ObservationTabularPolicy
from imitbench.policies.time_feature import TimeFeaturePolicy
from imitbench.util.extras import import_extra
from imitbench.util.spaces import space_from_json, space_to_json
from imitbench.util.tensor_storage import (
    LAYER_TYPES,
    check_rebuilds,
    digest,
    read_description,
    read_weights,
    weights_to_bytes,
    write_network,
)
from imitbench.util.text_line import one_line

DESCRIPTION_FILE = "policy.json"
WEIGHTS_FILE = "policy.safetensors"

_POLICIES: dict[str, type[BasePolicy]] = {
    **POLICIES,
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
# Stored separately, or not needed for acting; training state belongs to checkpoints.
_NOT_STORED = (
    "observation_space",
    "action_space",
    "lr_schedule",
    "optimizer_class",
    "optimizer_kwargs",
)
_TYPES: dict[str, type] = {**LAYER_TYPES, **EXTRACTORS}


class _Weights(BaseModel, extra="forbid", strict=True):
    file: Literal["policy.safetensors"] = "policy.safetensors"
    sha256: str


class _Normalization(BaseModel, extra="forbid", strict=True):
    """Settings of a `NormalizedPolicy`; its statistics are stored with the weights.

    `clip_obs` is null if nothing is clipped.
    """

    epsilon: float = Field(ge=0)
    clip_obs: float | None = Field(ge=0)


class _TimeFeature(BaseModel, extra="forbid", strict=True):
    """Settings of a `TimeFeaturePolicy`."""

    max_steps: int = Field(ge=1)


class _Description(BaseModel, extra="forbid", strict=True):
    """`policy.json`.

    Spaces are those of the networks. `plugin` is the source of classes that are not of this package
    or Stable-Baselines3. The other optional fields describe wrappers between networks and
    environment.
    """

    format: Literal["imitbench-policy"] = "imitbench-policy"
    version: Literal[1] = 1
    policy_class: str
    observation_space: dict[str, Any]
    action_space: dict[str, Any]
    kwargs: dict[str, Any]
    weights: _Weights
    plugin: PluginSource | None = None
    normalization: _Normalization | None = None
    time_feature: _TimeFeature | None = None

    @model_serializer(mode="wrap")
    def _without_nothing(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in handler(self).items() if value is not None}


def save_policy(policy: BasePolicy, directory: Path) -> None:
    """Writes a policy to `directory`.

    Args:
        policy: A policy of a class and with layers that this module supports, or that the source
            of a plug-in method defines; or a `NormalizedPolicy` or `TimeFeaturePolicy` around one;
            or a `ForeignPolicy`.
        directory: Created if missing; an existing policy in it is replaced.

    Raises:
        ValueError: The class of the policy or of a layer, an argument of it, or a space, cannot be
            stored; the message names it.
    """
    if isinstance(policy, ForeignPolicy):
        policy.save_to(directory)
        return
    description, weights = _describe(policy)
    write_network(directory / WEIGHTS_FILE, weights, directory / DESCRIPTION_FILE, description)


def check_storable(policy: BasePolicy) -> None:
    """Checks that a policy can be stored and built again, without writing it.

    Raises:
        InputError: It cannot be stored, or what is stored does not determine it.
    """
    if isinstance(policy, ForeignPolicy):
        return
    if not isinstance(policy, BasePolicy):
        raise InputError(
            f"policy: is a {type(policy).__qualname__}; make its class a subclass of "
            "stable_baselines3.common.policies.BasePolicy, or of "
            "imitbench.policies.stateful.StatefulPolicy if it has a memory"
        )
    check_rebuilds("policy", policy, _describe, _rebuild)


def _describe(policy: BasePolicy) -> tuple[_Description, bytes]:
    """Returns the content of both files.

    Raises:
        ValueError: As `save_policy`.
    """
    whole = policy
    time_feature = normalization = None
    if isinstance(policy, TimeFeaturePolicy):
        time_feature = _TimeFeature(max_steps=policy.max_steps)
        policy = policy.policy
    if isinstance(policy, NormalizedPolicy):
        clip = policy.clip_obs if math.isfinite(policy.clip_obs) else None
        normalization = _Normalization(epsilon=policy.epsilon, clip_obs=clip)
        policy = policy.policy
    codec = PluginCodec("policy", _TYPES)
    name, kwargs = _class_and_arguments(policy, codec)
    weights = weights_to_bytes(whole)
    description = _Description(
        policy_class=name,
        observation_space=space_to_json(policy.observation_space),
        action_space=space_to_json(policy.action_space),
        kwargs=kwargs,
        weights=_Weights(sha256=digest(weights)),
        plugin=codec.plugin,
        normalization=normalization,
        time_feature=time_feature,
    )
    return description, weights


def _class_and_arguments(policy: BasePolicy, codec: PluginCodec) -> tuple[str, dict[str, Any]]:
    """Returns the name of a policy's class, and the encoded arguments of its constructor."""
    name = type(policy).__name__
    own = _class_of(name) is not type(policy)
    if own:
        name = _name_of_own(type(policy), codec)
        kwargs = constructor_arguments(policy, policy._get_constructor_parameters())
    else:
        kwargs = policy._get_constructor_parameters()
        shared = getattr(policy, "share_features_extractor", None)
        if shared is not None:  # Stable-Baselines3 omits it from most policies' parameters
            kwargs["share_features_extractor"] = shared
        # Policies without weights (random, zero) take only spaces.
        if not policy.state_dict() and not isinstance(policy, ScriptedPolicy):
            kwargs = {}
    fixed = ("net_arch",) if name in _FIXED_ARCHITECTURE else ()
    encoded = {}
    for key, value in kwargs.items():
        if key in _NOT_STORED or key in fixed:
            continue
        try:
            encoded[key] = codec.encode(value)
        except ValueError as error:
            raise ValueError(f"{error} (argument {key} of {name})") from error
    return name, encoded


def _name_of_own(cls: type, codec: PluginCodec) -> str:
    try:
        return codec.name_of(cls)
    except ValueError as error:
        raise ValueError(
            f"policy: class {cls.__module__}.{cls.__qualname__} cannot be stored without pickle; "
            "define it at the top of a module of a plug-in method, next to the card; of libraries "
            f"these can be stored: {', '.join((*_POLICIES, *_OF_SB3_CONTRIB))}"
        ) from error


def load_policy(
    directory: Path,
    *,
    device: th.device | str = "cpu",
    plugin: str | None = None,
    trust: bool = False,
) -> BasePolicy:
    """Reads a policy written by `save_policy`.

    Args:
        directory: Folder with `policy.json`.
        device: Device of the loaded policy.
        plugin: The method whose source defines the policy's class, in any form that
            `imitbench.cards.plugins.find_algorithm` accepts: its modules are imported. Not needed
            for other policies.
        trust: Whether the class may also come from source that has changed since.

    Returns:
        The policy, in evaluation mode.

    Raises:
        InputError: A file is missing, truncated, altered or describes something unknown; or the
            class is of a plug-in that is not named, or not of this one.
    """
    path = directory / DESCRIPTION_FILE
    if is_foreign(directory):
        return load_foreign_policy(directory, programs=False).to(device)
    description = read_description(path, _Description, "policy")
    weights = read_weights(directory / WEIGHTS_FILE, description.weights.sha256, DESCRIPTION_FILE)
    if description.plugin is not None:
        source = choose_source(
            description.plugin, path, what="policy", plugin=plugin, trust=trust,
            name_it=f"--algo ./{description.plugin.name}",
        )  # fmt: skip
        description = description.model_copy(update={"plugin": source})
    name = description.policy_class
    if name in _OF_SB3_CONTRIB and _class_of(name) is None:
        import_extra("sb3_contrib", "contrib", f"{path}: policy_class {name}")
    if ":" not in name and _class_of(name) is None:
        raise InputError(
            f"{path}: policy_class: {name!r} is not known; "
            f"accepted: {', '.join((*_POLICIES, *_OF_SB3_CONTRIB))}"
        )
    try:
        policy = _rebuild(description, weights)
        policy.set_training_mode(False)
        draw_exploration(policy)
    except InputError:
        raise
    except Exception as error:  # classes of users may raise any error
        raise InputError(
            f"{path}: does not describe its weights ({_in_one_line(error)})"
        ) from error
    return policy.to(device)


def _rebuild(description: _Description, weights: dict[str, th.Tensor]) -> BasePolicy:
    """Builds the policy and gives it its weights; raises any error that classes may raise."""
    codec = PluginCodec("policy", _TYPES, description.plugin)
    policy_class = _class_of(description.policy_class)
    if policy_class is None:
        found = codec.type_of(description.policy_class)
        if not issubclass(found, BasePolicy):
            raise ValueError(f"{description.policy_class} is not a policy")
        policy_class = found
    else:
        # Classes of users may have buffers with infinite bounds.
        check_finite(weights)
    with allocations_limited_by(weights):
        policy = _build(policy_class, description, codec)
    policy.load_state_dict(weights)
    return policy


def _in_one_line(error: BaseException) -> str:
    return one_line(error) or type(error).__name__


def _class_of(name: str) -> type[BasePolicy] | None:
    """Returns the class of a name; `None` if it is unknown, or its package is missing."""
    if name not in _OF_SB3_CONTRIB:
        return _POLICIES.get(name) or scripted_class(name)
    try:
        home = importlib.import_module(f"sb3_contrib.{_OF_SB3_CONTRIB[name]}.policies")
    except ImportError:
        return None
    found: type[BasePolicy] = getattr(home, name)
    return found


def _build(
    policy_class: type[BasePolicy], description: _Description, codec: PluginCodec
) -> BasePolicy:
    kwargs: dict[str, Any] = {
        "observation_space": space_from_json(description.observation_space),
        "action_space": space_from_json(description.action_space),
        **codec.decode(description.kwargs),
    }
    if accepts(policy_class, "lr_schedule"):
        kwargs["lr_schedule"] = ConstantSchedule(0.0)  # of an optimizer that is not used
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


def draw_exploration(policy: BasePolicy) -> None:
    """Samples the exploration noise of gSDE, which would otherwise be that of the untrained policy.

    Torch's generator is not changed.
    """
    while isinstance(policy, NormalizedPolicy | TimeFeaturePolicy):
        policy = policy.policy
    acting: Any = getattr(policy, "actor", policy)
    if getattr(acting, "use_sde", False):
        with th.random.fork_rng(devices=[]):
            acting.reset_noise()
