"""Reads what `torch.save` wrote as data: a zip with a pickle and the numbers of its tensors.

Torch's own reader executes the pickle, or a part of the names in it. This one imports and builds
nothing: the pickle becomes plain values and records, and tensors are views of bytes in the zip.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch as th

from imitbench.errors import InputError
from imitbench.untrusted.archives import DAMAGED_ZIP, check_archive
from imitbench.untrusted.arrays import check_shape
from imitbench.untrusted.files import require_size
from imitbench.util.safe_unpickler import (
    PersistentId,
    PickledName,
    PickledObject,
    RefusedPickleError,
    names_in,
    read_safely,
)
from imitbench.util.text_line import one_line

_PICKLE = "data.pkl"
_STORAGES = {
    "DoubleStorage": th.float64,
    "FloatStorage": th.float32,
    "HalfStorage": th.float16,
    "BFloat16Storage": th.bfloat16,
    "LongStorage": th.int64,
    "IntStorage": th.int32,
    "ShortStorage": th.int16,
    "CharStorage": th.int8,
    "ByteStorage": th.uint8,
    "BoolStorage": th.bool,
}
_TENSOR = "torch._utils._rebuild_tensor_v2"
_PARAMETER = "torch._utils._rebuild_parameter"
_ORDERED = "collections.OrderedDict"
_ADMITTED = names_in(
    modules=("numpy",),
    names={
        _TENSOR, _PARAMETER, _ORDERED, "_codecs.encode", "builtins.set", "builtins.frozenset",
        "collections.defaultdict", "builtins.dict", "torch.Size",
        *(f"torch.{name}" for name in _STORAGES),
    },
)  # fmt: skip


@dataclass(frozen=True)
class TorchArchive:
    """The content of a file of `torch.save`.

    Attributes:
        path: The file.
        root: What was saved: plain values, `PickledObject` for others; see `mapping` and `tensor`.
        storages: Bytes of the tensors by name.
    """

    path: Path
    root: Any
    storages: Mapping[str, bytes]

    def mapping(self, value: Any, what: str) -> dict[str, Any]:
        """Returns a dictionary with keys of text.

        Args:
            value: A part of the content.
            what: Its name, for messages.

        Raises:
            InputError: It is something else.
        """
        if isinstance(value, PickledObject) and value.kind == _ORDERED:
            value = dict(value.items)
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            raise InputError(f"{self.path}: {what}: is not a mapping of names to values")
        return value

    def tensor(self, value: Any, what: str) -> th.Tensor:
        """Returns a tensor, whose memory is its own.

        Args:
            value: A part of the content.
            what: Its name, for messages.

        Raises:
            InputError: It is not a tensor, or its numbers are missing.
        """
        try:
            return self._tensor(value)
        except (ValueError, TypeError, IndexError, KeyError) as error:
            raise InputError(
                f"{self.path}: {what}: is not a plain tensor ({one_line(error, 120)})"
            ) from error

    def _tensor(self, value: Any) -> th.Tensor:
        if isinstance(value, PickledObject) and value.kind == _PARAMETER:
            value = value.arguments[0]
        if not isinstance(value, PickledObject) or value.kind != _TENSOR:
            raise ValueError("it is another object")
        storage, offset, shape, strides, *_ = value.arguments
        if not isinstance(storage, PersistentId):
            raise ValueError("its numbers are not in the file")
        kind, made_of, key, _, count = storage.value
        if kind != "storage" or not isinstance(made_of, PickledName):
            raise ValueError("its numbers are of no known type")
        dtype = _STORAGES[made_of.name]
        content, shape = self.storages[key], check_shape(shape)
        width = th.empty((), dtype=dtype).element_size()
        expected, dense = 1, []
        for size in reversed(shape):
            dense.append(expected)
            expected *= size
        if tuple(strides) != tuple(reversed(dense)):
            raise ValueError("its numbers are not dense")
        numbers = math.prod(shape)
        if len(content) != count * width or not 0 <= offset <= count - numbers:
            raise ValueError(f"it declares {numbers:,} numbers of {len(content):,} bytes")
        if not numbers:
            return th.zeros(shape, dtype=dtype)
        flat = th.frombuffer(bytearray(content), dtype=dtype)
        return flat[offset : offset + numbers].reshape(shape).clone()


def read_torch_archive(path: Path) -> TorchArchive:
    """Reads a file of `torch.save`.

    Args:
        path: The file, of torch 1.6 or later.

    Raises:
        InputError: It is missing, damaged, of an earlier version, or refers to names that plain
            tensors and arrays do not need.
    """
    try:
        require_size(path)
        if not zipfile.is_zipfile(path):
            raise InputError(
                f"{path}: is not a zip of torch.save: damaged, or written by torch before 1.6; "
                "save it again with a later version"
            )
        with zipfile.ZipFile(path) as archive:
            check_archive(archive, path.stat().st_size)
            names = archive.namelist()
            pickles = [name for name in names if name.rpartition("/")[2] == _PICKLE]
            if len(pickles) != 1 or len(set(names)) != len(names):
                raise InputError(f"{path}: is not a file of torch.save: it has no '{_PICKLE}'")
            top = pickles[0].removesuffix(_PICKLE)
            _check_order(path, archive, top)
            root = read_safely(archive.read(pickles[0]), _ADMITTED, persistent=True)
            prefix = f"{top}data/"
            storages = {
                name.removeprefix(prefix): archive.read(name)
                for name in names
                if name.startswith(prefix)
            }
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
    except InputError:
        raise
    except RefusedPickleError as error:
        raise InputError(f"{path}: its pickle is not plain tensors: {error}") from error
    except DAMAGED_ZIP as error:
        raise InputError(
            f"{path}: not a readable file of torch.save ({one_line(error)}); fetch it again"
        ) from error
    return TorchArchive(path, root, storages)


def _check_order(path: Path, archive: zipfile.ZipFile, top: str) -> None:
    name = f"{top}byteorder"
    if name in archive.namelist() and archive.read(name) != b"little":
        raise InputError(f"{path}: was written on a machine with another byte order")
