"""Whether the means and the typical runs of two methods differ."""

import itertools
import warnings

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from imitbench.stats.difference_test import (
    DifferenceTest,
    difference_test,
    difference_tests,
    runs_lacking,
    typical_run_tests,
)
from imitbench.stats.mean_test import mean_test, mean_tests, permutations

RUNS = st.lists(st.integers(-6, 6).map(float), min_size=2, max_size=5)
TALL = 10**6


def rng(seed=0):
    return np.random.default_rng(seed)


def found_by(first, second, **options):
    return difference_test(first, second, rng=rng(), **options)


def brunner_munzel(x, y):
    """SciPy's statistic; infinite if one side wins always."""
    if max(x) < min(y) or max(y) < min(x):
        return np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.nan_to_num(abs(scipy.stats.brunnermunzel(x, y).statistic), nan=0.0)


@settings(max_examples=25, deadline=None)
@given(first=RUNS, second=RUNS)
def test_typical_runs_are_permuted_in_all_ways(first, second):
    pooled = [*first, *second]
    actual, extreme, count = brunner_munzel(first, second), 0, 0
    for chosen in itertools.combinations(range(len(pooled)), len(first)):
        ours = [pooled[i] for i in chosen]
        rest = [pooled[i] for i in range(len(pooled)) if i not in chosen]
        extreme += brunner_munzel(ours, rest) >= actual * (1 - 1e-9)
        count += 1
    found = found_by({"a": first}, {"a": second})
    assert found.typical == pytest.approx(extreme / count)
    assert found.means == mean_test({"a": first}, {"a": second}, rng=rng())


def test_both_tests_must_find_it():
    first, second = {"a": [3.0, 4.0, 5.0, 6.0, 1.4]}, {"a": [1.0, 2.0, 0.5, 1.5, 0.2]}
    found = found_by(first, second)
    assert found.p_value == max(found.means, found.typical) < 0.05
    swapped = found_by(second, first)
    assert (swapped.p_value, swapped.typical) == pytest.approx((found.p_value, found.typical))


def test_opposite_directions_find_nothing():
    # Nine of ten runs are better, and the tenth makes the mean worse.
    first = {"a": [0.9] * 9 + [-9.0]}
    second = {"a": [0.8 + 0.001 * i for i in range(10)]}
    found = found_by(first, second)
    assert found.typical < 0.01
    assert found.p_value == 1


@pytest.mark.parametrize("runs", [3, 5])
def test_only_the_order_of_runs_counts_for_typical_runs(runs):
    first, second = rng(1).normal(0.2, 1, (2, 2, runs))
    by_environment = [{"a": side[0], "b": side[1]} for side in (first, second)]
    stretched = [{env: np.exp(3 * x) for env, x in side.items()} for side in by_environment]
    assert found_by(*stretched).typical == found_by(*by_environment).typical


def test_no_difference_has_p_1():
    assert found_by({"a": [0.5] * 5}, {"a": [0.5] * 5}) == DifferenceTest(1.0, 1.0, 1.0)


def test_a_single_run_decides_nothing():
    found = found_by({"a": [5.0]}, {"a": np.zeros(30)})
    assert found.p_value == found.means == 1
    assert np.isnan(found.typical)


@pytest.mark.parametrize("splits", [100, 100_000])  # permutations are drawn, or all of them
@pytest.mark.parametrize("ties", [False, True])
def test_many_experiments_have_the_results_of_each(splits, ties):
    scores = rng().normal(0.5, 1, (2, 30, 2, 4)) + np.array([0.8, 0.0])[:, None, None, None]
    scores = np.round(scores) if ties else scores
    pairs = [(scores[0, :, env], scores[1, :, env]) for env in range(2)]
    options = {"replicates": 500, "splits": splits}
    together = difference_tests(pairs, rng=rng(), **options)
    for at in range(30):
        alone = difference_tests(
            [(x[at : at + 1], y[at : at + 1]) for x, y in pairs], rng=rng(), **options
        )
        for name in ("p_value", "means", "typical"):
            assert getattr(alone, name)[0] == pytest.approx(getattr(together, name)[at])
    bounds = difference_tests(pairs, rng=rng(), bounds=True, **options)
    clear = bounds.means <= 0.05
    assert 0 < clear.sum() < 30
    assert bounds.p_value[clear] == pytest.approx(together.p_value[clear])
    assert (bounds.p_value[~clear] > 0.05).all()


def test_the_effect_is_the_mean_share_of_runs_beaten():
    x, y = np.array([[1.0, 3.0]]), np.array([[2.0, 1.0]])  # wins, ties: 2 of 4, 1 of 4
    masks = permutations([(2, 2)], replicates=1, splits=TALL, rng=rng())
    assert typical_run_tests([(x, y)], masks).effect == pytest.approx([(2 + 0.5) / 4 - 0.5])


@pytest.mark.parametrize(
    ("sizes", "significance", "lacking"),
    [
        ([(3, 3)], 0.05, 1),  # 2 / 20, then 2 / 70
        ([(3, 3)], 0.1, 0),
        ([(4, 3)], 0.05, 1),  # 2 / 35, then 2 / 126
        ([(3, 3)] * 3, 0.05, 0),
        ([(3, 3)], 0.05 / 5, 2),  # 2 / 252
        ([(1, 1)], 0.5, 1),
    ],
)
def test_the_least_p_says_how_many_runs_are_lacking(sizes, significance, lacking):
    assert runs_lacking(sizes, significance) == lacking
    best = [
        ({f"e{i}": np.arange(x) + 100.0 for i, (x, _) in enumerate(sizes)}),
        ({f"e{i}": np.arange(y) - 100.0 for i, (_, y) in enumerate(sizes)}),
    ]
    assert (found_by(*best).p_value <= significance) == (lacking == 0)


def test_a_rare_collapse_is_no_difference_of_typical_runs():
    """Equal means, one of them by a loss in a tenth of all runs: few runs rarely show it."""
    generator = rng(2)
    steady = generator.normal(0.8, 0.05, (600, 7))
    collapsing = generator.normal(0.85, 0.05, (600, 7)) - 0.5 * (generator.random((600, 7)) < 0.1)
    pairs = [(steady, collapsing)]
    options = {"rng": rng(), "bounds": True}
    assert (mean_tests(pairs, **options) <= 0.05).mean() > 0.15
    rejected = difference_tests(pairs, **options).p_value <= 0.05
    # Typical runs of the one that collapses are better; the other is never called better.
    assert not (rejected & (steady.mean(axis=1) > collapsing.mean(axis=1))).any()


@pytest.mark.parametrize(("environments", "replicates"), [(1, 999), (2, 199)])
def test_drawn_permutations_count_the_actual_groups(environments, replicates):
    """Few of them are still not all: p is never 0 (Phipson and Smyth 2010)."""
    generator = rng(3)
    first = {f"e{env}": generator.normal(1.0, 0.1, 12) for env in range(environments)}
    second = {f"e{env}": generator.normal(0.0, 0.1, 12) for env in range(environments)}
    found = found_by(first, second, replicates=replicates)
    assert found.typical == found.means == 1 / (replicates + 1)
