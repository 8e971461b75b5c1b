"""Rebuilds arrays, numbers and spaces from pickles that were read as data."""

from __future__ import annotations

import math
import re
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from imitbench.untrusted.arrays import check_shape
from imitbench.untrusted.limits import beyond, limits
from imitbench.util.safe_unpickler import PickledName, PickledObject, RefusedPickleError, names_in
from imitbench.util.spaces import check_bounds

# NumPy 2 renamed the module of the functions that build arrays.
_CORES = ("numpy.core", "numpy._core")
_ARRAY = {f"{core}.multiarray._reconstruct" for core in _CORES}
_BUFFER = {f"{core}.numeric._frombuffer" for core in _CORES}
_SCALAR = {f"{core}.multiarray.scalar" for core in _CORES}
_BYTES = {"_codecs.encode", *(f"{m}.bytes" for m in ("builtins", "__builtin__"))}
_DTYPE = re.compile(r"b1|[iu][1248]|f[248]")
_PLAIN_TYPES = {"float16", "float32", "float64"} | {
    f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)
}
_ORDERS = {"<": "<", ">": ">", "|": "|", "=": "="}
_SPACE = re.compile(r"(?:gym|gymnasium)\.spaces(?:\.\w+)?\.(\w+)")

ADMITTED = names_in(
    modules=("numpy", "gym.spaces", "gymnasium.spaces"),
    names={
        "gym.utils.seeding.RandomNumberGenerator",
        "gym.utils.seeding._rng_ctor",
        "gymnasium.utils.seeding.RandomNumberGenerator",
        "collections.OrderedDict",
        "copyreg._reconstructor",
        "copy_reg._reconstructor",
        "_codecs.encode",
        "builtins.object",
        "builtins.set",
        "builtins.frozenset",
        "builtins.bytes",
        "__builtin__.bytes",
        "__builtin__.object",
    },
)
"""Names that pickles of arrays and spaces may contain."""


def array_of(value: Any) -> npt.NDArray[Any]:
    """Builds the array that a record describes; numbers become arrays of shape `()`.

    Args:
        value: A record, or a number.

    Raises:
        RefusedPickleError: It does not describe an array, or is inconsistent.
    """
    if isinstance(value, bool | int | float):
        return np.array(value)
    if isinstance(value, PickledObject):
        if value.kind in _ARRAY and isinstance(value.state, tuple) and len(value.state) == 5:
            _, shape, dtype, fortran, data = value.state
            return _array(data, dtype, shape, "F" if fortran is True else "C")
        if value.kind in _BUFFER and len(value.arguments) == 4:
            data, dtype, shape, order = value.arguments
            return _array(data, dtype, shape, "F" if order == "F" else "C")
        if value.kind in _SCALAR and len(value.arguments) == 2:
            dtype, data = value.arguments
            return _array(data, dtype, (), "C")
    raise RefusedPickleError(f"{_shown(value)} instead of a numeric array")


def dtype_of(value: Any) -> np.dtype[Any]:
    """Returns the data type that a record describes.

    Raises:
        RefusedPickleError: It does not describe a numeric data type.
    """
    if isinstance(value, PickledObject):
        if value.kind == "numpy.dtype" and value.arguments:
            code, state = value.arguments[0], value.state
            order = state[1] if isinstance(state, tuple) and len(state) > 1 else "="
            if isinstance(code, str) and _DTYPE.fullmatch(code) and order in _ORDERS:
                return np.dtype(_ORDERS[order] + code)
    elif isinstance(value, PickledName) and value.module == "numpy" and value.name in _PLAIN_TYPES:
        return np.dtype(value.name)
    raise RefusedPickleError(f"{_shown(value)} instead of a numeric data type")


