"""Makes a process that trains small networks start faster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Any


def use_one_thread() -> None:
    """Keeps workers from fighting over cores; small networks gain nothing from more threads."""
    import torch as th

    th.set_num_threads(1)
    if th.get_num_interop_threads() != 1:
        with suppress(RuntimeError):  # too late in a process that has worked already
            th.set_num_interop_threads(1)


@contextmanager
def one_thread() -> Iterator[None]:
    """Makes torch use one thread for a while.

    A second thread makes products of small matrices slower, many times so if another process
    wants its core.
    """
    import torch as th

    before = th.get_num_threads()
    if before != 1:
        th.set_num_threads(1)
    try:
        yield
    finally:
        if before != 1:
            th.set_num_threads(before)


def repeat_exactly(device: str) -> None:
    """Makes torch choose kernels that give the same numbers every time, where it has them.

    On the CPU with one thread, it does so anyway. On GPUs the faster ones add up in any order;
    operations that have no other say so once, by a warning.

    Args:
        device: `cpu` or `cuda`; nothing may have been computed there yet.
    """
    import torch as th

    on_gpu = device == "cuda"
    if on_gpu:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    th.backends.cudnn.benchmark = False
    # As use_deterministic_algorithms(on_gpu, warn_only=True), which loads the compiler as well.
    th.set_deterministic_debug_mode("warn" if on_gpu else "default")


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
