from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from imitbench.stats.significance import holm, mean_interval, welch, welch_margins

SCORES = st.integers(-4, 4).map(float)
RUNS = st.lists(SCORES, min_size=1, max_size=4)
CELLS = st.fixed_dictionaries({"a": RUNS, "b": RUNS})


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


X, Y = rng(1).normal(0.8, 1.0, size=7), rng(2).normal(0.0, 2.0, size=5)


def test_welch_on_one_environment_is_that_of_scipy() -> None:
    found = welch({"a": X}, {"a": Y}, level=0.9)
    theirs = scipy.stats.ttest_ind(X, Y, equal_var=False)
    ends = theirs.confidence_interval(0.9)
    assert found.p_value == pytest.approx(theirs.pvalue)
    assert found.degrees == pytest.approx(theirs.df)
    assert found.difference / found.standard_error == pytest.approx(theirs.statistic)
    assert (found.low, found.high) == (pytest.approx(ends.low), pytest.approx(ends.high))


def test_welch_over_environments_averages_differences_and_adds_their_variances() -> None:
    # Differences 2 and 1; variances of means 1/2, 0, 2 and 0.
    first = {"a": [2.0, 3.0, 4.0, 1.0, 5.0], "b": [1.0, 1.0, 1.0]}
    second = {"a": [-1.0, 3.0], "b": [0.0, 0.0]}
    found = welch(first, second)
    assert found.difference == pytest.approx(1.5)
    assert found.standard_error == pytest.approx(math.sqrt((2.5 / 5 + 8 / 2) / 4))
    assert found.degrees == pytest.approx(4.5**2 / (0.5**2 / 4 + 4.0**2 / 1))
    t = found.difference / found.standard_error
    assert found.p_value == pytest.approx(2 * scipy.stats.t.sf(t, found.degrees))


def test_welch_reports_unknown_spread() -> None:
    single = welch({"a": [1.0, 2.0], "b": [1.0]}, {"a": [0.0, 1.0], "b": [0.0, 1.0]})
    assert single.difference == 0.75
    assert math.isnan(single.p_value)
    assert math.isnan(single.low)
    apart = welch({"a": [0.3, 0.3, 0.3]}, {"a": [0.1, 0.1]})
    assert math.isnan(apart.p_value)
    assert apart.low == apart.high == apart.difference
    equal = welch({"a": [0.3, 0.3]}, {"a": [0.3, 0.3]})
    assert equal.p_value == 1.0


@settings(max_examples=30, deadline=None)
@given(first=CELLS, second=CELLS, shift=st.integers(-5, 5), scale=st.integers(1, 5))
def test_shift_scale_and_order_change_no_p_value(
    first: dict[str, list[float]], second: dict[str, list[float]], shift: int, scale: int
) -> None:
    def moved(cells: dict[str, list[float]]) -> dict[str, list[float]]:
        return {
            env: [x * scale + shift for x in runs[::-1]] for env, runs in reversed(cells.items())
        }

    before = welch(first, second).p_value
    after = welch(moved(first), moved(second)).p_value
    assert after == pytest.approx(before, abs=1e-9, nan_ok=True)
    assert welch(second, first).p_value == pytest.approx(before, abs=1e-9, nan_ok=True)


def test_holm_multiplies_the_smallest_by_all_and_never_falls() -> None:
    adjusted = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005, "e": math.nan})
    assert list(adjusted) == ["a", "b", "c", "d", "e"]
    assert adjusted["d"] == pytest.approx(0.02)
    assert adjusted["a"] == pytest.approx(0.03)
    assert adjusted["c"] == pytest.approx(0.06)
    assert adjusted["b"] == pytest.approx(0.06)
    assert math.isnan(adjusted["e"])
    assert holm({"a": 0.9, "b": 0.8}) == {"a": 1.0, "b": 1.0}
    assert holm({}) == {}


def test_holm_keeps_the_chance_of_any_false_alarm_at_the_level() -> None:
    alarms = [
        min(holm({str(i): p for i, p in enumerate(row)}).values()) <= 0.05
        for row in rng(9).uniform(size=(4000, 5))
    ]
    assert np.mean(alarms) == pytest.approx(0.05, abs=0.012)


def test_impossible_questions_are_refused() -> None:
    with pytest.raises(ValueError, match="only one has a, b"):
        welch({"a": [1.0]}, {"b": [1.0]})
    with pytest.raises(ValueError, match="level"):
        welch({"a": [1.0]}, {"a": [1.0]}, level=1.0)
    with pytest.raises(ValueError, match=r"p_values: a has 1\.5"):
        holm({"a": 1.5})


def test_margins_of_many_differences_are_those_of_single_tests() -> None:
    rng = np.random.default_rng(3)
    samples = [rng.normal(scale=1 + n, size=2 + n) for n in range(6)]
    pairs = [(first, second) for first in samples for second in samples]
    spread = np.array([[a.var(ddof=1), b.var(ddof=1)] for a, b in pairs])
    sizes = np.array([[a.size, b.size] for a, b in pairs])
    due = [(found.high - found.low) / 2 for found in (welch({"e": a}, {"e": b}) for a, b in pairs)]
    np.testing.assert_allclose(welch_margins(spread, sizes), due)
    edges = welch_margins(np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([[3, 1], [3, 3]]))
    np.testing.assert_array_equal(edges, [np.nan, 0.0])


def test_the_interval_of_a_mean_is_that_of_student():
    values = [0.2, 0.5, 0.9, 0.4]
    found = mean_interval(values, level=0.9)
    known = scipy.stats.ttest_1samp(values, 0.0).confidence_interval(0.9)
    assert (found.point, found.low, found.high) == pytest.approx((0.5, known.low, known.high))


def test_a_single_value_has_no_interval_and_equal_values_a_point():
    assert not mean_interval([0.3]).known
    equal = mean_interval([0.3, 0.3, 0.3])
    assert (equal.low, equal.high) == pytest.approx((0.3, 0.3))
    with pytest.raises(ValueError, match=r"shape \(0,\)"):
        mean_interval([])
