"""Settings of torch for training small networks: threads, and deterministic kernels."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from imitbench.util.library_patches import leave_compiler_unloaded


def start_torch() -> None:
    """Prepares torch in a process of a command's own: one thread, and no compiler."""
    use_one_thread()
    leave_compiler_unloaded()


def use_one_thread() -> None:
    """Limits torch to one thread: workers share the cores, and small networks need no more."""
    import torch as th

    th.set_num_threads(1)
    if th.get_num_interop_threads() != 1:
        with suppress(RuntimeError):  # not possible after the first parallel operation
            th.set_num_interop_threads(1)


@contextmanager
def one_thread() -> Iterator[None]:
    """Limits torch to one thread within a `with` block.

    A second thread makes products of small matrices slower, many times if another process uses
    its core.
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
    """Makes torch choose deterministic kernels where they exist.

    On the CPU with one thread, all kernels are deterministic. On GPUs, faster kernels sum in any
    order; operations without a deterministic kernel warn once.

    Args:
        device: `cpu` or `cuda`; must be called before any computation there.
    """
    import torch as th

    on_gpu = device == "cuda"
    if on_gpu:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    th.backends.cudnn.benchmark = False
    # Does what use_deterministic_algorithms(on_gpu, warn_only=True) does, which also imports the
    # compiler.
    th.set_deterministic_debug_mode("warn" if on_gpu else "default")
