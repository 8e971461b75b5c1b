"""Finds the named inputs of a robot policy in the observations of an environment.

Policies of LeRobot and robomimic take several named arrays, such as `observation.state`. An
environment has one array, or a dictionary of arrays whose names may differ.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import torch as th
from gymnasium import spaces
from stable_baselines3.common.preprocessing import is_image_space

from imitbench.errors import InputError
from imitbench.policies.space_check import channels_first
from imitbench.util.text_line import one_line

OPTION = "--observation-key"
_RANGE = re.compile(r"([0-9]{1,6}):([0-9]{1,6})")


@dataclass(frozen=True)
class Feature:
    """An input of a policy.

    Attributes:
        name: Its name in the policy, such as `observation.state`.
        shape: Its shape; images as channels, rows, columns.
        is_image: Whether it is an image, of numbers from 0 to 1.
        aliases: Other names by which an environment may have it.
    """

    name: str
    shape: tuple[int, ...]
    is_image: bool = False
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """Where a feature is in an observation.

    Attributes:
        feature: The feature.
        key: Entry of a dictionary; `None` for an array.
        bounds: First and last + 1 of the numbers of an array; `None` for all.
        scale: Factor of the numbers: 1/255 for images of bytes.
    """

    feature: Feature
    key: str | None
    bounds: tuple[int, int] | None
    scale: float = 1.0

    def take(self, observation: th.Tensor | dict[str, th.Tensor]) -> th.Tensor:
        """Returns the feature of a batch of observations, shape (n, *feature.shape), float32."""
        found = observation[self.key] if isinstance(observation, dict) else observation  # type: ignore[index]
        if self.bounds is not None:
            found = found.flatten(1)[:, slice(*self.bounds)]
        found = found.float() * self.scale if self.scale != 1.0 else found.float()
        return found.reshape(len(found), *self.feature.shape)


def parse_observation_keys(given: Iterable[str]) -> dict[str, str]:
    """Parses `INPUT=KEY` and `INPUT=FIRST:END`.

    Raises:
        InputError: One has no `=`, or names a feature twice.
    """
    found: dict[str, str] = {}
    for option in given:
        feature, equals, key = option.partition("=")
        if not (feature and equals and key):
            raise InputError(
                f"{OPTION} {option}: write INPUT=KEY, or INPUT=FIRST:END for some numbers of an "
                "array, such as observation.state=0:2"
            )
        if feature in found:
            raise InputError(f"{OPTION} {option}: {feature} was given before; name it once")
        found[feature] = key
    return found


def find_parts(
    features: Iterable[Feature], space: gym.Space[Any], keys: Mapping[str, str], where: str
) -> list[Part]:
    """Finds each feature of a policy in the observations of an environment.

    Args:
        features: The features that the policy uses.
        space: Observation space of the environment.
        keys: Where the user says that features are: an entry of a dictionary, or `FIRST:END`.
            Other features may be those of another policy; see `check_all_used`.
        where: Name of the policy, for messages.

    Returns:
        One part for each feature.

    Raises:
        InputError: A feature is not found, or has another shape.
    """
    wanted = list(features)
    return [_find_part(feature, wanted, space, keys, where) for feature in wanted]


def check_all_used(keys: Mapping[str, str], policies: Iterable[object]) -> None:
    """Checks that each key is for an input of one of the policies.

    Args:
        keys: As in `find_parts`.
        policies: The loaded policies, of any format.

    Raises:
        InputError: A key is for none of them.
    """
    known = [name for policy in policies for name in _inputs_of(policy)]
    for name, key in keys.items():
        if name not in known:
            hint = f"inputs here are {', '.join(known)}" if known else "here is no such policy"
            raise InputError(
                f"{OPTION} {name}={key}: must be an input of a policy of LeRobot or robomimic; "
                f"{hint}"
            )


def keys_of(policy: object, keys: Mapping[str, str]) -> dict[str, str]:
    """Returns the keys that are for inputs of a policy."""
    own = _inputs_of(policy)
    return {name: key for name, key in keys.items() if name in own}


def _inputs_of(policy: object) -> list[str]:
    """Returns the names of a policy's inputs; none for other formats."""
    parts = getattr(policy, "parts", ())
    return [part.feature.name for part in parts if isinstance(part, Part)]


