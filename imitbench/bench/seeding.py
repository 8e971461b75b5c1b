"""Independent random streams derived from the single seed in a run's record."""

from __future__ import annotations

import random
import zlib

import numpy as np


def derive_seed(seed: int, purpose: str) -> int:
    """Derives a seed for one purpose, statistically independent of those for other purposes.

    Args:
        seed: Seed in the run's record, non-negative.
        purpose: What the stream is for, for example `training` or `evaluation`.

    Returns:
        An integer in [0, 2**32).
    """
    sequence = np.random.SeedSequence([seed, zlib.crc32(purpose.encode())])
    return int(sequence.generate_state(1)[0])


def seed_everything(seed: int) -> None:
    """Seeds the global generators that third-party code draws from."""
    import torch as th

    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 (Stable-Baselines3 draws from the global generator)
    th.manual_seed(seed)
