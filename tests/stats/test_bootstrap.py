from __future__ import annotations

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rliable import library, metrics

from imitbench.stats.aggregates import (
    Statistic,
    interquartile_mean,
    mean,
    median,
    optimality_gap,
)
from imitbench.stats.bootstrap import (
    Interval,
    ReferenceErrors,
    bootstrap_differences,
    resamples,
    stratified_bootstraps,
)
from imitbench.stats.strata import FloatArray, Scores, Strata

STATISTICS: dict[str, Statistic] = {"mean": mean, "median": median, "iqm": interquartile_mean}
SCORES = st.floats(-10, 10).map(lambda x: round(x, 4))
RAGGED = st.dictionaries(
    st.sampled_from("abcd"), st.lists(SCORES, min_size=2, max_size=5), min_size=1
)


def stratified_bootstrap(scores: Scores, statistic: Statistic, **options: Any) -> Interval:
    return stratified_bootstraps(scores, {"statistic": statistic}, **options)["statistic"]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.filterwarnings("ignore:random_state is deprecated:FutureWarning")
def test_intervals_agree_with_rliable_within_monte_carlo_error() -> None:
    matrix = rng(1).normal(0.7, 0.2, size=(6, 5))

    def aggregates(scores: FloatArray) -> FloatArray:
        return np.array(
            [
                metrics.aggregate_mean(scores),
                metrics.aggregate_median(scores),
                metrics.aggregate_iqm(scores),
                metrics.aggregate_optimality_gap(scores),
            ]
        )

    replicates = 4000
    np.random.seed(0)  # noqa: NPY002 - rliable draws from here, whatever random_state says
    points, ends = library.get_interval_estimates(
        {"x": matrix}, aggregates, reps=replicates, random_state=np.random.RandomState(0)
    )
    statistics = {**STATISTICS, "gap": optimality_gap}
    ours = stratified_bootstraps(matrix, statistics, replicates=replicates, rng=rng())
    # rliable's intervals have the shape (2, statistics): row 0 holds the lower ends.
    for column, interval in enumerate(ours.values()):
        assert interval.point == pytest.approx(points["x"][column], rel=1e-12)
        # The standard error of a 2.5 % quantile is about 2.7 / sqrt(replicates) standard
        # deviations, of which the interval spans 3.9; both sides have it.
        tolerance = 4 * math.sqrt(2) * 2.7 / math.sqrt(replicates)
        tolerance *= (interval.high - interval.low) / 3.9
        assert interval.low == pytest.approx(ends["x"][0, column], abs=tolerance)
        assert interval.high == pytest.approx(ends["x"][1, column], abs=tolerance)


def test_two_runs_give_the_distribution_that_can_be_enumerated() -> None:
    # Resampled means of {0, 1}: 0, 1/2, 1 with probabilities 1/4, 1/2, 1/4.
    strata = Strata.of({"a": [0.0, 1.0]})
    means = np.concatenate([mean(chunk) for chunk in resamples(strata, 40_000, rng())])
    values, counts = np.unique(means, return_counts=True)
    np.testing.assert_array_equal(values, [0.0, 0.5, 1.0])
    np.testing.assert_allclose(counts / 40_000, [0.25, 0.5, 0.25], atol=0.015)


def test_runs_are_drawn_from_their_own_environment_with_replacement() -> None:
    strata = Strata.of({"a": [1.0, 2.0, 3.0], "b": [10.0], "c": [20.0, 30.0]})
    draws = np.concatenate([chunk.values.copy() for chunk in resamples(strata, 500, rng())])
    assert draws.shape == (500, 6)
    for place in range(3):
        assert set(draws[:, place]) == {1.0, 2.0, 3.0}
    assert set(draws[:, 3]) == {10.0}
    assert set(draws[:, 4]) == set(draws[:, 5]) == {20.0, 30.0}
    assert (draws[:, 0] == draws[:, 1]).any()