def _find_part(
    feature: Feature,
    wanted: list[Feature],
    space: gym.Space[Any],
    keys: Mapping[str, str],
    where: str,
) -> Part:
    if isinstance(space, spaces.Dict):
        return _in_dictionary(feature, wanted, space, keys, where)
    if not isinstance(space, spaces.Box):
        raise InputError(f"{where}: needs observations that are arrays, not {one_line(space, 60)}")
    given = keys.get(feature.name)
    if given is None:
        if len(wanted) > 1:
            shown = ", ".join(f"{needed.name} {list(needed.shape)}" for needed in wanted)
            raise InputError(
                f"{where}: needs {shown}, but observations of the environment are one array of "
                f"shape {list(space.shape)}; say which numbers are which, such as "
                f"{OPTION} {feature.name}=0:{math.prod(feature.shape)}{_misnamed(wanted, keys)}"
            )
        return _checked(feature, None, space, where, "observations of the environment")
    bounds = _RANGE.fullmatch(given)
    if bounds is None:
        raise InputError(
            f"{OPTION} {feature.name}={given}: observations of the environment are one array; "
            f"write {feature.name}=FIRST:END"
        )
    first, end = int(bounds[1]), int(bounds[2])
    size, due = math.prod(space.shape), math.prod(feature.shape)
    if not first < end <= size or end - first != due:
        raise InputError(
            f"{OPTION} {feature.name}={given}: must be {due} of an observation's {size} numbers"
        )
    return Part(feature, None, (first, end))


def _misnamed(wanted: Iterable[Feature], keys: Mapping[str, str]) -> str:
    """Returns a hint at names that are no inputs of the policy, which may be typing errors."""
    others = sorted(set(keys) - {feature.name for feature in wanted})
    return f"; it has no input {one_line(', '.join(others), 80)}" if others else ""


def _in_dictionary(
    feature: Feature,
    wanted: list[Feature],
    space: spaces.Dict,
    keys: Mapping[str, str],
    where: str,
) -> Part:
    given = keys.get(feature.name)
    names = [feature.name, *feature.aliases] if given is None else [given]
    key = next((name for name in names if name in space.spaces), None)
    if key is None and given is None:
        raise InputError(
            f"{where}: needs {feature.name} {list(feature.shape)}, which observations of the "
            f"environment lack; they have {one_line(', '.join(space.spaces), 200)}; name the right "
            f"one by {OPTION} {feature.name}=KEY{_misnamed(wanted, keys)}"
        )
    if key is None:
        raise InputError(
            f"{OPTION} {feature.name}={given}: observations of the environment have no {given}, "
            f"only {one_line(', '.join(space.spaces), 200)}"
        )
    return _checked(feature, key, space.spaces[key], where, f"{key} of the environment")


def _checked(
    feature: Feature, key: str | None, space: gym.Space[Any], where: str, what: str
) -> Part:
    seen = channels_first(space)
    shape = seen.shape if isinstance(seen, spaces.Box) else None
    if feature.is_image and not is_image_space(space, check_channels=False):
        raise InputError(
            f"{where}: {feature.name} is an image, but {what} is {one_line(space, 60)}; use an "
            "environment that returns images"
        )
    if shape is None or (shape if feature.is_image else (math.prod(shape),)) != (
        feature.shape if feature.is_image else (math.prod(feature.shape),)
    ):
        raise InputError(
            f"{where}: needs {feature.name} of shape {list(feature.shape)}, but {what} has "
            f"{list(shape) if shape is not None else one_line(space, 60)}; use a policy of this "
            "environment"
        )
    return Part(feature, key, None, 1 / 255 if feature.is_image else 1.0)
