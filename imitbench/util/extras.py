"""Optional packages that only some commands need, each in an extra of this package."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Literal

from imitbench.errors import InputError
from imitbench.util.text_line import one_line

Extra = Literal[
    "atari",
    "contrib",
    "datasets",
    "density",
    "hdf5",
    "interactive",
    "jsonpickle",
    "label",
    "minari",
    "onnx",
    "pandas",
    "plots",
    "slurm",
    "tensorboard",
    "tune",
    "video",
    "wandb",
]
"""Names in `[project.optional-dependencies]` of pyproject.toml."""


def import_extra(module: str, extra: Extra, purpose: str) -> ModuleType:
    """Imports a module of an optional package.

    Args:
        module: Full name, such as `wandb.sdk`.
        extra: The extra that installs it.
        purpose: What needs it, as the beginning of a sentence: `tuning`.

    Raises:
        InputError: It is not installed or cannot be loaded; the message has the `pip` command.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        absent = isinstance(error, ModuleNotFoundError) and error.name == package
        reason = "is not installed" if absent else f"cannot be loaded ({one_line(error, 80)})"
        raise InputError(
            f"{purpose} needs {package}, which {reason}: pip install 'imitbench[{extra}]'"
        ) from error
