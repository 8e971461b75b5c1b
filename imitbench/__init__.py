"""Benchmark harness, leaderboard and library for imitation and reward learning.

`imitbench.run`, `imitbench.race`, `imitbench.results`, `imitbench.report` and `imitbench.compare`
are the harness; `imitbench.load_policy` and `imitbench.load_reward` give what its runs have learned
(see `imitbench.api`); the library is in `imitbench.algorithms` and its neighbors. Importing this
package loads nothing heavy.
"""

import sys

# `python -m imitbench` and the installed command: before anything else is imported.
if sys.argv and (sys.argv[0] == "-m" or sys.argv[0].endswith(("imitbench", "imitbench.exe"))):
    from imitbench.util.interpreter import leave_out_current_folder

    leave_out_current_folder()

import importlib
from functools import partial
from typing import TYPE_CHECKING, Any

from imitbench.errors import InputError
from imitbench.util.library_patches import make_callable
from imitbench.version import __version__

if TYPE_CHECKING:
    from imitbench.api import compare, load_policy, load_reward, race, report, results, run

__all__ = [
    "InputError",
    "__version__",
    "compare",
    "load_policy",
    "load_reward",
    "race",
    "report",
    "results",
    "run",
]

_LAZY = ("compare", "load_policy", "load_reward", "results", "run")


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module("imitbench.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


def _call(function: str, /, *args: Any, **kwargs: Any) -> Any:
    return getattr(importlib.import_module("imitbench.api"), function)(*args, **kwargs)


for _name in ("race", "report"):  # functions that have the names of packages
    make_callable(f"imitbench.{_name}", partial(_call, _name))
