"""Whether two means differ, for any distribution and for unequal spreads."""

import itertools

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from support.permutations import permutation_p_value

from imitbench.stats import mean_test as module
from imitbench.stats.mean_test import mean_test, mean_tests
from imitbench.stats.significance import welch

RUNS = st.lists(st.integers(-6, 6).map(float), min_size=2, max_size=4)
CELLS = st.fixed_dictionaries({"a": RUNS, "b": RUNS})


def rng(seed=0):
    return np.random.default_rng(seed)


def found_by(first, second, **options):
    return mean_test(first, second, rng=rng(), **options)


def welch_by_hand(cells):
    """Welch's p over environments, in a loop; 0 or 1 without spread."""
    parts, difference = [], 0.0
    for x, y in cells:
        difference += np.mean(x) - np.mean(y)
        parts += [(np.var(side, ddof=1) / len(side), len(side)) for side in (x, y)]
    variance = sum(part for part, _ in parts)
    if abs(difference) < 1e-9:
        return 1.0
    if variance < 1e-12:
        return 0.0
    degrees = variance**2 / sum(part**2 / (size - 1) for part, size in parts)
    if len(cells) > 1 and all(len(x) == len(y) for x, y in cells):
        degrees = max(degrees, variance**2 / sum(p**2 / (n + 1) for p, n in parts) - 2)
    return 2 * scipy.stats.t.sf(abs(difference) / np.sqrt(variance), degrees)


def by_hand(first, second):
    """The whole test, all labelings in a loop."""

    def labelings(env):
        x, y = first[env], second[env]
        pooled = [*x, *y]
        for chosen in itertools.combinations(range(len(pooled)), len(x)):
            ours = [pooled[i] for i in chosen]
            yield ours, [pooled[i] for i in range(len(pooled)) if i not in chosen]

    actual = welch_by_hand([(first[env], second[env]) for env in first])
    found = [welch_by_hand(cells) for cells in itertools.product(*map(labelings, first))]
    return max(actual, np.mean([p <= actual * (1 + 1e-6) for p in found]))


@settings(max_examples=15, deadline=None)
@given(first=CELLS, second=CELLS)
def test_few_runs_are_permuted_in_all_ways(first, second):
    assert found_by(first, second) == pytest.approx(by_hand(first, second), rel=1e-5)


@settings(max_examples=15, deadline=None)
@given(first=RUNS, second=RUNS)
def test_one_environment_is_permuted_in_all_ways(first, second):
    found = found_by({"a": first}, {"a": second})
    assert found == pytest.approx(by_hand({"a": first}, {"a": second}), rel=1e-5)


@settings(max_examples=15, deadline=None)
@given(first=CELLS, second=CELLS, shift=st.integers(-5, 5), scale=st.integers(1, 5))
def test_shift_scale_order_and_sides_change_no_p_value(first, second, shift, scale):
    def moved(cells):
        return {env: [x * scale + shift for x in runs[::-1]] for env, runs in cells.items()}

    before = found_by(first, second)
    assert found_by(moved(first), moved(second)) == pytest.approx(before)
    assert found_by(second, first) == pytest.approx(before)
    assert 0 < before <= 1


def test_drawn_labelings_come_near_to_all_of_them(monkeypatch):
    one, other = {"a": rng(1).exponential(1, 5)}, {"a": rng(51).exponential(1, 5) + 0.8}
    exact = found_by(one, other)
    monkeypatch.setattr(module, "EXACT_SPLITS", 10)
    drawn = found_by(one, other, replicates=20_000)
    assert drawn != exact
    assert drawn == pytest.approx(exact, abs=0.01)


def test_p_is_never_below_that_of_welch_on_one_environment():
    for seed in range(20):
        one, other = {"a": rng(seed).normal(0, 0.02, 10)}, {"a": rng(seed).normal(0.1, 0.3, 6)}
        assert found_by(one, other) >= welch(one, other).p_value


def test_few_wild_runs_against_many_steady_ones_need_more_than_luck():
    """Permutations of the difference find the three highest of thirteen: p is 1 / 286."""
    steady, wild = {"a": np.linspace(0.48, 0.52, 10)}, {"a": [0.55, 0.7, 0.9]}
    assert found_by(steady, wild) > 0.1


def test_far_in_the_tail_few_unequal_runs_have_the_behrens_fisher_distribution():
    one, other = {"a": rng(1).normal(0, 1, 12)}, {"a": [2.0, 3.0, 4.5, 6.0]}
    plain, careful = (found_by(one, other, significance=level) for level in (0.05, 0.01))
    parts = [np.std(runs["a"], ddof=1) / np.sqrt(len(runs["a"])) for runs in (one, other)]
    draws = parts[0] * rng(3).standard_t(11, 10**6) - parts[1] * rng(4).standard_t(3, 10**6)
    away = abs(np.mean(one["a"]) - np.mean(other["a"]))
    assert careful == pytest.approx(np.mean(np.abs(draws) >= away), rel=0.02)
    assert careful > plain
    same = {"a": rng(2).normal(4, 2, 12)}
    assert found_by(one, same, significance=0.01) == found_by(one, same)


