from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rliable import library, metrics

from imitbench.stats import improvement
from imitbench.stats.coverage import MissingCell
from imitbench.stats.improvement import (
    ImprovementMatrix,
    improvement_matrix,
    probability_of_improvement,
)

SCORES = st.integers(-5, 5).map(float)
RUNS = st.lists(SCORES, min_size=1, max_size=5)
CELLS = st.fixed_dictionaries({"a": RUNS, "b": RUNS})


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def point(first: object, second: object) -> float:
    found = probability_of_improvement(first, second, replicates=10, rng=rng())  # type: ignore[arg-type]
    return found.probability.point


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([1.0], [0.0], 1.0),
        ([0.0], [1.0], 0.0),
        ([1.0], [1.0], 0.5),
        ([2.0, 3.0], [0.0, 1.0], 1.0),
        ([0.0, 2.0], [1.0], 0.5),
        ([1.0, 2.0, 3.0], [2.0], 0.5),
        ([1.0, 1.0], [1.0, 0.0], 0.75),
        ([5.0, 0.0, 0.0, 0.0], [1.0], 0.25),
    ],
)
def test_it_is_the_share_of_pairs_that_the_first_wins(
    first: list[float], second: list[float], expected: float
) -> None:
    assert point({"a": first}, {"a": second}) == expected


def test_the_better_algorithm_has_the_higher_probability_not_the_baseline() -> None:
    table = {"new": {"a": [0.9, 0.8, 0.95]}, "baseline": {"a": [0.2, 0.3, 0.85]}}
    matrix = improvement_matrix(table, replicates=2000, rng=rng())
    better, worse = matrix.of("new", "baseline"), matrix.of("baseline", "new")
    assert (better.first, better.second) == ("new", "baseline")
    assert better.probability.point == pytest.approx(8 / 9)
    assert worse.probability.point == pytest.approx(1 / 9)
    assert better.probability.low > 0.5 > worse.probability.high
    assert worse.probability.low == pytest.approx(1 - better.probability.high)
    assert worse.probability.high == pytest.approx(1 - better.probability.low)
    alone = probability_of_improvement(
        table["new"], table["baseline"], names=("new", "baseline"), rng=rng()
    )
    assert alone.probability.point == better.probability.point


def test_environments_weigh_the_same_however_many_runs_they_have() -> None:
    first = {"a": [1.0] * 9, "b": [0.0]}
    second = {"a": [0.0] * 3, "b": [1.0, 1.0]}
    found = probability_of_improvement(first, second, replicates=10, rng=rng())
    assert found.by_environment == (1.0, 0.0)
    assert found.probability.point == 0.5


@pytest.mark.filterwarnings("ignore:random_state is deprecated:FutureWarning")
def test_it_is_that_of_rliable() -> None:
    first, second = rng(1).normal(0.3, 1, size=(7, 3)), rng(2).normal(size=(5, 3))
    first[:3, 0] = second[:3, 0]  # ties
    replicates = 300
    np.random.seed(0)  # noqa: NPY002 - all that rliable's resamples depend on
    points, ends = library.get_interval_estimates(
        {"x": [first, second]}, metrics.probability_of_improvement, reps=replicates
    )
    cells = ({f"env{i}": column for i, column in enumerate(each.T)} for each in (first, second))
    found = probability_of_improvement(*cells, replicates=20_000, rng=rng()).probability
    assert found.point == pytest.approx(float(points["x"]), rel=1e-12)
    # As in the tests of the bootstrap: four standard errors of rliable's quantiles.
    tolerance = 4 * 2.7 / math.sqrt(replicates) * (found.high - found.low) / 3.9
    assert found.low == pytest.approx(ends["x"][0].item(), abs=tolerance)
    assert found.high == pytest.approx(ends["x"][1].item(), abs=tolerance)


def test_the_resampled_distribution_can_be_enumerated() -> None:
    # The first draws 0 or 2 twice, against 1: shares 0, 1/2, 1 with 1/4, 1/2, 1/4.
    table = {"x": {"a": [0.0, 2.0]}, "y": {"a": [1.0]}}
    for level, ends in ((0.95, (0.0, 1.0)), (0.4, (0.5, 0.5))):
        found = improvement_matrix(table, level=level, replicates=4000, rng=rng()).of("x", "y")
        assert (found.probability.low, found.probability.high) == ends


@settings(max_examples=50, deadline=None)
@given(first=CELLS, second=CELLS)
def test_directions_are_complements(
    first: dict[str, list[float]], second: dict[str, list[float]]
) -> None:
    assert point(first, second) == pytest.approx(1 - point(second, first), abs=1e-12)
    assert point(first, first) == 0.5


