"""Benchmark harness, leaderboard and library for imitation and reward learning.

`imitbench.run`, `imitbench.results`, `imitbench.report` and `imitbench.compare` are the harness
(see `imitbench.api`); the library is in `imitbench.algorithms` and its neighbours. Importing this
package loads nothing heavy.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

from imitbench.errors import InputError

if TYPE_CHECKING:
    from imitbench.api import compare, report, results, run

__version__ = "0.1.0"
__all__ = ["InputError", "__version__", "compare", "report", "results", "run"]

_LAZY = ("compare", "results", "run")


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module("imitbench.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


class _CallablePackage(ModuleType):
    """`imitbench.report` is a package and a function of `imitbench.api`: it is both at once."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """See `imitbench.api.report`."""
        from imitbench.api import report

        return report(*args, **kwargs)


importlib.import_module("imitbench.report").__class__ = _CallablePackage
