from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rliable import metrics

from imitbench.stats.aggregates import (
    Statistic,
    interquartile_mean,
    mean,
    median,
    optimality_gap,
)
from imitbench.stats.strata import FloatArray, Scores, Strata

AGGREGATES: list[Callable[[Scores], FloatArray]] = [mean, median, interquartile_mean]
# The optimality gap moves with its target, not with scores alone.
PAIRS = [
    (mean, metrics.aggregate_mean),
    (median, metrics.aggregate_median),
    (interquartile_mean, metrics.aggregate_iqm),
    (optimality_gap, metrics.aggregate_optimality_gap),
]
SCORES = st.floats(-10, 10).map(lambda x: round(x, 4))
RAGGED = st.dictionaries(
    st.sampled_from("abcdef"), st.lists(SCORES, min_size=1, max_size=7), min_size=1
)


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (3, 1), (3, 3), (5, 4), (10, 5), (7, 26)])
def test_equal_counts_give_the_values_of_rliable(
    ours: Statistic, theirs: Callable[[FloatArray], float], shape: tuple[int, int]
) -> None:
    matrix = np.random.default_rng(shape[0]).normal(size=shape)
    by_name = {f"env{i}": column for i, column in enumerate(matrix.T)}
    expected = float(theirs(matrix))
    assert float(ours(Strata.of(matrix))) == pytest.approx(expected, rel=1e-12)
    assert float(ours(Strata.of(by_name))) == pytest.approx(expected, rel=1e-12)


@settings(deadline=None)
@given(scores=RAGGED)
def test_ragged_iqm_is_that_of_the_smallest_balanced_repetition(
    scores: dict[str, list[float]],
) -> None:
    most = math.lcm(*(len(runs) for runs in scores.values()))
    balanced = np.array([runs * (most // len(runs)) for runs in scores.values()]).T
    expected = metrics.aggregate_iqm(balanced)
    assert float(interquartile_mean(scores)) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_a_run_at_the_cut_counts_in_part() -> None:
    # Runs weigh 1/3 and 1/2, and 1/2 is cut from either end: below, all of the 0 and 1/6 of the
    # 1; above, all of the 9 and 1/6 of the 5.
    scores = {"a": [0.0, 5.0, 9.0], "b": [1.0, 2.0]}
    kept = {1.0: 1 / 3, 2.0: 1 / 2, 5.0: 1 / 6}
    expected = sum(value * weight for value, weight in kept.items()) / sum(kept.values())
    assert float(interquartile_mean(scores)) == pytest.approx(expected, rel=1e-12)


def test_runs_beyond_the_target_do_not_make_up_for_others() -> None:
    scores = {"a": [0.5, 1.5], "b": [1.0, 3.0, 0.4]}
    assert float(optimality_gap(scores)) == pytest.approx((0.25 + 0.2) / 2)
    assert float(optimality_gap(scores, target=2.0)) == pytest.approx((1.0 + 2.6 / 3) / 2)


@settings(deadline=None)
@given(scores=RAGGED, shift=st.floats(-5, 5), scale=st.floats(0.1, 10))
def test_the_gap_scales_with_its_target(
    scores: dict[str, list[float]], shift: float, scale: float
) -> None:
    moved = {name: np.array(runs) * scale + shift for name, runs in scores.items()}
    expected = float(optimality_gap(scores)) * scale
    found = float(optimality_gap(moved, target=scale + shift))
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("aggregate", [mean, median, optimality_gap])
@settings(deadline=None)
@given(scores=RAGGED, times=st.integers(2, 4))
def test_replicating_the_runs_of_an_environment_changes_nothing(
    aggregate: Callable[[Scores], FloatArray], scores: dict[str, list[float]], times: int
) -> None:
    first = min(scores)
    replicated = {**scores, first: scores[first] * times}
    assert float(aggregate(replicated)) == pytest.approx(float(aggregate(scores)), abs=1e-9)


def test_many_different_seed_counts_do_not_overflow() -> None:
    scores = {f"env{n}": np.linspace(0, 1, n + 1) for n in range(1, 60)}
    assert float(interquartile_mean(scores)) == pytest.approx(0.5, abs=1e-9)


def test_environments_weigh_the_same_however_many_seeds_they_have() -> None:
    scores = {"many": [1.0] * 9, "one": [0.0]}
    assert float(mean(scores)) == 0.5
    assert float(median(scores)) == 0.5
    assert float(interquartile_mean(scores)) == pytest.approx(0.5)


@pytest.mark.parametrize("aggregate", [*AGGREGATES, optimality_gap])
@settings(deadline=None)
@given(scores=RAGGED)
def test_the_order_of_runs_and_environments_does_not_matter(
    aggregate: Callable[[Scores], FloatArray], scores: dict[str, list[float]]
) -> None:
    shuffled = {name: list(reversed(scores[name])) for name in reversed(list(scores))}
    assert float(aggregate(shuffled)) == float(aggregate(scores))


@pytest.mark.parametrize("aggregate", AGGREGATES)
@settings(deadline=None)
@given(scores=RAGGED, shift=st.floats(-5, 5), scale=st.floats(0.1, 10))
def test_aggregates_move_with_shift_and_scale(
    aggregate: Callable[[Scores], FloatArray],
    scores: dict[str, list[float]],
    shift: float,
    scale: float,
) -> None:
    moved = {name: np.array(runs) * scale + shift for name, runs in scores.items()}
    expected = float(aggregate(scores)) * scale + shift
    assert float(aggregate(moved)) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("aggregate", AGGREGATES)
@settings(deadline=None)
@given(scores=RAGGED)
def test_aggregates_lie_between_the_extremes(
    aggregate: Callable[[Scores], FloatArray], scores: dict[str, list[float]]
) -> None:
    everything = [score for runs in scores.values() for score in runs]
    assert min(everything) - 1e-9 <= float(aggregate(scores)) <= max(everything) + 1e-9


def test_the_iqm_ignores_outliers_that_move_the_mean() -> None:
    calm = np.full((5, 4), 1.0)
    wild = calm.copy()
    wild[0, 0] = 1e6
    assert float(interquartile_mean(wild)) == 1.0
    assert float(mean(wild)) > 1e4


@pytest.mark.parametrize("aggregate", [*AGGREGATES, optimality_gap])
@pytest.mark.parametrize("sizes", [(4, 4, 4), (2, 3, 5)])
def test_a_batch_gives_one_value_per_sample(
    aggregate: Callable[[Scores], FloatArray], sizes: tuple[int, ...]
) -> None:
    values = np.random.default_rng(0).normal(size=(6, sum(sizes)))
    batch = aggregate(Strata(values, sizes))
    assert batch.shape == (6,)
    single = [float(aggregate(Strata(row, sizes))) for row in values]
    np.testing.assert_allclose(batch, single, rtol=1e-12)


@pytest.mark.parametrize(
    ("scores", "problem"),
    [
        ({}, "no environments"),
        ({"a": [1.0], "b": []}, "b needs the shape"),
        ({"a": [[1.0]]}, "a needs the shape"),
        ({"a": [1.0, math.nan]}, "a contains a value that is not finite"),
        (np.zeros(3), r"shape \(runs, environments\)"),
        (np.zeros((0, 2)), "column 0 needs the shape"),
    ],
)
def test_unusable_scores_are_refused(scores: Scores, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        mean(scores)
