from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from imitbench.stats.aggregates import Statistic, interquartile_mean, mean, median, optimality_gap
from imitbench.stats.bootstrap import stratified_bootstrap, stratified_bootstraps
from imitbench.stats.intervals import Interval, influences, interval
from imitbench.stats.strata import FloatArray, Strata

STATISTICS: dict[str, Statistic] = {"mean": mean, "median": median, "iqm": interquartile_mean}
SCORES = st.floats(-10, 10).map(lambda x: round(x, 3))
RAGGED = st.dictionaries(
    st.sampled_from("abcd"), st.lists(SCORES, min_size=2, max_size=5), min_size=1
)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def scipys(
    data: tuple[FloatArray, ...], statistic: Callable[..., FloatArray], replicates: int
) -> tuple[float, float]:
    found = scipy.stats.bootstrap(
        data, statistic, n_resamples=replicates, method="BCa", rng=rng(1), vectorized=True
    )
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def test_bca_of_one_environment_is_that_of_scipy() -> None:
    skewed = rng(5).exponential(size=12) ** 2
    ours = stratified_bootstrap({"a": skewed}, mean, method="bca", rng=rng())
    low, high = scipys((skewed,), np.mean, 50_000)
    # Ends in the tails have a Monte Carlo error of some hundredths of the interval.
    slack = 0.02 * (high - low)
    assert (ours.low, ours.high) == (pytest.approx(low, abs=slack), pytest.approx(high, abs=slack))
    plain = stratified_bootstrap({"a": skewed}, mean, rng=rng())
    assert ours.high - plain.high > 2 * slack  # the agreement with scipy includes the correction
    assert (ours.method, plain.method) == ("bca", "percentile")


def test_bca_of_ragged_environments_is_that_of_scipy_for_several_samples() -> None:
    x, y = rng(5).exponential(size=8), rng(6).exponential(3.0, size=14)

    def over_both(x: FloatArray, y: FloatArray, axis: int = -1) -> FloatArray:
        return np.asarray((x.mean(axis=axis) + y.mean(axis=axis)) / 2)

    ours = stratified_bootstrap({"a": x, "b": y}, mean, method="bca", rng=rng())
    low, high = scipys((x, y), over_both, 50_000)
    slack = 0.03 * (high - low)
    assert (ours.low, ours.high) == (pytest.approx(low, abs=slack), pytest.approx(high, abs=slack))


def test_influences_on_a_mean_are_deviations_from_it() -> None:
    scores = {"a": [0.0, 1.0, 5.0], "b": [4.0], "c": [2.0, 3.0]}
    first, second = influences(Strata.of(scores), mean)
    np.testing.assert_allclose(first, np.array([-2.0, -1.0, 3.0]) / 3)
    np.testing.assert_allclose(second, np.array([-0.5, 0.5]) / 3)


@pytest.mark.parametrize("score", [0.17, 0.34, 0.41, 0.68])
def test_rounding_is_not_an_influence(score: float) -> None:
    # The median is the mean of the second environment, whose runs are all equal; with these scores
    # the mean over what is left when each is left out is off in the last bit.
    scores = {"a": [-9.0, -8.0], "b": [score] * 7, "c": [2.0, 3.0, 4.0]}
    for values in influences(Strata.of(scores), median):
        np.testing.assert_array_equal(values, 0.0)


@pytest.mark.parametrize("statistic", STATISTICS.values(), ids=STATISTICS)
def test_equal_scores_give_an_interval_without_width(statistic: Statistic) -> None:
    scores = {"a": [0.3] * 4, "b": [0.9] * 3}
    found = stratified_bootstrap(scores, statistic, method="bca", replicates=200, rng=rng())
    assert found.low == pytest.approx(found.point)
    assert found.high == pytest.approx(found.point)
    assert found.known


def test_single_runs_give_a_point_without_an_interval() -> None:
    found = stratified_bootstrap({"a": [0.25], "b": [0.75]}, mean, method="bca", rng=rng())
    assert found.point == 0.5
    assert not found.known
    assert found.method == "bca"


