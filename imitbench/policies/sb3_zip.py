"""Reads what Stable-Baselines3's `save` writes, as data: nothing in the file is ever executed.

Such a zip holds `data`, a JSON document, and tensors. Python objects stand in `data` as pickles
in Base64 (under `:serialized:`), beside which Stable-Baselines3 writes their type and their
first-level attributes in plain text. The pickles are dropped; the plain text is kept.
"""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch as th

from imitbench.errors import InputError

TRUST_HINT = "if you trust the file's origin, pass trust=True, which unpickles it"

_DATA, _WEIGHTS, _SUFFIX = "data", "policy.pth", ".pth"
# Tensors that belong to the algorithm; the second name is that of files before version 1.0.
_VARIABLES = ("pytorch_variables.pth", "tensors.pth")
_PICKLE, _TYPE = ":serialized:", ":type:"
# A zip may claim any size for what it holds; real ones have kilobytes of data.
_MAX_DATA_BYTES = 64 * 2**20
_MAX_TENSOR_BYTES = 8 * 2**30


@dataclass(frozen=True)
class Opaque:
    """A Python object that only unpickling would bring back.

    Attributes:
        type_name: Its type as Stable-Baselines3 printed it, such as `<class 'function'>`.
        shown: Its attributes, as JSON where they were plain, else as printed text.
    """

    type_name: str
    shown: dict[str, Any]

    def __str__(self) -> str:
        return f"a pickled object of {self.type_name}"


@dataclass(frozen=True)
class Sb3Zip:
    """The content of a zip.

    Attributes:
        path: Where it was read.
        data: Attributes of the algorithm: plain JSON values, and `Opaque` ones.
        weights: State dictionary of the policy.
        optimizers: State dictionaries of the optimizers by name, such as `policy.optimizer`.
        variables: The algorithm's other tensors by name, such as `log_ent_coef`.
    """

    path: Path
    data: dict[str, Any]
    weights: dict[str, th.Tensor]
    optimizers: dict[str, dict[str, Any]]
    variables: dict[str, th.Tensor]


def read_sb3_zip(path: Path) -> Sb3Zip:
    """Reads a zip written by `model.save` of Stable-Baselines3.

    Args:
        path: The file.

    Raises:
        InputError: It is missing, damaged, or no such zip.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            sizes = {info.filename: info.file_size for info in archive.infolist()}
            for name in (_DATA, _WEIGHTS):
                if name not in sizes:
                    raise InputError(
                        f"{path}: no model of Stable-Baselines3, or a truncated one: it has no "
                        f"'{name}'"
                    )
            _check_sizes(path, sizes)
            data = _parse(path, archive.read(_DATA))
            tensors = {
                name: _read_tensors(path, name, archive.read(name))
                for name in sizes
                if name.endswith(_SUFFIX)
            }
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise InputError(f"{path}: not a readable zip file ({error}); fetch it again") from error
    weights = tensors.pop(_WEIGHTS)
    _check_all_tensors(path, _WEIGHTS, weights)
    variables: dict[str, th.Tensor] = {}
    for name in _VARIABLES:
        found = {k: v for k, v in tensors.pop(name, {}).items() if v is not None}
        _check_all_tensors(path, name, found)
        variables |= found
    optimizers = {name.removesuffix(_SUFFIX): state for name, state in tensors.items()}
    return Sb3Zip(path, data, weights, optimizers, variables)


def undetermined(archive: Sb3Zip, what: str, found: Any) -> InputError:
    """The error for a part that stands in the zip as a pickle alone.

    Args:
        archive: The zip.
        what: The part.
        found: What is known of it.
    """
    return InputError(
        f"{archive.path}: {what}: cannot be determined without unpickling ({found}); {TRUST_HINT}"
    )


def _check_sizes(path: Path, sizes: dict[str, int]) -> None:
    tensor_bytes = sum(size for name, size in sizes.items() if name.endswith(_SUFFIX))
    if sizes[_DATA] > _MAX_DATA_BYTES or tensor_bytes > _MAX_TENSOR_BYTES:
        raise InputError(
            f"{path}: unpacks to {sizes[_DATA] + tensor_bytes} bytes, more than any model has"
        )


def _parse(path: Path, text: bytes) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: 'data' is no JSON ({error}); fetch it again") from error
    if not isinstance(document, dict):
        raise InputError(f"{path}: 'data' must be a JSON object")
    return {name: _without_pickle(value) for name, value in document.items()}


def _without_pickle(value: Any) -> Any:
    if not (isinstance(value, dict) and _PICKLE in value):
        return value
    shown = {k: v for k, v in value.items() if k not in (_PICKLE, _TYPE)}
    return Opaque(str(value.get(_TYPE, "an unknown type")), shown)


def _read_tensors(path: Path, name: str, content: bytes) -> dict[str, Any]:
    try:
        state = th.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises whatever its restricted reader stumbles over
        problem = str(error).strip().splitlines()[0]
        raise InputError(f"{path}: '{name}' is not plain tensors ({problem})") from error
    if not isinstance(state, dict):
        raise InputError(f"{path}: '{name}' must hold named tensors")
    return state


def _check_all_tensors(path: Path, name: str, state: dict[str, Any]) -> None:
    for key, value in state.items():
        if not (isinstance(key, str) and isinstance(value, th.Tensor)):
            raise InputError(f"{path}: '{name}': {key!r} is no tensor")
