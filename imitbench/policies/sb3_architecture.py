"""Rebuilds the policy in a zip of Stable-Baselines3 from its weights and printed attributes.

Layer sizes and types of heads and feature extractors are derived from the names and shapes of the
weights. Settings that they do not determine (the activation function, squashing) are read from the
printed attributes in the zip; the defaults are those of Stable-Baselines3.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from stable_baselines3.common.preprocessing import get_flattened_obs_dim
from stable_baselines3.common.torch_layers import (
    BaseFeaturesExtractor,
    CombinedExtractor,
    FlattenExtractor,
    NatureCNN,
)
from stable_baselines3.common.utils import ConstantSchedule
from stable_baselines3.dqn.policies import DQNPolicy
from stable_baselines3.sac.policies import SACPolicy
from stable_baselines3.td3.policies import TD3Policy

from imitbench.errors import InputError
from imitbench.policies.base import NormalizeFeaturesExtractor
from imitbench.policies.bounded_construction import allocations_limited_by, check_finite
from imitbench.policies.sb3_objects import (
    ACTIVATIONS,
    EXTRACTORS,
    NORMS,
    class_in_text,
    policy_class_of_object,
    printed_array,
)
from imitbench.policies.sb3_zip import TRUST_HINT, Sb3Zip, UnreadObject, undetermined
from imitbench.policies.space_check import channels_first
from imitbench.util.networks import EMANorm, RunningNorm

_NORM_TEXT = re.compile(r"\{'normalize_class': (<class '[\w.]+'>)\}")
_RUNNING_NORM_KEYS = {"running_mean", "running_var", "count"}
_EMA_NORM_KEYS = _RUNNING_NORM_KEYS | {"inv_learning_rate", "num_batches"}

Weights = dict[str, th.Tensor]

# Settings that follow from the weights, that concern only training, or that have no effect.
_READ_ELSEWHERE = {
    "net_arch",
    "use_sde",
    "full_std",
    "n_critics",
    "optimizer_class",
    "optimizer_kwargs",
    "ortho_init",
    "log_std_init",
    "device",
}
_PLAIN_SETTINGS: dict[str, tuple[type, ...]] = {
    "squash_output": (bool,),
    "use_expln": (bool,),
    "clip_mean": (int, float),
    "share_features_extractor": (bool,),
    "normalize_images": (bool,),
}
_ACTION_SPACES = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
_TEXT_SETTINGS = {"activation_fn", "features_extractor_class", "features_extractor_kwargs"}


def _extractor_by_weights(
    archive: Sb3Zip, found: dict[str, th.Tensor], observation_space: gym.Space[Any]
) -> tuple[type[BaseFeaturesExtractor], dict[str, Any]]:
    norm_keys = {key.removeprefix("normalize.") for key in found}
    if isinstance(observation_space, spaces.Dict):
        images = [value for key, value in found.items() if key.endswith(".linear.0.weight")]
        if all(key.startswith("extractors.") for key in found):
            return CombinedExtractor, {"cnn_output_dim": images[0].shape[0]} if images else {}
    elif not found:
        return FlattenExtractor, {}
    elif "linear.0.weight" in found and all(key.startswith(("cnn.", "linear.")) for key in found):
        return NatureCNN, {"features_dim": found["linear.0.weight"].shape[0]}
    elif norm_keys in (_RUNNING_NORM_KEYS, _EMA_NORM_KEYS):
        norm = RunningNorm if norm_keys == _RUNNING_NORM_KEYS else EMANorm
        return NormalizeFeaturesExtractor, {"normalize_class": norm}
    raise undetermined(
        archive, "features_extractor_class", f"one with weights {', '.join(sorted(found)[:4])}"
    )


def _stated_kwargs(archive: Sb3Zip, stored: Any) -> dict[str, Any]:
    if stored is None or isinstance(stored, dict):
        return stored or {}
    match = _NORM_TEXT.fullmatch(str(stored))
    name, at_home = class_in_text(match[1] if match else "")
    if not at_home or name not in NORMS:
        raise undetermined(archive, "policy_kwargs.features_extractor_kwargs", stored)
    return {"normalize_class": NORMS[name]}


@dataclass
class _WeightShapes:
    """Properties derived from the names and shapes of the weights, which have current names."""

    kwargs: dict[str, Any]
    weights: Weights
    extractor: str
    inputs: int
    outputs: int
    continuous: bool
    faithful: bool = True


def build_policy(
    archive: Sb3Zip, observation_space: gym.Space[Any], action_space: gym.Space[Any]
) -> tuple[BasePolicy, bool]:
    """Builds the policy of a zip for an environment's spaces.

    Torch's generator is not changed.

    Args:
        archive: Content of the zip.
        observation_space: That of the environment.
        action_space: That of the environment.

    Returns:
        The policy on the CPU, in evaluation mode; and whether its weights match the file one to
        one, so that the state of optimizers applies to them.

    Raises:
        InputError: A part, named in the message, cannot be determined without unpickling; the
            policy was created for other spaces; or the weights are inconsistent.
    """
    settings = _settings(archive)
    policy_class = _policy_class(archive)
    derive = next(_SHAPES[family] for family in _SHAPES if issubclass(policy_class, family))
    shape = derive(archive, settings)
    _check_actions(archive, shape, action_space)
    kwargs = {
        **{name: settings[name] for name in _PLAIN_SETTINGS if name in settings},
        **shape.kwargs,
        **_extractor(archive, shape, settings, observation_space),
        "lr_schedule": ConstantSchedule(0.0),  # of an optimizer that is not used
    }
    if "activation_fn" in settings:
        kwargs["activation_fn"] = _activation(archive, settings["activation_fn"])
    try:
        check_finite(shape.weights)
        with allocations_limited_by(shape.weights):
            policy = policy_class(channels_first(observation_space), action_space, **kwargs)
        policy.load_state_dict(shape.weights)
    except (RuntimeError, TypeError, ValueError, AssertionError, MemoryError) as error:
        problem = " ".join(str(error).split()) or type(error).__name__
        raise InputError(
            f"{archive.path}: weights: do not fit a {policy_class.__name__} rebuilt from "
            f"them for this environment ({problem[:300]}); {TRUST_HINT}"
        ) from error
    policy.set_training_mode(False)
    return policy, shape.faithful


def _settings(archive: Sb3Zip) -> dict[str, Any]:
    """Returns `policy_kwargs`, with text for non-JSON values; unknown settings are refused."""
    stored = archive.data.get("policy_kwargs", {})
    stored = stored.shown if isinstance(stored, UnreadObject) else stored or {}
    if not isinstance(stored, dict):
        raise undetermined(archive, "policy_kwargs", stored)
    settings = dict(stored)
    if settings.get("sde_net_arch", 0) is None:
        del settings["sde_net_arch"]
    for name, value in settings.items():
        where = f"policy_kwargs.{name}"
        if name in _PLAIN_SETTINGS:
            if not isinstance(value, _PLAIN_SETTINGS[name]):
                raise undetermined(archive, where, value)
        elif name not in _READ_ELSEWHERE | _TEXT_SETTINGS:
            raise undetermined(archive, where, value)
    return settings


def _policy_class(archive: Sb3Zip) -> type[BasePolicy]:
    stored = archive.data.get("policy_class")
    if not isinstance(stored, UnreadObject):
        return _class_by_weights(archive)
    policy_class, name = policy_class_of_object(stored)
    if policy_class is None:
        raise undetermined(archive, "policy_class", name)
    return policy_class


def _class_by_weights(archive: Sb3Zip) -> type[BasePolicy]:
    for key, policy_class in (
        ("action_net.weight", ActorCriticPolicy),
        ("actor.latent_pi.0.weight", SACPolicy),
        ("actor.mu.0.weight", TD3Policy),
        ("q_net.q_net.0.weight", DQNPolicy),
    ):
        if key in archive.weights:
            return policy_class
    raise undetermined(archive, "policy_class", "not named in 'data'")


def _actor_critic(archive: Sb3Zip, settings: dict[str, Any]) -> _WeightShapes:
    weights = dict(archive.weights)
    shared, pi, vf = (
        _widths(archive, f"mlp_extractor.{part}")
        for part in ("shared_net", "policy_net", "value_net")
    )
    # Versions before 1.8 could share layers; they are replaced by two copies.
    for part, own in (("policy_net", pi), ("value_net", vf)) if shared else ():
        _prepend(weights, "mlp_extractor.shared_net", f"mlp_extractor.{part}", len(own))
    weights = {k: v for k, v in weights.items() if not k.startswith("mlp_extractor.shared_net.")}
    head = _matrix(archive, "action_net.weight")
    first = [f"mlp_extractor.{part}.0.weight" for part in ("shared_net", "policy_net")]
    entry = next((archive.weights[key] for key in first if key in archive.weights), head)
    kwargs: dict[str, Any] = {"net_arch": {"pi": shared + pi, "vf": shared + vf}}
    log_std = archive.weights.get("log_std")
    if log_std is not None and log_std.ndim == 2:
        kwargs["use_sde"] = True
        # With one action, both forms have this shape and are equivalent.
        kwargs["full_std"] = log_std.shape[1] == head.shape[0]
    if settings.get("share_features_extractor", True):
        # Versions before 1.7 stored a shared extractor only once.
        for key in [key for key in weights if key.startswith("features_extractor.")]:
            weights.setdefault(f"pi_{key}", weights[key])
            weights.setdefault(f"vf_{key}", weights[key])
    return _WeightShapes(
        kwargs,
        weights,
        "features_extractor.",
        inputs=entry.shape[1],
        outputs=head.shape[0],
        continuous=log_std is not None,
        faithful=not shared,
    )


def _soft_actor_critic(archive: Sb3Zip, settings: dict[str, Any]) -> _WeightShapes:
    pi = _widths(archive, "actor.latent_pi")
    kwargs = _critics(archive, pi)
    squashed_mean = "actor.mu.0.weight" in archive.weights
    head = _matrix(archive, "actor.mu.0.weight" if squashed_mean else "actor.mu.weight")
    if "actor.log_std" in archive.weights:
        kwargs["use_sde"] = True
        kwargs["clip_mean"] = settings.get("clip_mean", 2.0) if squashed_mean else 0.0
    entry = archive.weights["actor.latent_pi.0.weight"] if pi else head
    return _WeightShapes(
        kwargs,
        archive.weights,
        "actor.features_extractor.",
        inputs=entry.shape[1],
        outputs=head.shape[0],
        continuous=True,
    )


def _twin_delayed(archive: Sb3Zip, settings: dict[str, Any]) -> _WeightShapes:
    del settings
    *pi, outputs = _widths(archive, "actor.mu") or [0]
    return _WeightShapes(
        _critics(archive, pi),
        archive.weights,
        "actor.features_extractor.",
        inputs=_matrix(archive, "actor.mu.0.weight").shape[1],
        outputs=outputs,
        continuous=True,
    )


def _q_network(archive: Sb3Zip, settings: dict[str, Any]) -> _WeightShapes:
    del settings
    *widths, outputs = _widths(archive, "q_net.q_net") or [0]
    return _WeightShapes(
        {"net_arch": widths},
        archive.weights,
        "q_net.features_extractor.",
        inputs=_matrix(archive, "q_net.q_net.0.weight").shape[1],
        outputs=outputs,
        continuous=False,
    )


_SHAPES: dict[type[BasePolicy], Callable[[Sb3Zip, dict[str, Any]], _WeightShapes]] = {
    ActorCriticPolicy: _actor_critic,
    SACPolicy: _soft_actor_critic,
    TD3Policy: _twin_delayed,
    DQNPolicy: _q_network,
}


def _critics(archive: Sb3Zip, pi: list[int]) -> dict[str, Any]:
    number = 0
    while f"critic.qf{number}.0.weight" in archive.weights:
        number += 1
    *qf, _ = _widths(archive, "critic.qf0") or [0]
    return {"net_arch": {"pi": pi, "qf": qf}, "n_critics": number}


def _widths(archive: Sb3Zip, prefix: str) -> list[int]:
    """Returns the sizes of linear layers with only activations in between."""
    keys = [key for key in archive.weights if key.startswith(f"{prefix}.")]
    number = len(keys) // 2
    expected = {f"{prefix}.{2 * i}.{what}" for i in range(number) for what in ("weight", "bias")}
    if set(keys) != expected:
        odd = ", ".join(sorted(set(keys) ^ expected)[:3])
        raise undetermined(archive, f"layers of {prefix}", f"not plain linear layers: {odd}")
    return [_matrix(archive, f"{prefix}.{2 * i}.weight").shape[0] for i in range(number)]


def _matrix(archive: Sb3Zip, key: str) -> th.Tensor:
    tensor = archive.weights.get(key)
    if tensor is None or tensor.ndim != 2:
        raise InputError(f"{archive.path}: weights: no matrix '{key}', which this policy needs")
    return tensor


def _prepend(weights: Weights, shared: str, branch: str, own_layers: int) -> None:
    """Inserts copies of the shared layers before those of a branch."""
    names = [key.removeprefix(shared) for key in weights if key.startswith(f"{shared}.")]
    moved = len(names) // 2
    for index in reversed(range(own_layers)):
        for what in ("weight", "bias"):
            weights[f"{branch}.{2 * (index + moved)}.{what}"] = weights.pop(
                f"{branch}.{2 * index}.{what}"
            )
    for name in names:
        weights[f"{branch}{name}"] = weights[f"{shared}{name}"].clone()


def _extractor(
    archive: Sb3Zip,
    shape: _WeightShapes,
    settings: dict[str, Any],
    observation_space: gym.Space[Any],
) -> dict[str, Any]:
    """Derives the extractor from its weights; checks printed settings and the observations."""
    found = {
        key.removeprefix(shape.extractor): value
        for key, value in shape.weights.items()
        if key.startswith(shape.extractor)
    }
    cls, kwargs = _extractor_by_weights(archive, found, observation_space)
    if "features_extractor_class" in settings:
        name, at_home = class_in_text(settings["features_extractor_class"])
        if not at_home or EXTRACTORS.get(name) is not cls:
            raise undetermined(archive, "policy_kwargs.features_extractor_class", name)
    stated = _stated_kwargs(archive, settings.get("features_extractor_kwargs"))
    for name, value in stated.items():
        # It only declares the range of inputs, so that weights do not depend on it.
        if name == "normalized_image" and isinstance(value, bool):
            kwargs[name] = value
        elif kwargs.get(name) != value:
            raise undetermined(archive, f"policy_kwargs.features_extractor_kwargs.{name}", value)
    if cls in (FlattenExtractor, NormalizeFeaturesExtractor):
        size = get_flattened_obs_dim(observation_space)
        if size != shape.inputs:
            hint = "; was it trained with a time feature?" if shape.inputs == size + 1 else ""
            raise InputError(
                f"{archive.path}: made for observations of {shape.inputs} numbers, but the "
                f"environment has {size} ({observation_space}){hint}"
            )
    return {"features_extractor_class": cls, "features_extractor_kwargs": kwargs}


def _activation(archive: Sb3Zip, text: Any) -> type:
    name, at_home = class_in_text(text)
    if not at_home or name not in ACTIVATIONS:
        raise undetermined(archive, "policy_kwargs.activation_fn", text)
    return ACTIVATIONS[name]


def _check_actions(archive: Sb3Zip, shape: _WeightShapes, space: gym.Space[Any]) -> None:
    size = spaces.flatdim(space) if isinstance(space, _ACTION_SPACES) else None
    if size != shape.outputs or isinstance(space, spaces.Box) is not shape.continuous:
        kind = "continuous actions" if shape.continuous else "choices"
        raise InputError(
            f"{archive.path}: made for {shape.outputs} {kind}, but the environment has {space}; "
            "use a policy of this environment"
        )
    stored = archive.data.get("action_space")
    if not (isinstance(space, spaces.Box) and isinstance(stored, UnreadObject)):
        return
    for name, bound in (("low", space.low), ("high", space.high)):
        printed = printed_array(stored.shown.get(name))
        if printed is None or printed.size != bound.size:
            continue
        if not np.allclose(printed, bound.ravel(), rtol=1e-5):
            raise InputError(
                f"{archive.path}: made for actions with {name} = {stored.shown[name]}, but the "
                f"environment has {space}; use a policy of this environment"
            )
