"""Batches of transitions for tests of reward networks."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces

VECTOR = spaces.Box(-1.0, 1.0, (3,), np.float32)
CHOICE = spaces.Discrete(4)


@pytest.fixture(autouse=True)
def _same_weights_every_time():
    th.manual_seed(0)


@pytest.fixture
def vector_space():
    return VECTOR


@pytest.fixture
def choice_space():
    return CHOICE


@pytest.fixture
def batch():
    """Nine transitions of a vector space with four actions; two of them end an episode."""
    rng = np.random.default_rng(0)
    state, next_state = rng.normal(size=(2, 9, 3)).astype(np.float32)
    done = np.zeros(9, dtype=bool)
    done[[2, 8]] = True
    return state, rng.integers(4, size=9), next_state, done


@pytest.fixture
def image_batch():
    """Six transitions with images of 4x5 pixels and 3 channels, and three actions."""
    rng = np.random.default_rng(0)
    state, next_state = rng.integers(256, size=(2, 6, 4, 5, 3)).astype(np.uint8)
    return state, np.array([0, 1, 2, 0, 1, 2]), next_state, np.array([0, 0, 0, 1, 1, 1], bool)
