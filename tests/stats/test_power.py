from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imitbench.stats.power import seeds_to_decide
from imitbench.stats.significance import welch


def with_moments(size: int, mean: float, deviation: float) -> np.ndarray:
    """Scores whose sample mean and sample standard deviation are exactly these."""
    line = np.linspace(-1, 1, size)
    return mean + deviation * line / line.std(ddof=1)


@pytest.mark.parametrize(
    ("effect", "runs", "each"),
    # Runs per group for 80 % power at the two-sided level of 5 %: the tables of Cohen 1988.
    [(0.5, 10, 64), (0.8, 5, 26), (1.0, 4, 17), (0.2, 10, 394)],
)
def test_seeds_needed_are_those_of_published_tables(effect: float, runs: int, each: int) -> None:
    first = {"a": with_moments(runs, effect, 1.0)}
    second = {"a": with_moments(runs, 0.0, 1.0)}
    found = seeds_to_decide(first, second)
    assert found.outlook == "estimated"
    assert found.more == each - runs
    assert found.effect == pytest.approx(effect)
    assert found.power is not None
    assert 0.8 <= found.power < 0.82


def test_the_estimated_seeds_decide_about_as_often_as_estimated() -> None:
    first = {"a": with_moments(4, 0.5, 0.6), "b": with_moments(4, 0.2, 0.3)}
    second = {"a": with_moments(3, 0.1, 0.3), "b": with_moments(3, 0.1, 0.2)}
    estimate = seeds_to_decide(first, second)
    assert estimate.more is not None
    assert estimate.power is not None
    assert estimate.more > 0
    generator, experiments, decided = np.random.default_rng(0), 1000, 0
    for _ in range(experiments):
        again = [
            {
                env: generator.normal(runs.mean(), runs.std(ddof=1), runs.size + estimate.more)
                for env, runs in cells.items()
            }
            for cells in (first, second)
        ]
        decided += welch(*again).p_value <= 0.05
    assert decided / experiments == pytest.approx(estimate.power, abs=0.04)


def test_seeds_of_both_count_where_one_has_more() -> None:
    few, many = with_moments(5, 0.5, 1.0), with_moments(40, 0.0, 1.0)
    lopsided = seeds_to_decide({"a": few}, {"a": many}).more
    even = seeds_to_decide({"a": few}, {"a": with_moments(5, 0.0, 1.0)}).more
    assert lopsided is not None
    assert even is not None
    assert 0 < lopsided < even


def test_a_decided_comparison_needs_no_more_seeds() -> None:
    found = seeds_to_decide({"a": [1.0, 1.1, 0.9]}, {"a": [0.0, 0.1, -0.1]})
    assert (found.more, found.outlook, found.power) == (0, "decided", None)


def test_the_direction_is_that_of_the_effect() -> None:
    high, low = {"a": [0.5, 0.9, 0.8]}, {"a": [0.6, 0.2, 0.5]}
    one, other = seeds_to_decide(high, low), seeds_to_decide(low, high)
    assert one.effect == -other.effect > 0
    assert one.more == other.more


def test_without_an_effect_or_a_spread_it_gives_no_number() -> None:
    equal = seeds_to_decide({"a": [0.0, 1.0]}, {"a": [0.25, 0.75]})
    assert (equal.more, equal.outlook) == (None, "no effect")
    single = seeds_to_decide({"a": [0.5]}, {"a": [0.1, 0.2]})
    assert (single.more, single.outlook) == (None, "unknown spread")
    assert math.isnan(single.standard_error)
    still = seeds_to_decide({"a": [0.5, 0.5]}, {"a": [0.2, 0.2]})
    assert (still.more, still.outlook) == (None, "unknown spread")


def test_a_tiny_effect_needs_too_many() -> None:
    first, second = {"a": with_moments(5, 0.01, 1.0)}, {"a": with_moments(5, 0.0, 1.0)}
    found = seeds_to_decide(first, second)
    assert (found.more, found.outlook, found.most) == (None, "too many", 1000)


@settings(max_examples=40, deadline=None)
@given(
    effect=st.floats(0.2, 2),
    deviation=st.floats(0.2, 2),
    scale=st.floats(0.1, 10),
    shift=st.floats(-5, 5),
)
def test_shift_and_scale_change_nothing_but_the_effect(
    effect: float, deviation: float, scale: float, shift: float
) -> None:
    first, second = with_moments(4, effect, deviation), with_moments(6, 0.0, 1.0)
    plain = seeds_to_decide({"a": first}, {"a": second})
    moved = seeds_to_decide({"a": first * scale + shift}, {"a": second[::-1] * scale + shift})
    assert (moved.more, moved.outlook) == (plain.more, plain.outlook)
    assert moved.effect == pytest.approx(plain.effect * scale)


@pytest.mark.parametrize("significance", [0.0, 1.5])
def test_impossible_levels_are_refused(significance: float) -> None:
    with pytest.raises(ValueError, match="significance"):
        seeds_to_decide({"a": [1.0, 2.0]}, {"a": [1.0, 3.0]}, significance=significance)
