"""Converts info dictionaries to JSON text and back, without creating objects from files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from imitbench.data.observations import DictObs

OPAQUE = "__opaque__"
"""Key of text that is not plain JSON and is not decoded."""

_EMPTY = "{}"
_OBJECT_TAG = '"py/'  # marks values that jsonpickle would decode to objects


def encode_infos(infos: Sequence[Mapping[str, Any]] | npt.NDArray[Any]) -> list[str]:
    """Converts info dictionaries to JSON, with NumPy scalars and arrays as numbers and lists.

    Args:
        infos: One dictionary per step. A dictionary `{"__opaque__": text}` from
            `decode_infos` is converted back to the text.

    Returns:
        One JSON object per step. NaN and infinities are written as Python's `json` does.

    Raises:
        ValueError: A value cannot be written; the message names its key.
    """
    return [_encode(info, step) if info else _EMPTY for step, info in enumerate(infos)]


def decode_infos(texts: Iterable[str]) -> npt.NDArray[Any]:
    """Inverts `encode_infos`.

    Args:
        texts: One text per step; the source may be untrusted.

    Returns:
        Dictionaries, shape `(T,)`. Text that is not a JSON object, or that jsonpickle would
        decode to objects, becomes `{"__opaque__": text}`.
    """
    decoded = ({} if text == _EMPTY else _decode(text) for text in texts)
    return np.fromiter(decoded, dtype=object)


def _encode(info: Mapping[str, Any], step: int) -> str:
    if len(info) == 1 and isinstance(text := info.get(OPAQUE), str):
        return text
    try:
        return json.dumps(info, default=_plain)
    except (TypeError, ValueError) as error:
        raise ValueError(_blame(info, step)) from error


def _blame(info: Mapping[str, Any], step: int) -> str:
    for key, value in info.items():
        try:
            json.dumps({key: value}, default=_plain)
        except (TypeError, ValueError) as error:
            return f"infos of step {step}, key {key!r}: {error}; remove it before saving"
    return f"infos of step {step} cannot be written as JSON"


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, DictObs):
        return value.unwrap()
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON")


def _decode(text: str) -> dict[str, Any]:
    if _OBJECT_TAG not in text:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            return value
    return {OPAQUE: text}
