"""Saves the state of a training: tensors, arrays and plain values, without pickled objects."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch as th

from imitbench.errors import InputError, MissingPathError
from imitbench.untrusted.files import read_content
from imitbench.util.files import atomic_write_bytes

_ARRAY = "$array"
_PLAIN = (bool, int, float, str, bytes, type(None))
_DIGEST_BYTES = hashlib.sha256().digest_size
_ANY_SIZE = 2**62  # replay buffers; checkpoints are this program's own files


def save_state(path: Path, state: Any) -> None:
    """Writes a state atomically.

    Args:
        path: File to write.
        state: Tensors, numeric arrays, numbers, strings and `None`, in nested dictionaries, lists
            and tuples.

    Raises:
        TypeError: It contains a value of another type; the message names its location.
    """
    buffer = io.BytesIO()
    th.save(_encode(state, "state"), buffer)
    data = buffer.getvalue()
    atomic_write_bytes(path, hashlib.sha256(data).digest() + data)


def load_state(path: Path) -> Any:
    """Reads a state written by `save_state`.

    Raises:
        MissingPathError: There is no such file (also a `FileNotFoundError`).
        InputError: The file is unreadable, truncated or altered.
    """
    try:
        content = read_content(path, _ANY_SIZE)
    except FileNotFoundError:
        raise MissingPathError(f"{path}: no such file; check the path") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    digest, data = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    if hashlib.sha256(data).digest() != digest:
        raise InputError(f"{path}: truncated or altered; remove it to start from the beginning")
    return _decode(th.load(io.BytesIO(data), weights_only=True))


def _encode(value: Any, where: str) -> Any:
    # Exact types: a subclass (of str, say) would have to be pickled by its class.
    if type(value) in _PLAIN:
        return value
    if isinstance(value, th.Tensor):
        # Cloned because a view would be saved with its whole storage.
        return value.detach().clone()
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf":
        # With the dtype, so that a NumPy scalar is restored as one of the same type.
        tensor = th.from_numpy(np.array(value))
        return {_ARRAY: tensor, "scalar": isinstance(value, np.generic)}
    if isinstance(value, Mapping):
        return {_encode(k, where): _encode(v, f"{where}[{k!r}]") for k, v in value.items()}
    if isinstance(value, list | tuple):
        items = [_encode(item, f"{where}[{index}]") for index, item in enumerate(value)]
        return tuple(items) if isinstance(value, tuple) else items
    raise TypeError(f"{where} is a {type(value).__name__}, which is not stored")


def _decode(value: Any) -> Any:
    if isinstance(value, dict):
        if _ARRAY in value:
            array = value[_ARRAY].numpy()
            return array[()] if value["scalar"] else array
        return {key: _decode(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_decode(item) for item in value)
    return value
