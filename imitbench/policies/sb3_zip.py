"""Reads zips of Stable-Baselines3's `save` as data, without executing code from them.

Such a zip contains `data`, a JSON document, and tensors. `data` contains Python objects as pickles
in Base64 (under `:serialized:`), together with their type and first-level attributes as text. Only
the text is used here.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import re
import stat
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import torch as th

from imitbench.errors import InputError
from imitbench.untrusted.archives import DAMAGED_ZIP, check_archive
from imitbench.untrusted.files import require_size
from imitbench.util.text_line import one_line

TRUST_HINT = (
    "if you trust the file's origin, pass trust=True (--trust on the command line), which "
    "unpickles it"
)

_DATA, _WEIGHTS, _SUFFIX = "data", "policy.pth", ".pth"
# Tensors of the algorithm; the second name was used before version 1.0.
_VARIABLES = ("pytorch_variables.pth", "tensors.pth")
_REFUSED = re.compile(r"GLOBAL ([\w.]+)")
_PICKLE, _TYPE = ":serialized:", ":type:"
# A zip may declare any size; those of models have kilobytes of data and compress little.
_MAX_DATA_BYTES = 64 * 2**20
_ALWAYS_FINE_BYTES = 64 * 2**20
_MAX_EXPANSION = 10


@dataclass(frozen=True)
class UnreadObject:
    """A Python object that only unpickling can restore.

    Attributes:
        type_name: Type as printed by Stable-Baselines3, such as `<class 'function'>`.
        shown: Attributes, as JSON if possible, else as printed text.
        pickled: The pickle; empty if there is none.
    """

    type_name: str
    shown: dict[str, Any]
    pickled: bytes = b""

    def __str__(self) -> str:
        return f"a pickled object of {self.type_name}"


@dataclass(frozen=True)
class Sb3Zip:
    """The content of a zip.

    Attributes:
        path: Path of the zip.
        data: Attributes of the algorithm: plain JSON values, or `UnreadObject`.
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
        path: A `.zip` file.

    Raises:
        InputError: It is missing, damaged, or not such a zip.
    """
    try:
        require_size(path)
        with zipfile.ZipFile(path) as archive:
            names = _check_entries(path, archive.infolist())
            check_archive(archive, path.stat().st_size)
            data = _parse(path, archive.read(_DATA))
            tensors = {
                name: _read_tensors(path, name, archive.read(name))
                for name in names
                if name.endswith(_SUFFIX)
            }
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
    except InputError:
        raise
    except DAMAGED_ZIP as error:
        why = one_line(error)
        raise InputError(f"{path}: not a readable zip file ({why}); fetch it again") from error
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
    """Returns the error for a part that only the pickles in the zip determine.

    Args:
        archive: Content of the zip.
        what: Name of the part.
        found: What is known about it, for the message.
    """
    return InputError(
        f"{archive.path}: {what}: cannot be determined without unpickling ({found}); {TRUST_HINT}"
    )


def _check_entries(path: Path, entries: list[zipfile.ZipInfo]) -> set[str]:
    """Returns the names of the files in the zip, after checking that it can be a model."""
    names: set[str] = set()
    for entry in entries:
        name = PurePosixPath(entry.filename)
        if name.is_absolute() or ".." in name.parts or "\\" in entry.filename:
            raise InputError(
                f"{path}: an entry points outside the zip ({entry.filename!r}), which no model "
                "has: do not use it"
            )
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise InputError(f"{path}: {entry.filename!r} is a link, which no model has")
        if entry.filename in names:
            raise InputError(f"{path}: contains {entry.filename!r} twice, which no model does")
        if entry.flag_bits & 1:
            raise InputError(f"{path}: {entry.filename!r} is encrypted, which no model is")
        names.add(entry.filename)
    for required in (_DATA, _WEIGHTS):
        if required not in names:
            raise InputError(
                f"{path}: not a model of Stable-Baselines3, or truncated: it has no '{required}'"
            )
    unpacked = sum(entry.file_size for entry in entries)
    allowed = max(_ALWAYS_FINE_BYTES, _MAX_EXPANSION * path.stat().st_size)
    data_bytes = sum(entry.file_size for entry in entries if entry.filename == _DATA)
    if unpacked > allowed or data_bytes > _MAX_DATA_BYTES:
        raise InputError(f"{path}: unpacks to {unpacked:,} bytes, more than any model has")
    return names


def _parse(path: Path, text: bytes) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: 'data' is not JSON ({error}); fetch it again") from error
    if not isinstance(document, dict):
        raise InputError(f"{path}: 'data' must be a JSON object")
    return {name: _without_pickle(value) for name, value in document.items()}


def _without_pickle(value: Any) -> Any:
    if not (isinstance(value, dict) and _PICKLE in value):
        return value
    shown = {k: v for k, v in value.items() if k not in (_PICKLE, _TYPE)}
    try:
        pickled = base64.b64decode(value[_PICKLE])
    except (binascii.Error, TypeError, ValueError):
        pickled = b""
    return UnreadObject(str(value.get(_TYPE, "an unknown type")), shown, pickled)


def _read_tensors(path: Path, name: str, content: bytes) -> dict[str, Any]:
    _check_inner_sizes(path, name, content)
    try:
        state = th.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # torch's restricted reader may raise anything
        problem = _problem_of(error)
        raise InputError(f"{path}: '{name}' is not plain tensors ({problem})") from error
    if not isinstance(state, dict):
        raise InputError(f"{path}: '{name}' must contain named tensors")
    # A tensor may repeat a few numbers many times; a copy of it would exhaust the memory.
    claimed = sum(t.numel() * t.element_size() for t in state.values() if th.is_tensor(t))
    if claimed > _MAX_EXPANSION * len(content):
        raise InputError(
            f"{path}: '{name}' claims {claimed:,} bytes of tensors but has {len(content):,}"
        )
    return state


def _problem_of(error: Exception) -> str:
    """Returns why torch's reader failed, without its advice to allow execution."""
    text = str(error).strip()
    if match := _REFUSED.search(text):
        return f"it names {match[1]}"
    first = (text or type(error).__name__).splitlines()[0]
    return "it contains more than tensors" if first.startswith("Weights only") else first[:200]


def _check_inner_sizes(path: Path, name: str, content: bytes) -> None:
    """Checks the sizes in a torch file, usually a zip too, because torch trusts them."""
    if not zipfile.is_zipfile(io.BytesIO(content)):
        return
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as inner:
            check_archive(inner, len(content))
            claimed = sum(entry.file_size for entry in inner.infolist())
    except DAMAGED_ZIP as error:
        why = one_line(error)
        raise InputError(f"{path}: '{name}' is not plain tensors ({why})") from error
    if claimed > _MAX_EXPANSION * len(content):
        raise InputError(f"{path}: '{name}' unpacks to {claimed:,} bytes, more than any model has")


def _check_all_tensors(path: Path, name: str, state: dict[str, Any]) -> None:
    for key, value in state.items():
        if not (isinstance(key, str) and isinstance(value, th.Tensor)):
            raise InputError(f"{path}: '{name}': {key!r} is not a tensor")
        if value.layout is not th.strided or value.device.type != "cpu":
            raise InputError(f"{path}: '{name}': {key!r} is not a dense CPU tensor")