@settings(max_examples=50, deadline=None)
@given(
    first=CELLS,
    second=CELLS,
    shift=st.integers(-9, 9),
    scale=st.integers(1, 9),
    times=st.integers(1, 3),
)
def test_it_depends_on_order_alone(
    first: dict[str, list[float]],
    second: dict[str, list[float]],
    shift: int,
    scale: int,
    times: int,
) -> None:
    plain = point(first, second)

    def moved(cells: dict[str, list[float]]) -> dict[str, list[float]]:
        return {env: [x**3 * scale + shift for x in runs] for env, runs in cells.items()}

    def again(cells: dict[str, list[float]]) -> dict[str, list[float]]:
        return {env: runs[::-1] * times for env, runs in reversed(cells.items())}

    assert point(moved(first), moved(second)) == plain
    assert point(again(first), again(second)) == pytest.approx(plain, abs=1e-12)


@settings(max_examples=15, deadline=None)
@given(first=CELLS, second=CELLS)
def test_intervals_do_not_depend_on_the_order_of_runs(
    first: dict[str, list[float]], second: dict[str, list[float]]
) -> None:
    shuffled = {env: runs[::-1] for env, runs in reversed(first.items())}
    one, other = (
        probability_of_improvement(cells, second, replicates=50, rng=rng()).probability
        for cells in (first, shuffled)
    )
    assert (one.point, one.known) == (other.point, other.known)
    if one.known:
        assert one == other


def matrix_of(chunk: int, monkeypatch: pytest.MonkeyPatch) -> ImprovementMatrix:
    monkeypatch.setattr(improvement, "CHUNK_ELEMENTS", chunk)
    table = {name: {"e": rng(i).normal(size=3 + i)} for i, name in enumerate("xyz")}
    return improvement_matrix(table, replicates=101, rng=rng())


def test_chunks_do_not_change_the_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    assert matrix_of(1, monkeypatch) == matrix_of(1 << 18, monkeypatch)


def test_each_pair_of_a_matrix_is_compared_over_what_both_have() -> None:
    table = {
        "x": {"a": [1.0, 2.0], "b": [3.0, 1.0], "c": [1.0, 2.0]},
        "y": {"a": [0.0, 1.5], "c": [5.0, 6.0, 1.5]},
        "z": {"b": [2.0, 2.0], "c": []},
    }
    matrix = improvement_matrix(table, replicates=300, rng=rng())
    assert matrix.algorithms == ("x", "y", "z")
    assert len(matrix.pairs) == 6
    of_x = matrix.of("x", "y")
    assert of_x.coverage.environments == ("a", "c")
    assert of_x.coverage.missing == (MissingCell("y", "b"),)
    assert of_x.coverage.runs == ((2, 2), (2, 3))
    expected = metrics.probability_of_improvement(
        np.array([[1.0], [2.0]]), np.array([[5.0], [6.0], [1.5]])
    )
    assert of_x.by_environment == (0.75, pytest.approx(expected))
    assert matrix.of("z", "x").by_environment == (0.5,)
    assert matrix.of("z", "x").coverage.runs == ((2, 2), (2, 2))
    nothing = matrix.of("y", "z")
    assert nothing.coverage.environments == ()
    assert math.isnan(nothing.probability.point)
    assert not nothing.probability.known
    with pytest.raises(KeyError):
        matrix.of("x", "x")


def test_single_runs_give_a_point_without_an_interval() -> None:
    found = probability_of_improvement({"a": [1.0]}, {"a": [0.0]}, rng=rng())
    assert found.probability.point == 1.0
    assert not found.probability.known


def test_the_generator_decides_the_interval() -> None:
    first, second = {"a": rng(1).normal(size=9)}, {"a": rng(2).normal(size=9)}
    same = [
        probability_of_improvement(first, second, replicates=99, rng=rng(seed)).probability
        for seed in (0, 0, 1)
    ]
    assert same[0] == same[1]
    assert same[0] != same[2]


def test_impossible_questions_are_refused() -> None:
    with pytest.raises(ValueError, match="names: both are 'x'"):
        probability_of_improvement({"a": [1.0]}, {"a": [1.0]}, names=("x", "x"), rng=rng())
    with pytest.raises(ValueError, match="not finite"):
        improvement_matrix({"x": {"a": [math.nan]}, "y": {"a": [1.0]}}, rng=rng())
    with pytest.raises(ValueError, match="replicates"):
        improvement_matrix({"x": {"a": [1.0]}}, replicates=0, rng=rng())
