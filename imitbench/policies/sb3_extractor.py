"""Determines the features extractor of a policy in a zip of Stable-Baselines3."""

from __future__ import annotations

import re
from typing import Any

import gymnasium as gym
import torch as th
from gymnasium import spaces
from stable_baselines3.common.torch_layers import (
    BaseFeaturesExtractor,
    CombinedExtractor,
    FlattenExtractor,
    NatureCNN,
)

from imitbench.policies.base import NormalizeFeaturesExtractor
from imitbench.policies.sb3_names import EXTRACTORS, NORMS, class_in_text
from imitbench.policies.sb3_zip import Sb3Zip, undetermined
from imitbench.util.networks import EMANorm, RunningNorm

_NORM_TEXT = re.compile(r"\{'normalize_class': (<class '[\w.]+'>)\}")
_RUNNING_NORM_KEYS = {"running_mean", "running_var", "count"}
_EMA_NORM_KEYS = _RUNNING_NORM_KEYS | {"inv_learning_rate", "num_batches"}


def find_extractor(
    archive: Sb3Zip,
    weights: dict[str, th.Tensor],
    settings: dict[str, Any],
    observation_space: gym.Space[Any],
) -> tuple[type[BaseFeaturesExtractor], dict[str, Any]]:
    """Determines the extractor from its weights, and checks the printed settings against it.

    Args:
        archive: Content of the zip.
        weights: Weights of the extractor, by names relative to it.
        settings: `policy_kwargs` as text.
        observation_space: That of the environment.

    Returns:
        Class and constructor arguments of the extractor.

    Raises:
        InputError: The extractor is not supported.
    """
    cls, kwargs = _extractor_by_weights(archive, weights, observation_space)
    if "features_extractor_class" in settings:
        name, at_home = class_in_text(settings["features_extractor_class"])
        if not at_home or EXTRACTORS.get(name) is not cls:
            raise undetermined(archive, "policy_kwargs.features_extractor_class", name)
    stated = _stated_kwargs(archive, settings.get("features_extractor_kwargs"))
    for name, value in stated.items():
        # It only declares the range of inputs, so it leaves no trace in the weights.
        if name == "normalized_image" and isinstance(value, bool):
            kwargs[name] = value
        elif kwargs.get(name) != value:
            raise undetermined(archive, f"policy_kwargs.features_extractor_kwargs.{name}", value)
    return cls, kwargs


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
