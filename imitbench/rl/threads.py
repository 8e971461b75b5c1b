"""Keeping small matrix products on one thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch as th


@contextmanager
def one_thread() -> Iterator[None]:
    """Makes torch use one thread for a while.

    A second thread makes products of small matrices slower, many times so if another process
    wants its core.
    """
    before = th.get_num_threads()
    if before != 1:
        th.set_num_threads(1)
    try:
        yield
    finally:
        if before != 1:
            th.set_num_threads(before)