def test_values_on_one_side_of_the_point_give_percentiles_and_say_so() -> None:
    # No resample exceeds the greatest score.
    def greatest(scores: Strata) -> FloatArray:
        return np.asarray(Strata.of(scores).values.max(axis=-1) + 1e-3 * (scores.values.ndim == 1))

    scores = {"a": [0.0, 1.0, 2.0, 7.0]}
    asked = stratified_bootstrap(scores, greatest, method="bca", replicates=500, rng=rng())
    plain = stratified_bootstrap(scores, greatest, replicates=500, rng=rng())
    assert asked == plain
    assert asked.method == "percentile"


def test_a_correction_out_of_range_gives_percentiles() -> None:
    estimates = np.linspace(-1, 1, 1001)
    wild = [np.array([1.0, *[0.0] * 4]) * 100]
    skewed = interval(0.999, estimates, 0.999999999, wild)
    assert skewed.method == "percentile"


def test_without_influence_only_the_bias_is_corrected() -> None:
    # 60 % of the values lie below the point: with z = 0.2533, the percentiles that are read are
    # the normal probabilities of 2 z -+ 1.96.
    estimates = np.arange(100_000.0)
    found = interval(60_000.0, estimates, 0.95, [np.zeros(3)])
    z = scipy.stats.norm.ppf(0.6)
    ends = scipy.stats.norm.cdf([2 * z - 1.959964, 2 * z + 1.959964]) * 100_000
    assert [found.low, found.high] == pytest.approx(ends.tolist(), abs=2)


def test_ties_with_the_point_count_half() -> None:
    # Two runs: a quarter of the resamples lies below, half at, a quarter above the point.
    found = stratified_bootstrap({"a": [0.0, 1.0]}, mean, method="bca", rng=rng())
    assert (found.low, found.point, found.high) == (0.0, 0.5, 1.0)


@settings(max_examples=30, deadline=None)
@given(scores=RAGGED, shift=st.floats(-5, 5), scale=st.floats(0.1, 10))
def test_bca_intervals_move_with_shift_and_scale(
    scores: dict[str, list[float]], shift: float, scale: float
) -> None:
    moved = {name: np.array(runs) * scale + shift for name, runs in scores.items()}
    options = {"replicates": 200, "method": "bca"}
    before = stratified_bootstraps(scores, STATISTICS, rng=rng(), **options)  # type: ignore[arg-type]
    after = stratified_bootstraps(moved, STATISTICS, rng=rng(), **options)  # type: ignore[arg-type]
    for name, seen in before.items():
        expected = [x * scale + shift for x in (seen.point, seen.low, seen.high)]
        found = [after[name].point, after[name].low, after[name].high]
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-6)


@settings(max_examples=20, deadline=None)
@given(scores=RAGGED)
def test_the_order_of_runs_and_environments_does_not_matter(scores: dict[str, list[float]]) -> None:
    shuffled = {name: list(reversed(scores[name])) for name in reversed(list(scores))}
    options = {"replicates": 100, "method": "bca"}
    before = stratified_bootstraps(scores, STATISTICS, rng=rng(), **options)  # type: ignore[arg-type]
    after = stratified_bootstraps(shuffled, STATISTICS, rng=rng(), **options)  # type: ignore[arg-type]
    assert after == before


def test_a_mirrored_statistic_has_the_mirrored_interval() -> None:
    scores = {"a": rng(2).exponential(size=9), "b": rng(3).exponential(size=6)}
    mirrored = {name: -runs for name, runs in scores.items()}
    up = stratified_bootstrap(scores, mean, method="bca", rng=rng())
    down = stratified_bootstrap(mirrored, mean, method="bca", rng=rng(1))
    width = up.high - up.low
    assert (-down.high, -down.low) == (
        pytest.approx(up.low, abs=0.04 * width),
        pytest.approx(up.high, abs=0.04 * width),
    )


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(ValueError, match="method must be 'percentile' or 'bca', not 'basic'"):
        stratified_bootstrap({"a": [1.0, 2.0]}, mean, method="basic", rng=rng())  # type: ignore[arg-type]


def test_the_gap_of_runs_that_all_reach_the_target_is_surely_zero() -> None:
    scores = {"a": [1.0, 1.2, 1.4]}
    found = stratified_bootstrap(scores, optimality_gap, method="bca", replicates=100, rng=rng())
    assert (found.point, found.low, found.high) == (0.0, 0.0, 0.0)


def test_an_interval_with_ends_is_known() -> None:
    assert Interval(0.5, 0.4, 0.6).known
    assert not Interval(0.5, math.nan, math.nan).known
