"""Every change that this package makes to other code in its process, and why it is needed.

No other module assigns to attributes of foreign modules and classes, or adds to what imports go
through; `tests/test_layers.py` asserts it.

- `leave_compiler_unloaded`: torch's optimizers would import its compiler, which takes 1.4 seconds
  of processor time in every worker.
- `make_callable`: `imitbench.report` is a function of the Python API and a package, and importing
  any module of the package would replace the function.
- `add_finder`: source outside the import path is imported under names that hold its digest, and
  only a finder can refuse files that the digest does not cover, or byte code that is out of date.
- `entry_point_replaced`: a method under test makes its environments itself, by id, so that they
  can only be observed where Gymnasium looks ids up.
- `silence_unraisable`: Ctrl+C in a progress bar that is just being made leaves half an object,
  whose finalizer would print a traceback below the line that says that the command was stopped.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.abc import MetaPathFinder


def leave_compiler_unloaded() -> None:
    """Keeps torch's optimizers from importing its compiler.

    They import it only to exclude some of their methods from compilation. Nothing here compiles
    an optimizer, so these methods do without. Where a version of torch does this otherwise, it is
    left as it is.
    """
    from torch import optim

    for method in vars(optim.Optimizer).values():
        original = getattr(method, "__wrapped__", None)
        if original is not None and not hasattr(original, "__dynamo_disable"):
            original.__dynamo_disable = original
    for cls in vars(optim).values():
        step = vars(cls).get("step") if isinstance(cls, type) else None
        if step is not None and getattr(step, "__code__", None) and _is_guarded(step):
            cls.step = _unguarded(step.__wrapped__)


def _is_guarded(step: Callable[..., Any]) -> bool:
    """Whether a step function imports the compiler before doing its work."""
    return hasattr(step, "__wrapped__") and "torch._dynamo" in step.__code__.co_names


def _unguarded(step: Callable[..., Any]) -> Callable[..., Any]:
    import torch as th

    @wraps(step)
    def plain_step(self: Any, *args: Any, **kwargs: Any) -> Any:
        with th.set_grad_enabled(self.defaults["differentiable"]):
            return step(self, *args, **kwargs)

    return plain_step


def make_callable(package: str, function: Callable[..., Any]) -> None:
    """Makes a package callable.

    Args:
        package: Its dotted name; it is imported.
        function: What a call of the package calls.
    """
    kind = type("CallablePackage", (ModuleType,), {"__call__": staticmethod(function)})
    importlib.import_module(package).__class__ = kind


def add_finder(finder: MetaPathFinder) -> None:
    """Puts a finder before all others, once.

    Args:
        finder: It must find no modules but those of packages that are its own.
    """
    if finder not in sys.meta_path:
        sys.meta_path.insert(0, finder)


@contextmanager
def entry_point_replaced(
    env_id: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Iterator[None]:
    """Replaces what makes the environments of an id, for a while.

    Args:
        env_id: The id, which must be registered with Gymnasium.
        wrap: Gives the new function that makes them, from the old one.
    """
    import dataclasses

    import gymnasium as gym
    from gymnasium.envs.registration import load_env_creator

    before = gym.registry[env_id]
    point = before.entry_point
    assert point is not None, "a registered id has an entry point"
    create: Any = load_env_creator(point) if isinstance(point, str) else point
    gym.registry[env_id] = dataclasses.replace(before, entry_point=wrap(create))
    try:
        yield
    finally:
        gym.registry[env_id] = before


def silence_unraisable() -> None:
    """Prints no more tracebacks of finalizers, in a process that is about to end."""
    sys.unraisablehook = lambda _: None
