"""A digest of a fragment that depends only on its content."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

from imitbench.data.types import DictObs, TrajectoryWithRew

_NUMBERS = "biuf"


def arrays_of(fragment: TrajectoryWithRew) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a fragment, without infos.

    Returns:
        `acts`, `rews`, and `obs`; for dictionary observations `obs/<key>` of each key, sorted.
    """
    arrays = {"acts": fragment.acts, "rews": fragment.rews}
    if isinstance(fragment.obs, DictObs):
        return arrays | {f"obs/{key}": fragment.obs.get(key) for key in sorted(fragment.obs.keys())}
    return arrays | {"obs": fragment.obs}


def fragment_digest(fragment: TrajectoryWithRew) -> bytes:
    """Hashes observations, actions, rewards and the terminal flag, but not the infos.

    Returns:
        SHA-256, 32 bytes. Two fragments have the same digest if and only if their arrays agree in
        data type, shape and every bit.

    Raises:
        ValueError: An array is not numeric.
    """
    total = hashlib.sha256(b"terminal" if fragment.terminal else b"running")
    for name, array in arrays_of(fragment).items():
        if array.dtype.kind not in _NUMBERS:
            raise ValueError(f"{name} of a fragment has data type {array.dtype}, not numbers")
        total.update(f"\n{name!r} {array.dtype.str} {array.shape}\n".encode())
        total.update(np.ascontiguousarray(array).data.cast("B") if array.size else b"")
    return total.digest()


def pair_digest(first: TrajectoryWithRew, second: TrajectoryWithRew) -> str:
    """Digest of an ordered pair: SHA-256 of both digests, as 64 hexadecimal digits.

    Raises:
        ValueError: An array is not numeric.
    """
    return hashlib.sha256(fragment_digest(first) + fragment_digest(second)).hexdigest()
