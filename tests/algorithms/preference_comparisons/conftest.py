"""Comparisons to train on."""

import numpy as np
import pytest
from support.preference_pairs import pairs_of

from imitbench.algorithms.preference_comparisons.dataset import PreferenceDataset


@pytest.fixture
def dataset():
    """Twenty comparisons of random fragments of four steps."""
    rng = np.random.default_rng(0)
    filled = PreferenceDataset()
    filled.push(pairs_of(rng, [4] * 20), rng.integers(2, size=20).astype(np.float32))
    return filled
