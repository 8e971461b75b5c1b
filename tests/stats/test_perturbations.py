"""Differences of differences between algorithms under perturbations and without."""

import numpy as np
import pytest

from imitbench.stats.perturbations import perturbation_effects


def cells(rng, plain, perturbed, runs=10, spread=0.05):
    return {
        "env": rng.normal(plain, spread, runs),
        "env+noise": rng.normal(perturbed, spread, runs),
    }


CONTROLS = {"env+noise": "env"}


def test_the_difference_is_of_both_changes():
    rng = np.random.default_rng(0)
    one, other = cells(rng, 0.9, 0.6), cells(rng, 0.5, 0.4)
    [found] = perturbation_effects(one, other, CONTROLS)
    ours = one["env+noise"].mean() - one["env"].mean()
    theirs = other["env+noise"].mean() - other["env"].mean()
    assert found.changes == pytest.approx((ours, theirs))
    assert found.difference == pytest.approx(ours - theirs)
    assert (found.low + found.high) / 2 == pytest.approx(found.difference)
    assert found.low < -0.2 < found.high < 0  # it costs the first 0.2 more
    assert found.p_value < 0.001


def test_an_algorithm_that_is_worse_everywhere_is_not_less_robust():
    rng = np.random.default_rng(1)
    [found] = perturbation_effects(cells(rng, 0.9, 0.7), cells(rng, 0.5, 0.3), CONTROLS)
    assert found.p_value > 0.05
    assert found.low < 0 < found.high


def test_both_orders_say_the_same():
    rng = np.random.default_rng(2)
    one, other = cells(rng, 0.9, 0.7), cells(rng, 0.6, 0.5, runs=7)
    [forth], [back] = (
        perturbation_effects(*sides, CONTROLS) for sides in ((one, other), (other, one))
    )
    assert forth.difference == pytest.approx(-back.difference)
    assert (forth.low, forth.high) == pytest.approx((-back.high, -back.low))


def test_the_interval_covers_the_true_difference():
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(300):
        one, other = cells(rng, 0.9, 0.7, runs=5), cells(rng, 0.6, 0.5, runs=8)
        [found] = perturbation_effects(one, other, CONTROLS, replicates=100)
        covered += found.low <= -0.1 <= found.high
    assert 0.95 - 3 * np.sqrt(0.95 * 0.05 / 300) <= covered / 300 <= 1


def test_several_perturbations_are_corrected_and_incomplete_ones_left_out():
    rng = np.random.default_rng(4)
    one, other = cells(rng, 0.9, 0.8), cells(rng, 0.9, 0.7)
    for side in (one, other):
        side["env+delay"] = rng.normal(0.5, 0.05, 10)
    one["env+sticky"] = rng.normal(0.5, 0.05, 10)
    controls = dict.fromkeys(("env+noise", "env+delay", "env+sticky"), "env")
    found = perturbation_effects(one, other, controls)
    assert [effect.perturbed for effect in found] == ["env+noise", "env+delay"]
    least = min(found, key=lambda effect: effect.p_value)
    assert least.adjusted == pytest.approx(min(1, 2 * least.p_value))


def test_a_single_run_has_no_interval_and_decides_nothing():
    one = {"env": np.array([0.9]), "env+noise": np.array([0.1])}
    other = {"env": np.array([0.9]), "env+noise": np.array([0.8])}
    [found] = perturbation_effects(one, other, CONTROLS)
    assert np.isnan(found.low)
    assert found.p_value == 1