def space_of(value: Any) -> gym.Space[Any]:
    """Builds the space that a record of any version of Gym or Gymnasium describes.

    Raises:
        RefusedPickleError: It does not describe a supported space.
    """
    match = _SPACE.fullmatch(value.kind) if isinstance(value, PickledObject) else None
    build = _SPACES.get(match[1]) if match else None
    if build is None:
        raise RefusedPickleError(f"{_shown(value)} instead of a space")
    try:
        space: gym.Space[Any] = build(value.attributes)
        return space
    except (
        LookupError, TypeError, ValueError, AttributeError, AssertionError, ArithmeticError,
        RecursionError, MemoryError,
    ) as error:  # fmt: skip
        if isinstance(error, RefusedPickleError):
            raise
        problem = " ".join(str(error).split())[:120]
        raise RefusedPickleError(f"an inconsistent space ({problem})") from error


def _box(attributes: dict[str, Any]) -> spaces.Box:
    low, high = array_of(attributes["low"]), array_of(attributes["high"])
    dtype = dtype_of(attributes["dtype"]) if "dtype" in attributes else low.dtype
    check_bounds(low, high)
    return spaces.Box(low.astype(dtype), high.astype(dtype), dtype=dtype.type)


def _dict(attributes: dict[str, Any]) -> spaces.Dict:
    parts = attributes["spaces"]
    if isinstance(parts, PickledObject):
        pairs = parts.items or (parts.arguments[0] if parts.arguments else [])
        parts = dict(tuple(pair) for pair in pairs)
    # Policies do not support nested dictionaries, which could also contain themselves.
    if any(
        isinstance(part, PickledObject) and part.kind.endswith(".Dict") for part in parts.values()
    ):
        raise RefusedPickleError("a dictionary of dictionaries")
    left = limits().space_numbers
    found: dict[str, gym.Space[Any]] = {}
    for key, part in parts.items():  # all may be the same memoized value, and each is a copy
        found[str(key)] = space = space_of(part)
        left -= max(math.prod(space.shape or ()), 1)
        if left < 0:
            raise RefusedPickleError(beyond("space_numbers", "a space of too many numbers"))
    return spaces.Dict(found)


def _multi_discrete(attributes: dict[str, Any]) -> spaces.MultiDiscrete:
    start = attributes.get("start")
    return spaces.MultiDiscrete(
        array_of(attributes["nvec"]).astype(np.int64),
        start=None if start is None else array_of(start).astype(np.int64),
    )


def _multi_binary(attributes: dict[str, Any]) -> spaces.MultiBinary:
    n = attributes["n"]
    if isinstance(n, tuple | list):
        return spaces.MultiBinary([int(array_of(size)) for size in n])
    return spaces.MultiBinary(int(array_of(n)))


_SPACES: dict[str, Any] = {
    "Box": _box,
    "Dict": _dict,
    "Discrete": lambda found: spaces.Discrete(
        int(array_of(found["n"])), start=int(array_of(found.get("start", 0)))
    ),
    "MultiDiscrete": _multi_discrete,
    "MultiBinary": _multi_binary,
}


def _array(data: Any, dtype: Any, shape: Any, order: Any) -> npt.NDArray[Any]:
    numbers = dtype_of(dtype)
    content = _bytes(data)
    if not (isinstance(shape, tuple) and all(type(n) is int and n >= 0 for n in shape)):
        raise RefusedPickleError("an array without a shape")
    try:
        check_shape(shape)
    except ValueError as error:
        raise RefusedPickleError(str(error)) from error
    if math.prod(shape) * numbers.itemsize != len(content):
        raise RefusedPickleError(f"an array of shape {shape} with {len(content)} bytes")
    array = np.frombuffer(content, numbers).reshape(shape, order=order)
    return array.astype(numbers.newbyteorder("="))


def _bytes(data: Any) -> bytes:
    # Protocols 0 to 2 have no bytes; they store them as Latin 1 text, or as `bytes()`.
    if isinstance(data, PickledObject) and data.kind in _BYTES:
        data = data.arguments[0] if data.arguments else b""
    if isinstance(data, bytes | bytearray):
        return bytes(data)
    if isinstance(data, str):
        return data.encode("latin-1")
    raise RefusedPickleError(f"{_shown(data)} instead of bytes")


def _shown(value: Any) -> str:
    return value.kind[:80] if isinstance(value, PickledObject) else type(value).__name__