def test_the_behrens_fisher_distribution_of_one_spread_is_that_of_t():
    """Fisher 1935: if one mean is known exactly, the difference has Student's distribution."""
    one, other = {"a": [1.0] * 5}, {"a": rng(0).normal(1.3, 0.5, 14)}
    found = found_by(one, other, significance=0.01)
    assert found == pytest.approx(scipy.stats.ttest_1samp(other["a"], 1.0).pvalue, rel=0.01)


def test_without_spread_labels_alone_decide():
    assert found_by({"a": [1.0] * 4}, {"a": [0.0] * 4}) == pytest.approx(2 / 70)
    assert found_by({"a": [0.1] * 4}, {"a": [0.1] * 4}) == 1
    two = found_by({"a": [1.0] * 3, "b": [0.3] * 3}, {"a": [0.0] * 3, "b": [0.3] * 3})
    assert two == pytest.approx(2 / 20)


def test_a_single_run_shows_no_spread_and_decides_nothing():
    assert found_by({"a": [5.0]}, {"a": np.zeros(30)}) == 1


@pytest.mark.parametrize("shape", ["exponential", "collapse"])
def test_p_of_equal_distributions_is_spread_evenly_or_higher(shape):
    generator = rng(3)
    if shape == "exponential":
        one, other, more, less = generator.exponential(size=(4, 1000, 4))
    else:
        one, other, more, less = (generator.random((4, 1000, 4)) < 0.4) * 1.0
    p = mean_tests([(one, other), (more[:, :2], less[:, :3])], replicates=1000, rng=generator)
    for level in (0.05, 0.2, 0.5):
        assert np.mean(p <= level) < level + 0.025


def drawn(runs, spreads, environments, experiments, shift=0.0):
    generator = rng(0)
    return [
        tuple(
            generator.normal(mean, spread, (experiments, size))
            for mean, spread, size in zip((0.5, 0.5 + shift), spreads, runs, strict=True)
        )
        for _ in range(environments)
    ]


def rejections(pairs, environments=1):
    level = 0.05 / environments
    options = {"significance": level, "replicates": 1000, "bounds": True}
    return mean_tests(pairs, rng=rng(), **options) <= level


def test_bounds_are_p_values_where_these_are_small():
    pairs = drawn((6, 4), (0.1, 0.2), 2, 80, 0.1)
    p, bounds = (
        mean_tests(pairs, replicates=500, rng=rng(), bounds=quick) for quick in (False, True)
    )
    assert (p <= 0.05).any()
    np.testing.assert_array_equal(p <= 0.05, bounds <= 0.05)
    assert (bounds <= p).all()


def alarms(runs, spreads, environments, experiments):
    """How often the test rejects with equal means, overall and anywhere."""
    pairs = drawn(runs, spreads, environments, experiments)
    anywhere = np.any([rejections([pair], environments) for pair in pairs], axis=0)
    return rejections(pairs).sum(), anywhere.sum()


def test_a_steady_method_and_a_wild_one_of_the_same_mean_are_rarely_told_apart():
    # At 6 %, more than 30 of 300 come with a probability of 0.2 %.
    assert max(alarms((10, 3), (0.02, 0.3), 3, 300)) <= 30


@pytest.mark.slow
@pytest.mark.parametrize("environments", [1, 3, 5])
@pytest.mark.parametrize("spreads", [(0.02, 0.3), (0.3, 0.02), (0.1, 0.3), (0.1, 0.1)])
@pytest.mark.parametrize("runs", [(10, 3), (10, 5), (20, 5), (5, 5)])
def test_false_alarms_are_rare_with_unequal_numbers_and_spreads(runs, spreads, environments):
    # At 6 %, more than 82 of 1,000 come with a probability of 0.2 %.
    assert max(alarms(runs, spreads, environments, 1000)) <= 82


@pytest.mark.slow
@pytest.mark.parametrize(
    ("runs", "environments", "shift"), [(5, 1, 0.2), (10, 1, 0.13), (3, 3, 0.15), (5, 5, 0.08)]
)
def test_equal_spreads_cost_less_than_three_points_of_power(runs, environments, shift):
    pairs = drawn((runs, runs), (0.1, 0.1), environments, 1000, shift)
    plain = [
        permutation_p_value(
            {str(i): x[at] for i, (x, _) in enumerate(pairs)},
            {str(i): y[at] for i, (_, y) in enumerate(pairs)},
            replicates=1000,
        )
        <= 0.05
        for at in range(1000)
    ]
    assert np.mean(plain) - rejections(pairs).mean() <= 0.03


def test_opposite_differences_on_environments_do_not_hide_the_one_of_the_means():
    """Shuffled labels spread both differences over both sides, but also their variance."""
    noise = [rng(seed).normal(0, 0.03, (3, 5)) for seed in (1, 2)]
    levels = [np.array([[0.9], [1.0], [0.3]]), np.array([[0.6], [0.5], [0.86]])]
    one, other = (
        dict(zip("abc", level + runs, strict=True))
        for level, runs in zip(levels, noise, strict=True)
    )
    assert permutation_p_value(one, other) > 0.05
    assert found_by(one, other) < 0.01
