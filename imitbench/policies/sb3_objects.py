"""Finds the classes and spaces that a zip of Stable-Baselines3 describes.

Only classes listed here are ever constructed; other names are errors, never imported. Zips may
be of any version of Gym or Gymnasium.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3 import A2C, DQN, PPO, SAC, TD3
from stable_baselines3.common import policies as sb3_policies
from stable_baselines3.common import torch_layers
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike
from stable_baselines3.dqn import policies as dqn_policies
from stable_baselines3.sac import policies as sac_policies
from stable_baselines3.td3 import policies as td3_policies

from imitbench.policies.base import (
    FeedForward32Policy,
    NormalizeFeaturesExtractor,
    SAC1024Policy,
)
from imitbench.policies.pickled_values import ADMITTED, space_of
from imitbench.policies.sb3_zip import Sb3Zip, UnreadObject
from imitbench.untrusted.arrays import check_shape
from imitbench.util.networks import BaseNorm
from imitbench.util.safe_unpickler import RefusedPickleError, read_safely
from imitbench.util.spaces import check_bounds
from imitbench.util.tensor_storage import LAYER_TYPES

ALGORITHMS: dict[str, type[BaseAlgorithm]] = {
    "ppo": PPO,
    "sac": SAC,
    "a2c": A2C,
    "td3": TD3,
    "dqn": DQN,
}
"""Algorithms by the name that cards, hubs and loaders use."""

POLICIES: dict[str, type[sb3_policies.BasePolicy]] = {
    cls.__name__: cls
    for cls in (
        sb3_policies.ActorCriticPolicy,
        sb3_policies.ActorCriticCnnPolicy,
        sb3_policies.MultiInputActorCriticPolicy,
        FeedForward32Policy,
        sac_policies.SACPolicy,
        SAC1024Policy,
        td3_policies.TD3Policy,
        dqn_policies.DQNPolicy,
    )
}
ACTIVATIONS: dict[str, type] = {
    cls.__name__: cls for name, cls in LAYER_TYPES.items() if name.startswith("torch.nn.")
}
EXTRACTORS: dict[str, type[torch_layers.BaseFeaturesExtractor]] = {
    cls.__name__: cls
    for cls in (
        torch_layers.FlattenExtractor,
        torch_layers.NatureCNN,
        torch_layers.CombinedExtractor,
        NormalizeFeaturesExtractor,
    )
}
NORMS: dict[str, type] = {
    cls.__name__: cls for cls in LAYER_TYPES.values() if issubclass(cls, BaseNorm)
}
OPTIMIZERS: dict[str, type[th.optim.Optimizer]] = {
    cls.__name__: cls
    for cls in (th.optim.Adam, th.optim.AdamW, th.optim.SGD, th.optim.RMSprop, RMSpropTFLike)
}
_HOMES = ("stable_baselines3", "torch", "imitation", "imitbench")
_CLASS_TEXT = re.compile(r"<class '((?:\w+\.)*)(\w+)'>")
_INIT_TEXT = re.compile(r"<function (\w+)\.__init__ at 0x[0-9a-f]+>")

SpaceName = Literal["observation_space", "action_space"]

_INTEGER = re.compile(r"-?\d{1,9}")
_FLOATS = {"float16", "float32", "float64"}
_KINDS = {"gym", "gymnasium"}


def class_in_text(text: Any) -> tuple[str, bool]:
    """Parses a printed class.

    Args:
        text: Such as `<class 'torch.nn.modules.activation.ReLU'>`.

    Returns:
        Its name, and whether it is from a supported package. For text that is not a printed class,
        the name is the text.
    """
    match = _CLASS_TEXT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return str(text), False
    return match[2], match[1].partition(".")[0] in _HOMES


def class_of_object(value: UnreadObject) -> tuple[str, bool]:
    """Identifies a pickled class object from its printed attributes.

    Returns:
        See `class_in_text`. The attributes of a class without a constructor do not contain its
        name; it is then derived from the module.
    """
    module = str(value.shown.get("__module__", "an unknown module"))
    match = _INIT_TEXT.fullmatch(str(value.shown.get("__init__", "")))
    if match is None:
        return f"a class in {module}", False
    return match[1], module.partition(".")[0] in _HOMES


def policy_class_of_object(value: UnreadObject) -> tuple[type[sb3_policies.BasePolicy] | None, str]:
    """Finds the class of a policy.

    Returns:
        The class, or `None` if it is not supported; and its name in the file.
    """
    name, at_home = class_of_object(value)
    # Off-policy policies have the same name in all algorithms, and their variants differ only in
    # the extractor, which is derived from the weights.
    if at_home and name in ("CnnPolicy", "MultiInputPolicy"):
        algorithm = "".join(str(value.shown["__module__"]).split(".")[1:2]).upper()
        return POLICIES.get(f"{algorithm}Policy"), name
    return POLICIES.get(name) if at_home else None, name


def stored_space(archive: Sb3Zip, name: SpaceName) -> gym.Space[Any] | None:
    """Returns the space of observations or actions that the policy was trained with.

    Its pickle is read as data, see `safe_unpickler`, or else its printed attributes are used.

    Args:
        archive: Content of the zip.
        name: `observation_space` or `action_space`.

    Returns:
        The space; `None` if the zip does not determine it.
    """
    stored = archive.data.get(name)
    if not isinstance(stored, UnreadObject):
        return None
    try:
        return space_of(read_safely(stored.pickled, ADMITTED))
    except RefusedPickleError:
        pass
    try:
        return _printed_space(stored)
    except (ValueError, TypeError, ArithmeticError, AssertionError, MemoryError):
        return None  # sizes or bounds that no space has


def printed_array(text: Any) -> np.ndarray[Any, Any] | None:
    """Parses a printed array, as a flat one; `None` for other or abbreviated text."""
    try:
        return np.array(str(text).replace("[", " ").replace("]", " ").split(), dtype=float)
    except ValueError:
        return None


def _printed_space(stored: UnreadObject) -> gym.Space[Any] | None:
    kind, _ = class_in_text(stored.type_name)
    shown = stored.shown
    if stored.type_name.removeprefix("<class '").partition(".")[0] not in _KINDS:
        return None
    if kind == "Discrete" and _INTEGER.fullmatch(str(shown.get("n"))):
        start = shown.get("start", 0)
        started = int(start) if _INTEGER.fullmatch(str(start)) else 0
        return spaces.Discrete(int(shown["n"]), start=started)
    if kind != "Box" or str(shown.get("dtype")) not in _FLOATS | {"uint8"}:
        return None
    numbers = printed_array(str(shown.get("_shape", shown.get("shape"))).replace(",", " "))
    low, high = (printed_array(shown.get(bound)) for bound in ("low", "high"))
    if numbers is None or low is None or high is None or numbers.size == 0:
        return None
    shape = check_shape(int(number) for number in numbers)
    if low.size != high.size or low.size != np.prod(shape):
        return None
    dtype = np.dtype(str(shown["dtype"]))
    # The largest number of a type may be printed rounded to a value outside its range.
    bounds = (np.clip(b, np.finfo(dtype).min, np.finfo(dtype).max) if dtype.kind == "f" and
              np.isfinite(b).all() else b for b in (low, high))  # fmt: skip
    low, high = (bound.astype(dtype).reshape(shape) for bound in bounds)
    check_bounds(low, high)
    return spaces.Box(low, high, dtype=dtype.type)
