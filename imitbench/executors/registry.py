"""Finds executors by name: those of this package, and those of installed packages."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Iterator
from pathlib import Path

from imitbench.errors import InputError, did_you_mean
from imitbench.executors.base import Executor
from imitbench.executors.options import RunOptions
from imitbench.executors.slurm import OPTION_HELP

ENTRY_POINTS = "imitbench.executors"
_BUNDLED = {
    "local": "imitbench.executors.local:LocalExecutor",
    "slurm": "imitbench.executors.slurm.executor:SlurmExecutor",
    "inline": "imitbench.executors.inline:InlineExecutor",
}
_OPTION_HELP = {"slurm": OPTION_HELP}  # stored here, because `--help` imports no executor


def executor_names() -> list[str]:
    """Returns the names of all executors, those of this package first."""
    installed = importlib.metadata.entry_points(group=ENTRY_POINTS).names
    return [*_BUNDLED, *sorted(installed - _BUNDLED.keys())]


def executor_class(name: str) -> type[Executor]:
    """Returns the executor class with a name.

    Raises:
        InputError: The executor does not exist or cannot be loaded.
    """
    target = _BUNDLED.get(name)
    if target is None:
        installed = importlib.metadata.entry_points(group=ENTRY_POINTS)
        if name not in installed.names:
            hint = did_you_mean(name, executor_names())
            raise InputError(f"--executor {name}: no such executor; {hint}")
        target = installed[name].value
    module, _, attribute = target.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(f"--executor {name}: {target} cannot be loaded ({error})") from error
    if not (isinstance(found, type) and issubclass(found, Executor)):
        raise InputError(
            f"--executor {name}: {target} is not an executor; make it a subclass of "
            "imitbench.executors.base.Executor"
        )
    return found


def resolve(options: RunOptions) -> RunOptions:
    """Fills in unspecified options with the executor that they name.

    Raises:
        InputError: The executor does not exist, or two options contradict each other.
    """
    executor = executor_class(options.executor)
    if options.profile is not None and "profile" not in executor.option_help:
        names = " or ".join(option_help("profile"))
        raise InputError(f"--profile {options.profile}: works only with --executor {names}")
    return executor.resolve(options)


def executors_of(out: Path) -> Iterator[type[Executor]]:
    """Returns executors with data in a results folder.

    Raises:
        InputError: An executor cannot be loaded.
    """
    return (executor_class(name) for name in executor_names() if (out / f".{name}").is_dir())


def option_help(keyword: str) -> dict[str, str]:
    """Returns the help of an option by executor, for options of single executors."""
    return {name: texts[keyword] for name, texts in _OPTION_HELP.items() if keyword in texts}
