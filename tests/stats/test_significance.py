from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from imitbench.stats import significance
from imitbench.stats.significance import (
    holm,
    mann_whitney,
    permutation,
    welch,
    welch_margins,
    wilcoxon,
    wilcoxon_environments,
)
from imitbench.stats.strata import FloatArray

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


def by_hand(first: dict[str, list[float]], second: dict[str, list[float]]) -> float:
    """A direct permutation test: all labelings in a loop."""

    def differences(env: str) -> list[float]:
        x, y = first[env], second[env]
        pooled = x + y
        found = []
        for chosen in itertools.combinations(range(len(pooled)), len(x)):
            ours = [pooled[i] for i in chosen]
            theirs = [pooled[i] for i in range(len(pooled)) if i not in chosen]
            found.append(sum(ours) / len(ours) - sum(theirs) / len(theirs))
        return found

    observed = sum(np.mean(first[env]) - np.mean(second[env]) for env in first)
    totals = [sum(parts) for parts in itertools.product(*(differences(env) for env in first))]
    return float(np.mean([abs(total) >= abs(observed) - 1e-9 for total in totals]))


@settings(max_examples=40, deadline=None)
@given(first=CELLS, second=CELLS)
def test_few_runs_are_permuted_in_all_ways(
    first: dict[str, list[float]], second: dict[str, list[float]]
) -> None:
    found = permutation(first, second, rng=rng())
    assert found.exact
    assert found.p_value == pytest.approx(by_hand(first, second))


def test_the_permutation_test_of_one_environment_is_that_of_scipy() -> None:
    def difference(x: FloatArray, y: FloatArray, axis: int) -> FloatArray:
        return np.asarray(x.mean(axis=axis) - y.mean(axis=axis))

    x = X[: Y.size]  # between unequal numbers scipy doubles the smaller side instead
    theirs = scipy.stats.permutation_test((x, Y), difference, n_resamples=np.inf, vectorized=True)
    found = permutation({"a": x}, {"a": Y}, rng=rng())
    assert found.p_value == pytest.approx(theirs.pvalue)
    assert found.statistic == pytest.approx(theirs.statistic)


def test_drawn_permutations_come_near_to_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = {"a": X[:4], "b": Y[:3] + 1}, {"a": Y[:3], "b": X[:3]}
    exact = permutation(first, second, rng=rng())
    monkeypatch.setattr(significance, "EXACT_SPLITS", 10)
    drawn = permutation(first, second, replicates=20_000, rng=rng())
    assert not drawn.exact
    assert drawn.p_value == pytest.approx(exact.p_value, abs=0.015)
    certain = permutation({"a": [9.0] * 8}, {"a": [0.0] * 8}, replicates=999, rng=rng())
    assert certain.p_value == pytest.approx(1 / 1000)


def test_permutations_that_are_drawn_come_from_the_generator() -> None:
    first, second = {"a": rng(1).normal(size=30)}, {"a": rng(2).normal(size=30)}
    p = [permutation(first, second, replicates=500, rng=rng(seed)).p_value for seed in (0, 0, 1)]
    assert p[0] == p[1]
    assert p[0] != p[2]


def test_three_runs_against_three_cannot_give_a_small_p() -> None:
    assert permutation({"a": [7.0, 8.0, 9.0]}, {"a": [0.0, 1.0, 2.0]}, rng=rng()).p_value == 0.1
    assert mann_whitney([7.0, 8.0, 9.0], [0.0, 1.0, 2.0]).p_value == pytest.approx(0.1)


def test_p_values_of_equal_algorithms_are_spread_evenly() -> None:
    generator = rng(3)
    p = []
    for _ in range(1000):
        first, second = generator.exponential(size=(2, 5, 2))
        p.append(permutation(first, second, rng=generator).p_value)
    for level in (0.05, 0.2, 0.5):
        assert np.mean(np.array(p) <= level) == pytest.approx(level, abs=0.05)


@settings(max_examples=40, deadline=None)
@given(first=RUNS, second=RUNS)
def test_rank_sums_with_ties_are_those_of_all_labels(
    first: list[float], second: list[float]
) -> None:
    def wins(x: list[float], y: list[float]) -> float:
        return sum((a > b) + (a == b) / 2 for a in x for b in y)

    pooled, half = first + second, len(first) * len(second) / 2
    all_wins = []
    for chosen in itertools.combinations(range(len(pooled)), len(first)):
        rest = [pooled[i] for i in range(len(pooled)) if i not in chosen]
        all_wins.append(wins([pooled[i] for i in chosen], rest))
    observed = wins(first, second)
    found = mann_whitney(first, second)
    assert found.statistic == observed
    expected = np.mean(np.abs(np.array(all_wins) - half) >= abs(observed - half))
    assert found.p_value == pytest.approx(expected)
    assert mann_whitney(second, first).p_value == pytest.approx(found.p_value)