def test_every_run_is_equally_likely() -> None:
    strata = Strata.of({"a": np.arange(5.0), "b": np.arange(5.0, 8.0)})
    draws = np.concatenate([chunk.values.copy() for chunk in resamples(strata, 20_000, rng())])
    counts = np.array([(draws == value).sum() for value in range(8)])
    expected = 20_000.0
    assert (np.abs(counts - expected) < 5 * math.sqrt(expected)).all()


@pytest.mark.parametrize("chunk_elements", [1, 7, 100, 10**6])
def test_resamples_do_not_depend_on_the_size_of_chunks(chunk_elements: int) -> None:
    strata = Strata.of({"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0]})
    whole = np.concatenate([chunk.values.copy() for chunk in resamples(strata, 97, rng())])
    chunks = [
        chunk.values.copy() for chunk in resamples(strata, 97, rng(), chunk_elements=chunk_elements)
    ]
    np.testing.assert_array_equal(np.concatenate(chunks), whole)
    assert max(chunk.size for chunk in chunks) <= max(chunk_elements, 5)


@settings(max_examples=30, deadline=None)
@given(scores=RAGGED)
def test_the_order_of_resamples_is_the_one_that_sorting_finds(
    scores: dict[str, list[float]],
) -> None:
    for chunk in resamples(Strata.of(scores), 50, rng(), chunk_elements=100):
        sorted_anew = Strata(chunk.values, chunk.sizes)
        for one, other in zip(totals(chunk), totals(sorted_anew), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(
            interquartile_mean(chunk), interquartile_mean(sorted_anew), rtol=1e-12, atol=1e-12
        )


def totals(strata: Strata) -> tuple[FloatArray, FloatArray]:
    """Weight, and weighted sum of scores, of the lower half of all runs."""
    scores, weights = strata.ascending()
    below = np.minimum(np.cumsum(weights, axis=-1), len(strata.sizes) / 2)
    parts = np.diff(below, axis=-1, prepend=0.0)
    return parts.sum(axis=-1), (parts * scores).sum(axis=-1)


def test_memory_is_bounded_by_chunks_and_not_by_replicates() -> None:
    scores = {f"env{i}": rng(i).normal(size=20) for i in range(20)}
    tracemalloc.start()
    stratified_bootstrap(scores, interquartile_mean, replicates=50_000, rng=rng())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # All resamples at once would be 400 scores each, 160 MB; their 50,000 values are 0.4 MB.
    assert peak < 8e6


def test_the_generator_decides_the_interval() -> None:
    scores = {"a": rng(3).normal(size=8), "b": rng(4).normal(size=5)}

    def interval(seed: int) -> Interval:
        return stratified_bootstrap(scores, mean, replicates=500, rng=rng(seed))

    assert interval(0) == interval(0)
    assert interval(0).low != interval(1).low


def test_several_statistics_equal_each_alone() -> None:
    scores = {"a": rng(3).normal(size=8), "b": rng(4).normal(size=5)}
    together = stratified_bootstraps(scores, STATISTICS, replicates=300, rng=rng())
    for name, statistic in STATISTICS.items():
        alone = stratified_bootstrap(scores, statistic, replicates=300, rng=rng())
        assert together[name] == alone


def test_single_runs_give_a_point_without_an_interval() -> None:
    interval = stratified_bootstrap({"a": [0.25], "b": [0.75]}, mean, rng=rng())
    assert interval.point == 0.5
    assert math.isnan(interval.low)
    assert math.isnan(interval.high)
    assert not interval.known


def test_one_environment_with_several_runs_suffices_for_an_interval() -> None:
    interval = stratified_bootstrap({"a": [0.0, 1.0], "b": [0.5]}, mean, rng=rng())
    assert interval.known
    assert (interval.low, interval.high) == (0.25, 0.75)


def test_a_higher_level_widens_the_interval() -> None:
    scores = {"a": rng(3).normal(size=10)}
    narrow = stratified_bootstrap(scores, mean, level=0.5, replicates=2000, rng=rng())
    wide = stratified_bootstrap(scores, mean, level=0.99, replicates=2000, rng=rng())
    assert wide.low < narrow.low < narrow.point < narrow.high < wide.high
    assert (narrow.level, wide.level) == (0.5, 0.99)


@settings(max_examples=30, deadline=None)
@given(scores=RAGGED, shift=st.floats(-5, 5), scale=st.floats(0.1, 10))
def test_intervals_move_with_shift_and_scale(
    scores: dict[str, list[float]], shift: float, scale: float
) -> None:
    moved = {name: np.array(runs) * scale + shift for name, runs in scores.items()}
    before = stratified_bootstraps(scores, STATISTICS, replicates=200, rng=rng())
    after = stratified_bootstraps(moved, STATISTICS, replicates=200, rng=rng())
    for name, interval in before.items():
        expected = [x * scale + shift for x in (interval.point, interval.low, interval.high)]
        found = [after[name].point, after[name].low, after[name].high]
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


@settings(max_examples=30, deadline=None)
@given(scores=RAGGED)
def test_the_order_of_runs_and_environments_does_not_matter(scores: dict[str, list[float]]) -> None:
    shuffled = {name: list(reversed(scores[name])) for name in reversed(list(scores))}
    before = stratified_bootstraps(scores, STATISTICS, replicates=100, rng=rng())
    assert stratified_bootstraps(shuffled, STATISTICS, replicates=100, rng=rng()) == before


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    # Twenty runs in each of three environments whose means average 0. The percentile interval
    # of n runs is narrower than nominal by about sqrt(1 - 1/n), which gives about 94 %.
    generator, trials, covered = rng(7), 600, 0
    for _ in range(trials):
        scores = generator.normal([-1.0, 0.0, 1.0], [0.2, 1.0, 0.5], size=(20, 3))
        interval = stratified_bootstrap(scores, mean, replicates=400, rng=generator)
        covered += interval.low <= 0.0 <= interval.high
    assert 0.90 <= covered / trials <= 0.97


def test_a_difference_is_positive_where_the_first_is_higher() -> None:
    new, old = {"a": [0.8, 0.9, 1.0], "b": [0.7, 0.9]}, {"a": [0.1, 0.3], "b": [0.2, 0.2, 0.5]}
    found = bootstrap_differences(new, old, STATISTICS, replicates=500, rng=rng())
    for name, statistic in STATISTICS.items():
        interval = found[name]
        assert interval.point == pytest.approx(float(statistic(new)) - float(statistic(old)))
        assert 0 < interval.low <= interval.point <= interval.high
    back = bootstrap_differences(old, new, STATISTICS, replicates=500, rng=rng())
    assert back["mean"].high < 0


def test_the_distribution_of_a_difference_can_be_enumerated() -> None:
    # {0, 1} less {0, 1}, means of two draws each: -1 with 1/16, -1/2 with 1/4, 0 with 3/8, ...
    pair = {"a": [0.0, 1.0]}
    for level, end in ((0.95, 1.0), (0.8, 0.5), (0.3, 0.0)):
        found = bootstrap_differences(pair, pair, {"mean": mean}, level=level, rng=rng())["mean"]
        assert (found.low, found.point, found.high) == (-end, 0.0, end)


def test_a_difference_from_one_certain_run_is_the_interval_moved() -> None:
    scores = {"a": rng(1).exponential(size=8)}
    alone = stratified_bootstrap(scores, mean, replicates=999, rng=rng())
    less = bootstrap_differences(scores, {"a": [0.25]}, {"mean": mean}, replicates=999, rng=rng())
    ends = less["mean"].low, less["mean"].high
    assert ends == pytest.approx((alone.low - 0.25, alone.high - 0.25))


@pytest.mark.parametrize("statistic", STATISTICS.values(), ids=STATISTICS)
def test_equal_scores_give_an_interval_without_width(statistic: Statistic) -> None:
    scores = {"a": [0.3] * 4, "b": [0.9] * 3}
    found = stratified_bootstrap(scores, statistic, replicates=200, rng=rng())
    assert (found.low, found.high) == pytest.approx((found.point, found.point))
    assert found.known


def test_differences_need_the_same_environments_and_more_than_single_runs() -> None:
    with pytest.raises(ValueError, match="only one has b, c"):
        bootstrap_differences({"a": [1], "b": [1]}, {"a": [1], "c": [1]}, STATISTICS, rng=rng())
    with pytest.raises(ValueError, match="has 3 environments, but first has 2"):
        bootstrap_differences(np.ones((2, 2)), np.ones((2, 3)), STATISTICS, rng=rng())
    found = bootstrap_differences({"a": [0.75]}, {"a": [0.25]}, {"mean": mean}, rng=rng())["mean"]
    assert found.point == 0.5
    assert not found.known


@pytest.mark.parametrize(
    ("options", "problem"),
    [({"replicates": 0}, "replicates"), ({"level": 1.0}, "level"), ({"level": 0.0}, "level")],
)
def test_impossible_options_are_refused_by_name(options: dict[str, float], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        stratified_bootstrap({"a": [1.0, 2.0]}, mean, rng=rng(), **options)  # type: ignore[arg-type]


ERRORS = ReferenceErrors((("a", 0.02, 0.03), ("b", 0.01, 0.05)))


@pytest.mark.parametrize("sizes", [(4, 4), (5, 3)])
def test_errors_of_references_widen_intervals_and_leave_points(sizes: tuple[int, int]) -> None:
    scores = {name: rng(1).normal(0.8, 0.01, size) for name, size in zip("ab", sizes, strict=True)}
    plain = stratified_bootstraps(scores, STATISTICS, replicates=4000, rng=rng())
    wide = stratified_bootstraps(scores, STATISTICS, replicates=4000, rng=rng(), errors=ERRORS)
    for name in STATISTICS:
        assert wide[name].point == plain[name].point
        assert wide[name].high - wide[name].low > 2 * (plain[name].high - plain[name].low)
    none = ReferenceErrors((("elsewhere", 0.5, 0.5),))
    assert stratified_bootstraps(scores, STATISTICS, replicates=4000, rng=rng(), errors=none) == (
        plain
    )


@pytest.mark.parametrize("score", [0.0, 0.8, 1.0])
def test_the_interval_of_equal_scores_is_that_of_the_references(score: float) -> None:
    zero, one = 0.02, 0.03
    errors = ReferenceErrors((("a", zero, one),))
    found = stratified_bootstrap(
        {"a": np.full(5, score)}, mean, replicates=20_000, rng=rng(), errors=errors
    )
    reach = 1.96 * math.hypot(zero * (1 - score), one * score)  # to first order
    assert found.high - found.low == pytest.approx(2 * reach, rel=0.05)


def test_both_sides_of_a_difference_share_the_errors_of_references() -> None:
    def difference(first: float, second: float) -> Interval:
        scores = ({"a": np.full(3, one), "b": np.full(4, one)} for one in (first, second))
        return bootstrap_differences(
            *scores, {"mean": mean}, replicates=2000, rng=rng(), errors=ERRORS
        )["mean"]

    same = difference(0.9, 0.9)
    assert (same.low, same.high) == (0.0, 0.0)
    apart = difference(0.9, 0.7)
    assert 0.15 < apart.low < 0.2 < apart.high < 0.25


def test_errors_of_an_environment_do_not_depend_on_the_others() -> None:
    zero, scale = ERRORS.draws(("a", "b"), 50)
    again = ERRORS.draws(("b",), 50)
    assert np.array_equal(zero[:, [1]], again[0])
    assert np.array_equal(scale[:, [1]], again[1])
    assert not np.array_equal(zero[:, 0] / 0.02, zero[:, 1] / 0.01)


def test_errors_of_references_need_named_environments() -> None:
    with pytest.raises(ValueError, match="need the names of environments"):
        stratified_bootstraps(np.ones((3, 2)), STATISTICS, rng=rng(), errors=ERRORS)
