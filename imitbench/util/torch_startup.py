"""Makes a process that trains small networks start faster."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any


def use_one_thread() -> None:
    """Keeps workers from fighting over cores; small networks gain nothing from more threads."""
    import torch as th

    th.set_num_threads(1)


def leave_compiler_unloaded() -> None:
    """Keeps optimizers from importing torch's compiler, which takes a second per process.

    Torch's optimizers import it only to tell it to keep away from some of their methods. Nothing
    here compiles an optimizer, so these methods do without. Where torch does this otherwise, it
    is left as it is.
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
