"""Similarity of visited states."""

import numpy as np
import pytest

from imitbench.tune.state_match import state_match


def states(seed, shift=0.0, scale=1.0, entries=4):
    return np.random.default_rng(seed).normal(shift, scale, (20_000, entries))


def test_equal_states_match_in_any_units():
    assert state_match(states(0), states(1)) > 0.97
    units = np.array([1e-3, 1.0, 1e4, 7.0])
    other = states(1, 0.3)
    assert state_match(states(0) * units + 5, other * units + 5) == pytest.approx(
        state_match(states(0), other)
    )


@pytest.mark.parametrize(
    ("shift", "scale", "squared"),
    [(0.5, 1.0, 0.25), (0.0, 2.0, 1.0), (1.0, 0.5, 1.25), (99.0, 1.0, 99.0**2)],
)
def test_the_match_decreases_with_the_distance_of_gaussians(shift, scale, squared):
    found = state_match(states(0), states(1, shift, scale))
    assert found == pytest.approx(1 / (1 + np.sqrt(squared)), abs=0.02)


def test_correlations_count():
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(2, 20_000))
    together = np.stack([one, one], axis=1)
    apart = np.stack([one, other], axis=1)
    # tr(1 + 1 - 2 sqrt(s1 s2)) with eigenvalues 2 and 0 against 1 and 1: 4 - 2 sqrt(2)
    expected = 1 / (1 + np.sqrt((4 - 2 * np.sqrt(2)) / 2))
    assert state_match(together, apart) == pytest.approx(expected, abs=0.02)


def test_a_constant_entry_is_not_a_division_by_zero():
    constant = np.concatenate([states(0), np.ones((20_000, 1))], axis=1)
    assert state_match(constant, constant) == pytest.approx(1.0)
