from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imitbench.stats.aggregates import mean, optimality_gap
from imitbench.stats.coverage import Cell
from imitbench.stats.ranks import rank_distribution

SCORES = st.integers(-3, 3).map(float)
CELLS = st.fixed_dictionaries(
    {"a": st.lists(SCORES, min_size=1, max_size=4), "b": st.lists(SCORES, min_size=1, max_size=4)}
)
TABLES = st.lists(CELLS, min_size=1, max_size=5).map(
    lambda cells: {f"algo{i}": each for i, each in enumerate(cells)}
)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_algorithms_that_never_overlap_have_certain_ranks() -> None:
    table = {"low": {"a": [0.1, 0.2]}, "high": {"a": [0.8, 0.9]}, "middle": {"a": [0.4, 0.5]}}
    found = rank_distribution(table, replicates=200, rng=rng())
    assert found.of("high").probabilities == (1.0, 0.0, 0.0)
    assert found.of("middle").probabilities == (0.0, 1.0, 0.0)
    assert found.of("low").probabilities == (0.0, 0.0, 1.0)
    assert [each.algorithm for each in found.ranks] == ["low", "high", "middle"]
    assert [each.mean_rank for each in found.ranks] == [3.0, 1.0, 2.0]
    assert found.of("high").point == pytest.approx(0.85)


def test_lower_can_be_better() -> None:
    table = {"good": {"a": [0.9, 1.0]}, "bad": {"a": [0.1, 0.2]}}
    found = rank_distribution(
        table, statistic=optimality_gap, higher_is_better=False, replicates=50, rng=rng()
    )
    assert found.of("good").probabilities == (1.0, 0.0)


def test_ties_share_the_ranks_that_they_take_up() -> None:
    table = {name: {"a": [0.3, 0.3]} for name in ("x", "y")} | {"z": {"a": [0.1, 0.1]}}
    found = rank_distribution(table, replicates=50, rng=rng())
    assert found.of("x").probabilities == found.of("y").probabilities == (0.5, 0.5, 0.0)
    assert found.of("z").probabilities == (0.0, 0.0, 1.0)
    assert found.of("x").mean_rank == 1.5


def test_equal_aggregates_tie_however_they_were_rounded() -> None:
    assert 0.7 + 0.7 - 1.4 != 0.1 + 0.2 - 0.3
    table = {"x": {"a": [0.7, 0.7, -1.4]}, "y": {"a": [0.1, 0.2, -0.3]}}
    single = {
        name: {f"env{i}": [score] for i, score in enumerate(cells["a"])}
        for name, cells in table.items()
    }
    found = rank_distribution(single, statistic=mean, rng=rng())
    assert found.of("x").probabilities == found.of("y").probabilities == (0.5, 0.5)


def test_probabilities_are_those_that_can_be_enumerated() -> None:
    # Means of two draws of {0, 1}: above 0.4 with 3/4.
    table = {"x": {"a": [0.0, 1.0]}, "y": {"a": [0.4]}}
    found = rank_distribution(table, statistic=mean, replicates=20_000, rng=rng())
    assert found.of("x").probabilities == pytest.approx((0.75, 0.25), abs=0.015)
    assert found.of("y").probabilities == pytest.approx((0.25, 0.75), abs=0.015)
    assert found.resampled


@settings(max_examples=40, deadline=None)
@given(table=TABLES)
def test_probabilities_sum_to_one_by_algorithm_and_by_rank(
    table: dict[str, dict[str, list[float]]],
) -> None:
    found = rank_distribution(table, replicates=60, rng=rng())
    matrix = np.array([each.probabilities for each in found.ranks])
    np.testing.assert_allclose(matrix.sum(axis=0), 1.0)
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0)


@settings(max_examples=30, deadline=None)
@given(table=TABLES, shift=st.floats(-3, 3), scale=st.floats(0.1, 5))
def test_shift_scale_and_the_order_of_runs_change_nothing(
    table: dict[str, dict[str, list[float]]], shift: float, scale: float
) -> None:
    moved = {
        name: {env: [x * scale + shift for x in runs[::-1]] for env, runs in cells.items()}
        for name, cells in table.items()
    }
    one, other = (
        rank_distribution(each, statistic=mean, replicates=40, rng=rng()) for each in (table, moved)
    )
    for before, after in zip(one.ranks, other.ranks, strict=True):
        assert after.probabilities == pytest.approx(before.probabilities)


def test_ranks_are_over_common_environments_and_say_what_is_missing() -> None:
    table = {"x": {"a": [1.0, 1.0], "b": [0.0, 0.0]}, "y": {"a": [0.5, 0.6]}}
    found = rank_distribution(table, replicates=20, rng=rng())
    assert found.coverage.environments == ("a",)
    assert found.coverage.missing == (Cell("y", "b"),)
    assert found.of("x").probabilities == (1.0, 0.0)


def test_single_runs_are_ranked_without_resamples() -> None:
    found = rank_distribution({"x": {"a": [0.1]}, "y": {"a": [0.2]}}, rng=rng())
    assert not found.resampled
    assert found.of("y").probabilities == (1.0, 0.0)


def test_impossible_questions_are_refused() -> None:
    with pytest.raises(ValueError, match="no environment has scores of all of x, y"):
        rank_distribution({"x": {"a": [1.0]}, "y": {"b": [1.0]}}, rng=rng())
    found = rank_distribution({"x": {"a": [1.0, 2.0]}}, replicates=5, rng=rng())
    assert found.of("x").probabilities == (1.0,)
    with pytest.raises(KeyError):
        found.of("y")
