"""Finds classes of Stable-Baselines3 and imitation libraries by their printed names.

Only classes listed here are ever constructed; other names are errors, never imported.
"""

from __future__ import annotations

import re
from typing import Any

import torch as th
from stable_baselines3.common import policies as sb3_policies
from stable_baselines3.common import torch_layers
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike
from stable_baselines3.dqn import policies as dqn_policies
from stable_baselines3.sac import policies as sac_policies
from stable_baselines3.td3 import policies as td3_policies

from imitbench.policies.base import (
    FeedForward32Policy,
    NormalizeFeaturesExtractor,
    SAC1024Policy,
)
from imitbench.policies.sb3_zip import UnreadObject
from imitbench.util.networks import BaseNorm
from imitbench.util.tensor_storage import LAYER_TYPES

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
