"""Random numbers of each seed, so that a seed draws the same alone and beside others.

On a GPU, functions that draw them are recorded once and then repeated in a single launch. An update
of small networks is over a hundred kernels that take a few microseconds each, less than launching
them. A CUDA graph launches all of them at once. It repeats the same operations on the same memory,
so what changes between two updates has to be written to that memory before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar, cast

import numpy as np
import numpy.typing as npt
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
        position = self._position
        self._position += 1
        if position == len(self._slots):
            host = th.empty(shape, dtype=dtype)
            fill(host)
            self._fills.append(fill)
            self._host.append(host)
            self._slots.append(host.to(self._device))
        return self._slots[position]

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
        sizes = [8 * math.ceil(buffer.nbytes / 8) for buffer in self._host]
        host = th.zeros(sum(sizes), dtype=th.uint8, pin_memory=self.on_gpu)
        device = host.to(self._device) if self.on_gpu else host
        self._whole = host, device
        shapes = [(buffer.nbytes, buffer.dtype, buffer.shape) for buffer in self._host]
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


class SeedStreams:
    """Independent generators of NumPy and torch for each seed.

    Args:
        seeds: The seeds, at least one.
        device: Where the drawn tensors go; all are drawn on the CPU.

    Attributes:
        numpy: One generator per seed.
        torch: One generator per seed.
        recording: Whether `recorded` records: on a GPU, where launching operations one by one takes
            longer than computing them.
    """

    def __init__(self, seeds: Sequence[int], device: str | th.device = "cpu") -> None:
        self.seeds = tuple(seeds)
        self.device = th.device(device)
        self.numpy = [np.random.default_rng(seed) for seed in self.seeds]
        self.torch = [th.Generator().manual_seed(int(rng.integers(2**62))) for rng in self.numpy]
        self.recording = self.device.type == "cuda"
        self._tape: Tape | None = None

    def __len__(self) -> int:
        return len(self.seeds)

    def recorded(self, function: Callable[[], T]) -> Callable[[], T]:
        """A function that a GPU repeats in a single launch.

        Args:
            function: See `Recorded`; what it draws from these streams is drawn anew in each call.
        """
        if not self.recording:
            return function
        tape = Tape(self.device)

        def on_tape() -> T:
            self._tape = tape
            try:
                return function()
            finally:
                self._tape = None

        return Recorded(on_tape, tape)

    def given(self, fill: Fill, shape: tuple[int, ...], dtype: th.dtype = th.float32) -> th.Tensor:
        """A tensor on the device whose values come from the CPU.

        Args:
            fill: Writes the values into a tensor on the CPU.
            shape: Its shape.
            dtype: Its type.
        """
        if self._tape is not None:
            return self._tape.slot(fill, shape, dtype)
        host = th.empty(shape, dtype=dtype)
        fill(host)
        return host.to(self.device)

    def normal(self, *shape: int) -> th.Tensor:
        """Standard normal numbers, shape (seeds, *shape), float32."""
        return self._drawn(th.randn, shape)

    def uniform(self, *shape: int) -> th.Tensor:
        """Uniform numbers in [0, 1), shape (seeds, *shape), float32."""
        return self._drawn(th.rand, shape)

    def _drawn(self, draw: Callable[..., th.Tensor], shape: tuple[int, ...]) -> th.Tensor:
        def fill(host: th.Tensor) -> None:
            for own, generator in zip(host, self.torch, strict=True):
                draw(shape, generator=generator, out=own)

        return self.given(fill, (len(self), *shape))

    def indices(self, sizes: Sequence[int], count: int) -> npt.NDArray[np.int64]:
        """Indices drawn with replacement, on the CPU.

        Args:
            sizes: Exclusive upper bound of each seed.
            count: Number of indices of each seed.

        Returns:
            Shape (seeds, count).
        """
        return np.stack(
            [rng.integers(0, size, count) for rng, size in zip(self.numpy, sizes, strict=True)]
        )

    def state_dict(self) -> dict[str, Any]:
        """The state of all generators."""
        return {
            "numpy": [generator.bit_generator.state for generator in self.numpy],
            "torch": [generator.get_state() for generator in self.torch],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        for rng, own in zip(self.numpy, state["numpy"], strict=True):
            rng.bit_generator.state = own
        for generator, own in zip(self.torch, state["torch"], strict=True):
            generator.set_state(own)
