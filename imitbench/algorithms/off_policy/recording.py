"""Recording a function once, so that a GPU repeats it in a single launch.

An update of small networks is over a hundred kernels that take a few microseconds each, less than
launching them. A CUDA graph launches all of them at once. It repeats the same operations on the
same memory, so what changes between two updates has to be written to that memory before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Generic, TypeVar, cast

import torch as th

Fill = Callable[[th.Tensor], object]
"""Writes values into a tensor on the CPU."""

T = TypeVar("T")

# Calls before the recording: they allocate what is allocated once, such as an optimizer's state.
_CALLS_BEFORE = 3


class Tape:
    """What a recorded function reads besides its state: buffers that are filled before each call.

    The first call creates them, in the order in which the function asks for them.

    Args:
        device: Where the function computes.

    Attributes:
        on_gpu: Whether that is a GPU.
    """

    def __init__(self, device: th.device) -> None:
        self._device = device
        self.on_gpu = device.type == "cuda"
        self._fills: list[Fill] = []
        self._host: list[th.Tensor] = []
        self._slots: list[th.Tensor] = []
        self._position = 0
        self._whole: tuple[th.Tensor, th.Tensor] | None = None
        self._copied = th.cuda.Event() if self.on_gpu else None  # type: ignore[no-untyped-call]

    def rewind(self) -> None:
        """Begins a call of the function."""
        self._position = 0

    def slot(self, fill: Fill, shape: tuple[int, ...], dtype: th.dtype) -> th.Tensor:
        """The buffer that the function reads next.

        Args:
            fill: What fills it; that of the first call is kept.
            shape: Its shape.
            dtype: Its type.

        Returns:
            The buffer on the device.
        """
        place = self._position
        self._position += 1
        if place == len(self._slots):
            host = th.empty(shape, dtype=dtype)
            fill(host)
            self._fills.append(fill)
            self._host.append(host)
            self._slots.append(host.to(self._device))
        return self._slots[place]

    def fill(self) -> None:
        """Fills all buffers, with a single copy to the device."""
        if not self._slots:
            return
        if self._whole is None:
            self._join()
        if self._copied is not None:
            self._copied.synchronize()  # the copy before still reads the memory
        for fill, host in zip(self._fills, self._host, strict=True):
            fill(host)
        if self._copied is not None and self._whole is not None:
            host, device = self._whole
            device.copy_(host, non_blocking=True)
            self._copied.record()

    def _join(self) -> None:
        """Puts all buffers into one piece of memory on each side."""
        sizes = [8 * math.ceil(each.nbytes / 8) for each in self._host]
        host = th.zeros(sum(sizes), dtype=th.uint8, pin_memory=self.on_gpu)
        device = host.to(self._device) if self.on_gpu else host
        self._whole = host, device
        shapes = [(each.nbytes, each.dtype, each.shape) for each in self._host]
        self._host, self._slots = (
            [
                part[:used].view(dtype).view(shape)
                for part, (used, dtype, shape) in zip(th.split(whole, sizes), shapes, strict=True)
            ]
            for whole in self._whole
        )


class Recorded(Generic[T]):
    """A function without arguments that is recorded after a few calls, and then repeated.

    On the CPU each call still runs the function, with the same buffers.

    Args:
        function: Reads what changes from a tape, and otherwise computes the same operations on the
            same tensors in every call.
        tape: The tape.
    """

    def __init__(self, function: Callable[[], T], tape: Tape) -> None:
        self._function = function
        self._tape = tape
        self._calls = 0
        self._graph: th.cuda.CUDAGraph | None = None
        self._result: T | None = None

    def __call__(self) -> T:
        """Calls the function.

        Returns:
            Its result, which the next call overwrites.
        """
        self._tape.fill()
        if self._tape.on_gpu and self._graph is None and self._calls == _CALLS_BEFORE:
            self._record()
        if self._graph is not None:
            self._graph.replay()
            return cast("T", self._result)
        self._calls += 1
        self._tape.rewind()
        return self._function()

    def _record(self) -> None:
        self._tape.rewind()
        graph = th.cuda.CUDAGraph()
        with th.cuda.graph(graph):
            self._result = self._function()
        self._graph = graph
