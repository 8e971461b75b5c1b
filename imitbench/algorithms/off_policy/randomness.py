"""Random numbers of each seed, so that a seed draws the same alone and beside others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch as th


class SeedStreams:
    """Independent generators of NumPy and torch for each seed.

    Args:
        seeds: The seeds, at least one.
        device: Where the drawn tensors go; all are drawn on the CPU.

    Attributes:
        numpy: One generator per seed.
        torch: One generator per seed.
    """

    def __init__(self, seeds: Sequence[int], device: str | th.device = "cpu") -> None:
        self.seeds = tuple(seeds)
        self.device = th.device(device)
        self.numpy = [np.random.default_rng(seed) for seed in self.seeds]
        self.torch = [th.Generator().manual_seed(int(rng.integers(2**62))) for rng in self.numpy]

    def __len__(self) -> int:
        return len(self.seeds)

    def normal(self, *shape: int) -> th.Tensor:
        """Standard normal numbers, shape (seeds, *shape), float32."""
        return self._stacked([th.randn(shape, generator=each) for each in self.torch])

    def uniform(self, *shape: int) -> th.Tensor:
        """Uniform numbers in [0, 1), shape (seeds, *shape), float32."""
        return self._stacked([th.rand(shape, generator=each) for each in self.torch])

    def indices(self, sizes: Sequence[int], count: int) -> npt.NDArray[np.int64]:
        """Indices drawn with replacement.

        Args:
            sizes: Exclusive upper bound of each seed.
            count: Number of indices of each seed.

        Returns:
            Shape (seeds, count).
        """
        return np.stack(
            [rng.integers(0, size, count) for rng, size in zip(self.numpy, sizes, strict=True)]
        )

    def _stacked(self, parts: Sequence[th.Tensor]) -> th.Tensor:
        whole = parts[0].unsqueeze(0) if len(parts) == 1 else th.stack(list(parts))
        return whole.to(self.device)

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
