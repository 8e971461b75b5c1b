"""Settings of torch for training small networks: threads, and kernels that repeat exactly."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress


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
