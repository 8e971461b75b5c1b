"""Builds networks that a file describes, without letting the description fill the memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch as th
from torch.utils._python_dispatch import TorchDispatchMode

# What any policy may take to be built, in numbers: room for the activations of a large image.
_ALWAYS_FINE = 2**25
_EXPANSION = 16


class TooLargeError(ValueError):
    """A description asks for networks that are out of all proportion to the weights."""


@contextmanager
def bounded_by(weights: Mapping[str, th.Tensor]) -> Iterator[None]:
    """Stops the building of networks that the weights are not nearly enough for.

    Torch's generator is as before afterwards.

    Args:
        weights: What the networks are built to hold.

    Raises:
        TooLargeError: More is asked for than a multiple of the weights.
    """
    allowed = max(_ALWAYS_FINE, _EXPANSION * sum(tensor.numel() for tensor in weights.values()))
    with th.random.fork_rng(devices=[]), _Meter(allowed):
        yield


def check_finite(weights: Mapping[str, th.Tensor]) -> None:
    """Makes sure that a policy can act by its weights.

    Raises:
        ValueError: One of them is not a number, or infinite.
    """
    for name, tensor in weights.items():
        if tensor.is_floating_point() and not bool(th.isfinite(tensor).all()):
            raise ValueError(f"{name} has numbers that are not finite")


class _Meter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up what is allocated, before it is."""

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
