"""Random numbers of each seed, so that a seed draws the same alone and beside others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch as th

from imitbench.algorithms.off_policy.recording import Fill, Recorded, Tape

T = TypeVar("T")


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
            "numpy": [each.bit_generator.state for each in self.numpy],
            "torch": [each.get_state() for each in self.torch],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        for rng, own in zip(self.numpy, state["numpy"], strict=True):
            rng.bit_generator.state = own
        for generator, own in zip(self.torch, state["torch"], strict=True):
            generator.set_state(own)
