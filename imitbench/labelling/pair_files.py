"""Reads pairs of fragments that a file already has, to ask people about them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from imitbench.algorithms.preference_comparisons.dataset import PreferenceDataset
from imitbench.data.preference_table import read_preferences
from imitbench.data.types import Trajectory, TrajectoryWithRew
from imitbench.errors import InputError
from imitbench.labelling.exchange import DATA_FILE
from imitbench.labelling.label_set import MOST_PAIRS
from imitbench.untrusted import gate

RecordedPair = tuple[TrajectoryWithRew, TrajectoryWithRew]


def read_pairs(place: Path) -> list[RecordedPair]:
    """Reads pairs; preferences that stand beside them are left out.

    Args:
        place: Preferences in Parquet, or a folder of `imitbench label export`; or a
            `PreferenceDataset` in safetensors.

    Returns:
        Both fragments of each pair; rewards are NaN where none were recorded.

    Raises:
        InputError: It is none of these, is damaged, or has no pair or too many.
    """
    file = place / DATA_FILE if place.is_dir() else place
    pairs = gate.checked(lambda: _read(file), file)
    if not 1 <= len(pairs) <= MOST_PAIRS // 2:
        raise InputError(f"{place}: has {len(pairs)} pairs; a set has 1 to {MOST_PAIRS // 2}")
    return pairs


def _read(file: Path) -> list[RecordedPair]:
    if not file.is_file():
        raise InputError(
            f"{file}: no such file; name preferences in Parquet, as imitbench label export writes "
            "them, or a PreferenceDataset in safetensors"
        )
    if file.suffix == ".safetensors":
        dataset = PreferenceDataset.load(file)
        return list(zip(dataset.fragments1, dataset.fragments2, strict=True))
    return [(_rewarded(row.first), _rewarded(row.second)) for row in read_preferences(file)]


def _rewarded(fragment: Trajectory) -> TrajectoryWithRew:
    if isinstance(fragment, TrajectoryWithRew):
        return fragment
    unknown = np.full(len(fragment), np.nan)
    return TrajectoryWithRew(fragment.obs, fragment.acts, None, bool(fragment.terminal), unknown)
