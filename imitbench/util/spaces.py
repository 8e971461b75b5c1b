"""Gymnasium spaces as JSON, for the descriptions of stored policies."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

# A file may contain any shape; the bounds of a larger space would exhaust the memory.
_MAX_NUMBERS = 2**26

Json = dict[str, Any]


def space_to_json(space: gym.Space[Any]) -> Json:
    """Describes a space.

    Args:
        space: Box, Discrete, MultiDiscrete, MultiBinary, or Dict of these.

    Returns:
        A JSON document from which `space_from_json` makes an equal space.

    Raises:
        ValueError: The space has another type.
    """
    if isinstance(space, spaces.Box):
        return {
            "type": "Box",
            "shape": list(space.shape),
            "dtype": str(space.dtype),
            "low": _bounds_to_json(space.low),
            "high": _bounds_to_json(space.high),
        }
    if isinstance(space, spaces.Discrete):
        return {"type": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        document = {"type": "MultiDiscrete", "nvec": space.nvec.tolist()}
        return document | ({"start": space.start.tolist()} if space.start.any() else {})
    if isinstance(space, spaces.MultiBinary):
        n = space.n if isinstance(space.n, int) else list(space.shape)
        return {"type": "MultiBinary", "n": n}
    if isinstance(space, spaces.Dict):
        return {"type": "Dict", "spaces": {k: space_to_json(v) for k, v in space.spaces.items()}}
    raise ValueError(f"space {space} cannot be stored: {type(space).__name__} is not supported")


def space_from_json(document: Json) -> gym.Space[Any]:
    """Rebuilds a space described by `space_to_json`.

    Raises:
        ValueError: The document does not describe a supported space.
    """
    try:
        kind = document["type"]
        if kind == "Box":
            dtype = np.dtype(document["dtype"])
            shape = tuple(document["shape"])
            if math.prod(shape) > _MAX_NUMBERS:
                raise ValueError(f"a space of shape {shape} is larger than any observation")
            low = _bounds_from_json(document["low"], shape, dtype)
            high = _bounds_from_json(document["high"], shape, dtype)
            return spaces.Box(low, high, shape=shape, dtype=dtype.type)
        if kind == "Discrete":
            return spaces.Discrete(document["n"], start=document["start"])
        if kind == "MultiDiscrete":
            return spaces.MultiDiscrete(document["nvec"], start=document.get("start"))
        if kind == "MultiBinary":
            return spaces.MultiBinary(document["n"])
        if kind == "Dict":
            parts = {k: space_from_json(v) for k, v in document["spaces"].items()}
            return spaces.Dict(parts)
    except (KeyError, TypeError, AssertionError) as error:
        raise ValueError(f"malformed description of a space: {error!r}") from error
    raise ValueError(f"unknown kind of space: {kind!r}")


def _bounds_to_json(bounds: np.ndarray[Any, Any]) -> list[Any]:
    """Returns a flat list, or one entry if all are equal; infinities as text, as JSON has none."""
    flat = bounds.ravel().tolist()
    if len(set(flat)) == 1:
        flat = flat[:1]
    return [value if np.isfinite(value) else str(value) for value in flat]


def _bounds_from_json(
    values: list[Any], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> np.ndarray[Any, Any]:
    flat = np.array([float(v) if isinstance(v, str) else v for v in values], dtype=dtype)
    if len(flat) == 1:
        return np.full(shape, flat[0], dtype=dtype)
    return flat.reshape(shape)
