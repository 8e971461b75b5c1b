"""Common parts of stored networks: arguments as JSON, weights as safetensors, and digests.

A stored network is a folder with a description (JSON, including the digest of the weights) and
the weights. Reading one only builds classes from an allow-list and executes no code from files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch as th
from pydantic import BaseModel, ValidationError
from safetensors import SafetensorError
from safetensors import torch as safetensors_torch
from torch import nn

from imitbench.errors import InputError, MissingPathError
from imitbench.untrusted.files import read_content
from imitbench.untrusted.limits import beyond, limits
from imitbench.util.files import atomic_write_bytes, atomic_write_text
from imitbench.util.networks import EMANorm, RunningNorm
from imitbench.util.text_line import one_line
from imitbench.util.validation_errors import first_problem

LAYER_TYPES: dict[str, type] = {
    "torch.nn.Tanh": nn.Tanh,
    "torch.nn.ReLU": nn.ReLU,
    "torch.nn.ELU": nn.ELU,
    "torch.nn.LeakyReLU": nn.LeakyReLU,
    "torch.nn.SiLU": nn.SiLU,
    "torch.nn.GELU": nn.GELU,
    "RunningNorm": RunningNorm,
    "EMANorm": EMANorm,
}
"""Layer classes that are allowed in all stored networks."""

DescriptionT = TypeVar("DescriptionT", bound=BaseModel)


class ArgumentCodec:
    """Converts constructor arguments to JSON and back; classes are stored by name.

    Args:
        what: Kind of network, for messages.
        types: Classes allowed as arguments, by their name in the file.
    """

    def __init__(self, what: str, types: Mapping[str, type]) -> None:
        self.what = what
        self._types = dict(types)
        self._names = {cls: name for name, cls in types.items()}

    def encode(self, value: Any) -> Any:
        """Converts an argument to JSON.

        Raises:
            ValueError: The argument cannot be stored.
        """
        if isinstance(value, type):
            return {"$type": self.name_of(value)}
        if isinstance(value, Mapping):
            return {str(key): self.encode(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.encode(item) for item in value]
        if value is None or isinstance(value, bool | int | float | str):
            return value
        raise ValueError(f"{self.what}: constructor argument {value!r} cannot be stored as JSON")

    def decode(self, value: Any) -> Any:
        """Inverts `encode`.

        Raises:
            ValueError: The class is not in the allow-list.
        """
        if isinstance(value, dict):
            if set(value) == {"$type"}:
                return self.type_of(value["$type"])
            return {key: self.decode(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.decode(item) for item in value]
        return value

    def name_of(self, cls: type) -> str:
        """Returns the name under which a class is stored.

        Raises:
            ValueError: The class cannot be stored.
        """
        if cls not in self._names:
            raise ValueError(f"{self.what}: {cls.__module__}.{cls.__qualname__} cannot be stored")
        return self._names[cls]

    def type_of(self, name: Any) -> type:
        """Inverts `name_of`.

        Raises:
            ValueError: The class is not in the allow-list.
        """
        if not isinstance(name, str) or name not in self._types:
            raise ValueError(f"type {name!r} is not known; accepted: {', '.join(self._types)}")
        return self._types[name]


def weights_to_bytes(module: nn.Module) -> bytes:
    """Serializes parameters and buffers of a module as safetensors.

    Raises:
        ValueError: The state of the module holds something other than tensors.
    """
    tensors = {}
    for name, value in module.state_dict().items():
        if not isinstance(value, th.Tensor):
            raise ValueError(
                f"{type(module).__qualname__}: '{name}' of its state is not a tensor but a "
                f"{type(value).__name__}; make it a buffer, or an argument of the constructor"
            )
        tensors[name] = value.detach().cpu().clone()
    return safetensors_torch.save(tensors)


def digest(data: bytes) -> str:
    """Returns the SHA-256 as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def write_network(weights_path: Path, weights: bytes, path: Path, description: BaseModel) -> None:
    """Writes weights and description, each atomically.

    Raises:
        OSError: A file cannot be written.
    """
    # The description is written last, so that the weights exist wherever it does.
    atomic_write_bytes(weights_path, weights)
    atomic_write_text(path, json.dumps(description.model_dump(), indent=1) + "\n")


def check_rebuilds(
    what: str,
    net: nn.Module,
    describe: Callable[[Any], tuple[DescriptionT, bytes]],
    rebuild: Callable[[DescriptionT, dict[str, th.Tensor]], object],
) -> None:
    """Checks that a network can be stored and built again, without writing it.

    Args:
        what: Kind of network, for messages.
        net: The network.
        describe: Returns the description and the weights of a network as they are stored; raises a
            `ValueError` if it cannot be stored.
        rebuild: Builds a network from both; may raise any error.

    Raises:
        InputError: It cannot be stored, or what is stored does not determine it.
    """
    try:
        description, weights = describe(net)
    except ValueError as error:
        raise InputError(str(error)) from error
    try:
        rebuild(description, safetensors_torch.load(weights))
    except InputError:
        raise
    except Exception as error:  # classes of users may raise any error
        arguments = sorted(getattr(description, "kwargs", ()))
        raise InputError(
            f"{what}: {type(net).__qualname__} is not built again from its stored arguments "
            f"{arguments} and weights ({one_line(error) or type(error).__name__})"
        ) from error


def read_description(path: Path, model: type[DescriptionT], what: str) -> DescriptionT:
    """Reads and validates a description.

    Args:
        path: JSON file.
        model: Model for validation.
        what: Kind of network, for messages.

    Raises:
        MissingPathError: There is no such file (also a `FileNotFoundError`).
        InputError: The file is unreadable or does not match `model`.
    """
    try:
        return model.model_validate_json(read_content(path))
    except FileNotFoundError:
        raise MissingPathError(
            f"{path}: no such file; is {path.parent} the folder of a {what}?"
        ) from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except ValidationError as error:
        raise InputError(f"{path}: {first_problem(error)}; fetch or train it again") from error


def read_weights(path: Path, expected: str, description_file: str) -> dict[str, th.Tensor]:
    """Reads weights and checks their digest.

    Args:
        path: The safetensors file.
        expected: SHA-256 of the file.
        description_file: Name of the file with the digest, for messages.

    Raises:
        InputError: The file is missing, truncated, altered or not a safetensors file.
    """
    try:
        data = read_content(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    if digest(data) != expected:
        raise InputError(
            f"{path}: truncated or altered ({len(data)} bytes do not match the digest in "
            f"{description_file}); fetch or train it again"
        )
    try:
        return parse_weights(data)
    except ValueError as error:
        raise InputError(f"{path}: not a safetensors file ({one_line(error)})") from error


def parse_weights(data: bytes) -> dict[str, th.Tensor]:
    """Reads the tensors of a safetensors file.

    Raises:
        ValueError: It is not such a file, has a header beyond the limit `text_bytes`, or a data
            type that torch lacks.
    """
    header = int.from_bytes(data[:8], "little")
    if header > limits().text_bytes:
        raise ValueError(beyond("text_bytes", f"a header of {header:,} bytes"))
    try:
        return safetensors_torch.load(data)
    except (SafetensorError, LookupError, TypeError, AttributeError, RuntimeError, OverflowError,
            MemoryError) as error:  # fmt: skip
        raise ValueError(f"{type(error).__name__}: {one_line(error)}") from error
