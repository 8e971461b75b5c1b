"""Limits the memory for networks that are built from the description in a file."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch as th
from torch.utils._python_dispatch import TorchDispatchMode

from imitbench.util.library_patches import leave_compiler_unloaded

# Construction may always allocate this many numbers, enough for activations of large images.
_ALWAYS_FINE = 2**25
_EXPANSION = 16


class TooLargeError(ValueError):
    """A description requires networks far larger than the weights."""


@contextmanager
def allocations_limited_by(weights: Mapping[str, th.Tensor]) -> Iterator[None]:
    """Stops the construction of networks that are far larger than the weights.

    Torch's generator is restored on exit. The optimizers of policies do not load torch's compiler.

    Args:
        weights: Weights of the networks.

    Raises:
        TooLargeError: Allocations exceed 16 times the weights and 2**25 numbers.
    """
    allowed = max(_ALWAYS_FINE, _EXPANSION * sum(tensor.numel() for tensor in weights.values()))
    leave_compiler_unloaded()
    with th.random.fork_rng(devices=[]), _AllocationMeter(allowed):
        yield


def check_finite(weights: Mapping[str, th.Tensor]) -> None:
    """Checks that all weights are finite.

    Raises:
        ValueError: A weight is NaN or infinite.
    """
    for name, tensor in weights.items():
        if tensor.is_floating_point() and not bool(th.isfinite(tensor).all()):
            raise ValueError(f"{name} has numbers that are not finite")


class _AllocationMeter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up the sizes of allocations before they happen."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch would import its compiler, which takes a second, to leave this class out."""
        return False

    def __init__(self, allowed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._left = allowed

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        size = args[0] if args else ()
        if isinstance(size, list | tuple) and all(isinstance(number, int) for number in size):
            self._left -= math.prod(size)
            if self._left < 0:
                raise TooLargeError("it describes networks far larger than the weights")
        return func(*args, **(kwargs or {}))
