"""All patches of other code in the process, and why they are needed.

No other module assigns to attributes of other packages' modules and classes, or changes
`sys.meta_path`; `tests/test_layers.py` asserts it.

- `leave_compiler_unloaded`: torch's optimizers would import its compiler, 800 modules that take 1.4
  seconds of CPU time and more, in every worker and in the first algorithm of every script.
- `make_callable`: `imitbench.report` is a function of the Python API and a package, and importing
  any module of the package would replace the function.
- `add_finder`: source outside the import path is imported under names that include its digest,
  and only a finder can refuse files that the digest does not cover, or outdated byte code.
- `entry_point_replaced`: a method under test creates its environments itself, by id, so that they
  can only be observed where Gymnasium looks up ids.
- `report_mujoco_warnings`: MuJoCo would write its warnings to a file MUJOCO_LOG.TXT in the working
  directory, and those about other packages' models to the terminal.
- `silence_unraisable`: Ctrl+C during the construction of a progress bar leaves an incomplete
  object, whose finalizer would print a traceback after the message of the interrupted command.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import ModuleType
from typing import TYPE_CHECKING, Any

from imitbench.util.text_line import note, one_line

if TYPE_CHECKING:
    from importlib.abc import MetaPathFinder


def leave_compiler_unloaded() -> None:
    """Keeps torch's optimizers from importing its compiler.

    They import it only to exclude some of their methods from compilation. Where the program itself
    has imported it, they do so as before. Versions of torch with other code are not patched.
    """
    from torch import optim

    for method in vars(optim.Optimizer).values():
        original = getattr(method, "__wrapped__", None)
        if original is not None and not hasattr(original, "__dynamo_disable"):
            original.__dynamo_disable = _plain_until_compiler(method, original)
    for cls in vars(optim).values():
        step = vars(cls).get("step") if isinstance(cls, type) else None
        if step is not None and getattr(step, "__code__", None) and _is_guarded(step):
            cls.step = _unguarded(step, step.__wrapped__)


def _compiler_is_loaded() -> bool:
    return sys.modules.get("torch._dynamo") is not None


def _plain_until_compiler(method: Callable[..., Any], original: Any) -> Callable[..., Any]:
    """Stands for the function that `torch._compile` would keep in `original.__dynamo_disable`."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if not _compiler_is_loaded():
            return original(*args, **kwargs)
        del original.__dynamo_disable  # torch makes its own
        return method(*args, **kwargs)

    return call


def _is_guarded(step: Callable[..., Any]) -> bool:
    """Whether a step function imports the compiler first."""
    return hasattr(step, "__wrapped__") and "torch._dynamo" in step.__code__.co_names


def _unguarded(guarded: Callable[..., Any], step: Callable[..., Any]) -> Callable[..., Any]:
    import torch as th

    @wraps(step)
    def plain_step(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _compiler_is_loaded():
            return guarded(self, *args, **kwargs)
        with th.set_grad_enabled(self.defaults["differentiable"]):
            return step(self, *args, **kwargs)

    return plain_step


def make_callable(package: str, function: Callable[..., Any]) -> None:
    """Makes a package callable.

    Args:
        package: Dotted name of the package, which is imported.
        function: Called with the arguments of a call of the package.
    """
    kind = type("CallablePackage", (ModuleType,), {"__call__": staticmethod(function)})
    importlib.import_module(package).__class__ = kind


def add_finder(finder: MetaPathFinder, *, last: bool = False) -> None:
    """Adds a finder, unless it is there already.

    Args:
        finder: Must find only modules of its own packages.
        last: Whether it is asked after all others, rather than before them.
    """
    if finder not in sys.meta_path:
        sys.meta_path.insert(len(sys.meta_path) if last else 0, finder)


@contextmanager
def entry_point_replaced(
    env_id: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Iterator[None]:
    """Replaces the entry point of an environment id within a `with` block.

    Args:
        env_id: An id registered with Gymnasium.
        wrap: Returns the new entry point, given the old one.
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


def report_mujoco_warnings() -> None:
    """Prints MuJoCo's warnings to stderr, and no longer writes them to MUJOCO_LOG.TXT.

    Warnings of deprecated elements in models are dropped: they concern the authors of the models.
    Does nothing before MuJoCo is imported.
    """
    mujoco = sys.modules.get("mujoco")
    redirect = getattr(mujoco, "set_mju_user_warning", None)
    if redirect is not None:
        redirect(_print_mujoco_warning)


def _print_mujoco_warning(message: object) -> None:
    text = message.decode(errors="replace") if isinstance(message, bytes) else str(message)
    if "deprecated" not in text:
        note(f"MuJoCo: {one_line(text)}")


def silence_unraisable() -> None:
    """Suppresses tracebacks of finalizers, in a process that is about to exit."""
    sys.unraisablehook = lambda _: None
