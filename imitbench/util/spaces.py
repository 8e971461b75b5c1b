"""Gymnasium spaces as JSON, for the descriptions of stored policies."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from imitbench.untrusted.arrays import check_shape
from imitbench.untrusted.limits import beyond, limits
from imitbench.util.text_line import one_line

_DTYPE = re.compile(r"u?int(8|16|32|64)|float(16|32|64)|bool")

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
        ValueError: The document does not describe a supported space, or one of more numbers than
            the limit.
    """
    try:
        if _size(document, 0) > limits().space_numbers:
            raise ValueError(beyond("space_numbers", "a space larger than any observation"))
        return _from_json(document)
    except (
        LookupError, TypeError, AttributeError, AssertionError, ArithmeticError, MemoryError
    ) as error:  # fmt: skip
        raise ValueError(f"malformed description of a space: {one_line(repr(error))}") from error


def check_bounds(low: np.ndarray[Any, Any], high: np.ndarray[Any, Any]) -> None:
    """Checks the bounds of a box, which Gymnasium does not compare in all versions.

    Raises:
        ValueError: A bound is NaN, or a lower bound is above the upper one.
    """
    if low.shape != high.shape or not bool((low <= high).all()):
        raise ValueError("bounds of a space that are not numbers, or low above high")


def _size(document: Any, depth: int) -> int:
    """Returns how many numbers a space has, before any of them is allocated."""
    if depth > limits().dimensions:
        raise ValueError("a space that is nested too deeply")
    kind = document["type"]
    if kind == "Box":
        return math.prod(check_shape(document["shape"]))
    if kind == "Discrete":
        return _count(document["n"])
    if kind == "MultiDiscrete":
        return sum(_count(size) for size in _flat(document["nvec"]))
    if kind == "MultiBinary":
        return math.prod(_count(size) for size in _flat(document["n"]))
    if kind == "Dict":
        return sum(1 + _size(inner, depth + 1) for inner in document["spaces"].values())
    raise ValueError(f"unknown kind of space: {one_line(repr(kind), 40)}")


def _flat(value: Any, depth: int = 0) -> Iterator[Any]:
    if not isinstance(value, list):
        yield value
        return
    if depth == limits().dimensions:
        raise ValueError("a space that is nested too deeply")
    for item in value:
        yield from _flat(item, depth + 1)


def _count(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(f"a space with {one_line(repr(value), 40)} values")
    return value


def _from_json(document: Json) -> gym.Space[Any]:
    kind = document["type"]
    if kind == "Box":
        if not _DTYPE.fullmatch(document["dtype"]):
            raise ValueError(f"a space of data type {one_line(repr(document['dtype']), 40)}")
        dtype = np.dtype(document["dtype"])
        shape = tuple(document["shape"])
        low = _bounds_from_json(document["low"], shape, dtype)
        high = _bounds_from_json(document["high"], shape, dtype)
        check_bounds(low, high)
        return spaces.Box(low, high, shape=shape, dtype=dtype.type)
    if kind == "Discrete":
        if abs(document["start"]) > 2**31:
            raise ValueError("a space that starts beyond all actions")
        return spaces.Discrete(document["n"], start=document["start"])
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(document["nvec"], start=document.get("start"))
    if kind == "MultiBinary":
        return spaces.MultiBinary(document["n"])
    return spaces.Dict({k: _from_json(v) for k, v in document["spaces"].items()})


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