def test_mann_whitney_is_that_of_scipy() -> None:
    theirs = scipy.stats.mannwhitneyu(X, Y, method="exact")
    found = mann_whitney(X, Y)
    assert (found.statistic, found.p_value) == (theirs.statistic, pytest.approx(theirs.pvalue))
    many = [rng(i).normal(i / 9, size=60).round(1) for i in (3, 4)]
    theirs = scipy.stats.mannwhitneyu(*many, method="asymptotic")
    found = mann_whitney(*many)
    assert not found.exact
    assert (found.statistic, found.p_value) == (theirs.statistic, pytest.approx(theirs.pvalue))


@settings(max_examples=40, deadline=None)
@given(differences=st.lists(SCORES, min_size=1, max_size=7))
def test_signed_ranks_with_ties_are_those_of_all_signs(differences: list[float]) -> None:
    found = wilcoxon(differences, np.zeros(len(differences)))
    kept = np.array([x for x in differences if x])
    assert (found.used, found.left_out) == (kept.size, len(differences) - kept.size)
    if not kept.size:
        assert math.isnan(found.p_value)
        return
    ranks = scipy.stats.rankdata(np.abs(kept))
    totals = [
        sum(rank for rank, sign in zip(ranks, signs, strict=True) if sign)
        for signs in itertools.product([0, 1], repeat=kept.size)
    ]
    middle, observed = ranks.sum() / 2, ranks[kept > 0].sum()
    assert found.statistic == observed
    expected = np.mean(np.abs(np.array(totals) - middle) >= abs(observed - middle) - 1e-9)
    assert found.p_value == pytest.approx(expected)


def test_wilcoxon_is_that_of_scipy() -> None:
    x, y = rng(5).normal(size=(2, 12))
    theirs = scipy.stats.wilcoxon(x, y, method="exact")
    assert wilcoxon(x, y).p_value == pytest.approx(theirs.pvalue)
    x, y = rng(5).normal(size=(2, 90))
    theirs = scipy.stats.wilcoxon(x, y, method="approx", correction=True)
    found = wilcoxon(x, y)
    assert not found.exact
    assert found.p_value == pytest.approx(theirs.pvalue)


def test_equal_differences_tie_however_they_were_rounded() -> None:
    # 0.3 - 0.2 and 0.2 - 0.1 differ in the last bit.
    assert 0.3 - 0.2 != 0.2 - 0.1
    found = wilcoxon([0.3, 0.1], [0.2, 0.2])
    assert found.statistic == 1.5


def test_five_environments_cannot_give_p_below_a_twentieth_and_six_can() -> None:
    def all_better(environments: int) -> float:
        first = {f"env{i}": [0.5 + 0.05 * i, 0.6 + 0.05 * i] for i in range(environments)}
        second = {f"env{i}": [0.1 + 0.01 * i] for i in range(environments)}
        return wilcoxon_environments(first, second).p_value

    assert all_better(5) == pytest.approx(2 / 32)
    assert all_better(6) == pytest.approx(2 / 64)


@settings(max_examples=30, deadline=None)
@given(first=CELLS, second=CELLS, shift=st.integers(-5, 5), scale=st.integers(1, 5))
def test_shift_scale_and_order_change_no_p_value(
    first: dict[str, list[float]], second: dict[str, list[float]], shift: int, scale: int
) -> None:
    def moved(cells: dict[str, list[float]]) -> dict[str, list[float]]:
        return {
            env: [x * scale + shift for x in runs[::-1]] for env, runs in reversed(cells.items())
        }

    tests = (
        lambda x, y: welch(x, y).p_value,
        lambda x, y: permutation(x, y, rng=rng()).p_value,
        lambda x, y: mann_whitney(x["a"], y["a"]).p_value,
        lambda x, y: wilcoxon_environments(x, y).p_value,
    )
    for test in tests:
        before, after = test(first, second), test(moved(first), moved(second))
        assert after == pytest.approx(before, abs=1e-9, nan_ok=True)
        back = test(second, first)
        assert back == pytest.approx(before, abs=1e-9, nan_ok=True)


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
    with pytest.raises(ValueError, match="replicates"):
        permutation({"a": [1.0]}, {"a": [1.0]}, replicates=0, rng=rng())
    with pytest.raises(ValueError, match="second: has 1 numbers to pair with 2"):
        wilcoxon([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="first: needs finite numbers"):
        mann_whitney([], [1.0])
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
