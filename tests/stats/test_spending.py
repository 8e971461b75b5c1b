"""How a level is spent on repeated looks."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from imitbench.stats.spending import _Path, nominal_levels

EQUAL = {looks: tuple((np.arange(looks) + 1) / looks) for looks in (1, 2, 4, 5, 10)}


def crossing_probability(fractions, bounds):
    """The chance that |z| reaches its bound at any look (Armitage, McPherson and Rowe 1969)."""
    path, total = _Path(), 0.0
    for fraction, bound in zip(fractions, bounds, strict=True):
        total += path.exceeding(fraction, bound)
        path.advance(fraction, bound)
    return total


@pytest.mark.parametrize(
    ("looks", "constant"),
    # Jennison and Turnbull 2000, table 2.1: Pocock's constants for a level of 5 %.
    [(1, 1.960), (2, 2.178), (4, 2.361), (5, 2.413), (10, 2.555)],
)
def test_the_constants_of_pocock(looks, constant):
    found = crossing_probability(EQUAL[looks], (constant,) * looks)
    assert found == pytest.approx(0.05, abs=1e-4)


@pytest.mark.parametrize(
    ("looks", "constant"),
    # The same, table 2.3: O'Brien and Fleming's; the bound of look k is C sqrt(K / k).
    [(2, 1.977), (4, 2.024), (5, 2.040), (10, 2.087)],
)
def test_the_constants_of_obrien_and_fleming(looks, constant):
    bounds = tuple(constant / math.sqrt(fraction) for fraction in EQUAL[looks])
    assert crossing_probability(EQUAL[looks], bounds) == pytest.approx(0.05, abs=1e-4)


def test_repeated_tests_at_five_percent_reject_too_often():
    """Armitage, McPherson and Rowe 1969: 14.2 % after five looks, 19.3 % after ten."""
    assert crossing_probability(EQUAL[5], (1.96,) * 5) == pytest.approx(0.142, abs=5e-4)
    assert crossing_probability(EQUAL[10], (1.96,) * 10) == pytest.approx(0.193, abs=5e-4)


@pytest.mark.parametrize("exponent", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("fractions", [EQUAL[5], (0.1, 0.15, 0.6, 1.0)])
def test_what_is_spent_is_what_is_rejected(fractions, exponent):
    levels = nominal_levels(fractions, 0.05, exponent)
    bounds = tuple(norm.isf(level / 2) for level in levels)
    for looks in range(1, len(fractions) + 1):
        found = crossing_probability(fractions[:looks], bounds[:looks])
        assert found == pytest.approx(0.05 * fractions[looks - 1] ** exponent, abs=1e-8)


def test_levels_hold_for_random_walks():
    levels = nominal_levels(EQUAL[4], 0.1)
    steps = np.random.default_rng(0).normal(size=(200_000, 4))
    z = steps.cumsum(axis=1) / np.sqrt(np.arange(4) + 1)
    crossed = (2 * norm.sf(np.abs(z)) <= levels).any(axis=1)
    assert crossed.mean() == pytest.approx(0.1, abs=0.003)


def test_one_look_spends_everything():
    assert nominal_levels((1.0,), 0.03) == (pytest.approx(0.03),)


def test_levels_grow_with_alpha_at_each_look():
    rows = np.array([nominal_levels(EQUAL[10], alpha) for alpha in (0.0005, 0.005, 0.02, 0.05)])
    assert (np.diff(rows, axis=0) > 0).all()


@pytest.mark.parametrize("fractions", [(), (0.5, 0.5), (0.0, 1.0), (0.5, 1.1)])
def test_fractions_ascend_to_one(fractions):
    with pytest.raises(ValueError, match="fractions must ascend"):
        nominal_levels(fractions, 0.05)


@pytest.mark.parametrize(("alpha", "exponent"), [(0.0, 1.0), (1.0, 1.0), (0.05, 0.0)])
def test_arguments_out_of_range_are_refused(alpha, exponent):
    with pytest.raises(ValueError, match="alpha must be inside"):
        nominal_levels((1.0,), alpha, exponent)
