"""Reads the spaces in a zip of Stable-Baselines3, from any version of Gym or Gymnasium."""

from __future__ import annotations

import re
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from imitbench.policies.pickled_values import ADMITTED, space_of
from imitbench.policies.sb3_names import class_in_text
from imitbench.policies.sb3_zip import Sb3Zip, UnreadObject
from imitbench.untrusted.arrays import check_shape
from imitbench.util.safe_unpickler import RefusedPickleError, read_safely
from imitbench.util.spaces import check_bounds

SpaceName = Literal["observation_space", "action_space"]

_INTEGER = re.compile(r"-?\d{1,9}")
_FLOATS = {"float16", "float32", "float64"}
_KINDS = {"gym", "gymnasium"}


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
