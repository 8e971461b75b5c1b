"""Stores policies without pickle: architecture as JSON, weights as safetensors.

A stored policy is a folder with `policy.json` and `policy.safetensors`. Reading one builds only
classes named in this module; nothing from the file is ever executed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch as th
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from safetensors import torch as safetensors_torch
from stable_baselines3.common import policies as sb3_policies
from stable_baselines3.common import torch_layers
from stable_baselines3.sac.policies import SACPolicy

from imitbench.errors import InputError
from imitbench.policies.base import (
    FeedForward32Policy,
    NormalizeFeaturesExtractor,
    RandomPolicy,
    SAC1024Policy,
    ZeroPolicy,
)
from imitbench.util.files import atomic_write_bytes, atomic_write_text
from imitbench.util.networks import EMANorm, RunningNorm
from imitbench.util.spaces import space_from_json, space_to_json

DESCRIPTION_FILE = "policy.json"
WEIGHTS_FILE = "policy.safetensors"

_POLICIES: dict[str, type[sb3_policies.BasePolicy]] = {
    "ActorCriticPolicy": sb3_policies.ActorCriticPolicy,
    "ActorCriticCnnPolicy": sb3_policies.ActorCriticCnnPolicy,
    "MultiInputActorCriticPolicy": sb3_policies.MultiInputActorCriticPolicy,
    "FeedForward32Policy": FeedForward32Policy,
    "SACPolicy": SACPolicy,
    "SAC1024Policy": SAC1024Policy,
    "RandomPolicy": RandomPolicy,
    "ZeroPolicy": ZeroPolicy,
}
# These classes fix their own architecture and refuse to be told it again.
_FIXED_ARCHITECTURE = ("FeedForward32Policy", "SAC1024Policy")
# What a policy needs to act; optimizers and learning-rate schedules belong to checkpoints.
_NOT_STORED = (
    "observation_space",
    "action_space",
    "lr_schedule",
    "optimizer_class",
    "optimizer_kwargs",
)
_TYPES: dict[str, type] = {
    "torch.nn.Tanh": th.nn.Tanh,
    "torch.nn.ReLU": th.nn.ReLU,
    "torch.nn.ELU": th.nn.ELU,
    "torch.nn.LeakyReLU": th.nn.LeakyReLU,
    "torch.nn.SiLU": th.nn.SiLU,
    "torch.nn.GELU": th.nn.GELU,
    "FlattenExtractor": torch_layers.FlattenExtractor,
    "NatureCNN": torch_layers.NatureCNN,
    "CombinedExtractor": torch_layers.CombinedExtractor,
    "NormalizeFeaturesExtractor": NormalizeFeaturesExtractor,
    "RunningNorm": RunningNorm,
    "EMANorm": EMANorm,
}
_NAMES = {cls: name for name, cls in _TYPES.items()}


class _Weights(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    file: Literal["policy.safetensors"] = "policy.safetensors"
    sha256: str


class _Description(BaseModel):
    """`policy.json`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    format: Literal["imitbench-policy"] = "imitbench-policy"
    version: Literal[1] = 1
    policy_class: str
    observation_space: dict[str, Any]
    action_space: dict[str, Any]
    kwargs: dict[str, Any]
    weights: _Weights


def save_policy(policy: sb3_policies.BasePolicy, directory: Path) -> None:
    """Writes a policy to `directory`.

    Args:
        policy: An instance of a class that this module knows, with layers that it knows.
        directory: Created when missing; an older policy in it is replaced.

    Raises:
        ValueError: The policy's class, a layer's class or a space cannot be stored; the
            message names it.
    """
    name = type(policy).__name__
    if _POLICIES.get(name) is not type(policy):
        raise ValueError(
            f"policy: class {type(policy).__module__}.{name} cannot be stored without pickle; "
            f"storable: {', '.join(_POLICIES)}"
        )
    kwargs = {k: v for k, v in policy._get_constructor_parameters().items() if k not in _NOT_STORED}
    if name in _FIXED_ARCHITECTURE:
        kwargs.pop("net_arch", None)
    # Policies without parameters of their own (random, zero) take only their spaces.
    if not policy.state_dict():
        kwargs = {}
    tensors = {k: v.detach().cpu().clone() for k, v in policy.state_dict().items()}
    weights = safetensors_torch.save(tensors)
    description = _Description(
        policy_class=name,
        observation_space=space_to_json(policy.observation_space),
        action_space=space_to_json(policy.action_space),
        kwargs=_encode(kwargs),
        weights=_Weights(sha256=hashlib.sha256(weights).hexdigest()),
    )
    # The description goes last: where it stands, the weights stand too.
    atomic_write_bytes(directory / WEIGHTS_FILE, weights)
    atomic_write_text(
        directory / DESCRIPTION_FILE, json.dumps(description.model_dump(), indent=1) + "\n"
    )


def load_policy(directory: Path, *, device: th.device | str = "cpu") -> sb3_policies.BasePolicy:
    """Reads a policy written by `save_policy`.

    Args:
        directory: Folder of the policy.
        device: Where to put it.

    Returns:
        The policy, in evaluation mode.

    Raises:
        InputError: A file is missing, truncated, altered or describes something unknown.
    """
    path = directory / DESCRIPTION_FILE
    try:
        description = _Description.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; is {directory} the folder of a policy?") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{path}: {where}: {first['msg']}; fetch or train it again") from error
    weights = _read_weights(directory / WEIGHTS_FILE, description.weights.sha256)
    policy_class = _POLICIES.get(description.policy_class)
    if policy_class is None:
        raise InputError(
            f"{path}: policy_class: {description.policy_class!r} is not known; "
            f"accepted: {', '.join(_POLICIES)}"
        )
    try:
        kwargs: dict[str, Any] = {
            "observation_space": space_from_json(description.observation_space),
            "action_space": space_from_json(description.action_space),
            **_decode(description.kwargs),
        }
        if weights:
            kwargs["lr_schedule"] = _no_schedule
        policy = policy_class(**kwargs)
        policy.load_state_dict(weights)
    except (TypeError, ValueError, KeyError, RuntimeError) as error:
        problem = str(error).splitlines()[0]
        raise InputError(f"{path}: does not describe its weights ({problem})") from error
    policy.set_training_mode(False)
    return policy.to(device)


def _read_weights(path: Path, expected: str) -> dict[str, th.Tensor]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    if hashlib.sha256(data).hexdigest() != expected:
        raise InputError(
            f"{path}: truncated or altered ({len(data)} bytes do not match the digest in "
            f"{DESCRIPTION_FILE}); fetch or train it again"
        )
    try:
        return safetensors_torch.load(data)
    except SafetensorError as error:
        raise InputError(f"{path}: not a safetensors file ({error})") from error


def _no_schedule(_progress: float) -> float:
    """Learning rate of the optimizer that Stable-Baselines3 insists on building."""
    return 0.0


def _encode(value: Any) -> Any:
    if isinstance(value, type):
        if value not in _NAMES:
            raise ValueError(f"policy: {value.__module__}.{value.__qualname__} cannot be stored")
        return {"$type": _NAMES[value]}
    if isinstance(value, Mapping):
        return {str(key): _encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encode(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"policy: constructor argument {value!r} cannot be stored as JSON")


def _decode(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {"$type"}:
            name = value["$type"]
            if name not in _TYPES:
                raise ValueError(f"type {name!r} is not known; accepted: {', '.join(_TYPES)}")
            return _TYPES[name]
        return {key: _decode(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_decode(item) for item in value]
    return value
