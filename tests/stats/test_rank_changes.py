"""Rank changes between two conditions, on scores whose truth is known."""

import itertools
import math

import numpy as np
import pytest

from imitbench.stats.rank_changes import interaction_test, largest_block, rank_changes
from imitbench.stats.strata import Strata


def drawn(rng, means, runs=6, environments=2, spread=0.1):
    """Returns normal scores; each environment is easier than the one before."""
    return {
        name: {f"e{env}": rng.normal(mean + 0.2 * env, spread, runs) for env in range(environments)}
        for name, mean in zip("ABCDEFGH", means, strict=False)
    }


def samples(table):
    return {name: Strata.of(cells) for name, cells in table.items()}


def test_ranks_tau_and_changes_of_an_example():
    first = {name: {"e": [score, score]} for name, score in {"A": 0.9, "B": 0.5, "C": 0.1}.items()}
    second = {name: {"e": [score, score]} for name, score in {"A": 0.2, "B": 0.6, "C": 0.1}.items()}
    found = rank_changes(first, second, permutations=99)
    assert [(one.algorithm, one.ranks, one.change) for one in found.methods] == [
        ("A", (1, 2), -1),
        ("B", (2, 1), 1),
        ("C", (3, 3), 0),
    ]
    assert found.tau == pytest.approx(1 / 3)  # two of three pairs in the same order
    [change] = found.changes
    assert (change.ahead, change.behind) == ("A", "B")
    assert change.differences == pytest.approx((0.4, -0.4))
    # With two runs each, the actual groups or their opposite are two of six splits.
    assert found.p_value > 0.05
    assert found.decided(0.95) == found.overtaken_by("B", 0.95) == ()


def test_equal_scores_share_a_rank_and_have_no_order():
    table = {name: {"e": [0.5, 0.5]} for name in "AB"}
    found = rank_changes(table, table, permutations=99)
    assert [one.ranks for one in found.methods] == [(1, 1), (1, 1)]
    assert math.isnan(found.tau)
    assert (found.changes, found.p_value, found.interaction.p_value) == ((), 1.0, 1.0)


def test_the_block_leaves_out_the_fewest_cells():
    three, runs = ("x", "y", "z"), [0.5]
    table = {name: dict.fromkeys(three, runs) for name in "AB"}
    table |= {"C": {"x": runs}, "D": {"w": runs}, "E": {}}
    names, environments, left_out = largest_block(table, table)
    assert (names, environments, left_out) == (("A", "B"), three, ("C", "D"))
    other = {**table, "A": {"x": runs}}
    assert largest_block(table, other) == (("A", "B", "C"), ("x",), ("D",))
    apart = {"A": {"x": runs}, "B": {"y": runs}}
    assert largest_block(apart, apart) == ((), (), ("A", "B"))
    assert rank_changes(apart, apart) is None


def test_the_block_is_the_largest_of_all():
    """Three methods that each lack another environment share the others."""
    runs, rng = [0.5], np.random.default_rng(0)
    table = {name: dict.fromkeys(set("123ABC") - {name}, runs) for name in "ABC"}
    assert largest_block(table, table) == (("A", "B", "C"), ("1", "2", "3"), ())
    for _ in range(50):
        table = {name: {env: runs for env in "123456" if rng.random() < 0.7} for name in "ABCDEF"}
        sizes = [
            len(names) * len(set.intersection(*(set(table[name]) for name in names)))
            for count in range(2, 7)
            for names in itertools.combinations(table, count)
        ]
        names, environments, _ = largest_block(table, table)
        assert len(names) * len(environments) == max(sizes)
        assert all(env in table[name] for name in names for env in environments)


def test_the_block_of_many_methods_is_found_soon():
    envs = [f"e{index}" for index in range(40)]
    table = {env: {other: [0.5] for other in envs if other != env} for env in envs[:30]}
    names, environments, left_out = largest_block(table, table)
    assert (len(names), len(environments), len(left_out)) == (20, 20, 10)


def test_the_interaction_is_that_of_a_complete_count():
    """Two methods, two environments, two runs each: the square of a ratio of means and errors."""
    rng = np.random.default_rng(5)
    tables = drawn(rng, (0.4, 0.5), runs=2), drawn(rng, (0.4, 0.5), runs=2)
    pooled = {}
    for name, env in itertools.product("AB", ("e0", "e1")):
        # What a condition does to all methods of an environment is taken off.
        pooled[name, env] = np.concatenate(
            [t[name][env] - np.mean([t[m][env].mean() for m in "AB"]) for t in tables]
        )

    def statistic(chosen):
        total, variance = 0.0, 0.0
        for (name, env), inside in zip(pooled, chosen, strict=True):
            runs = pooled[name, env]
            others = [at for at in range(4) if at not in inside]
            parts = runs[list(inside)], runs[others]
            total += (1 if name == "A" else -1) * (parts[0].mean() - parts[1].mean()) / 2
            variance += sum(part.var(ddof=1) / part.size for part in parts) / 4
        return total**2 / variance

    every = list(itertools.product(itertools.combinations(range(4), 2), repeat=4))
    values = np.array([statistic(chosen) for chosen in every])
    actual = statistic([(0, 1)] * 4)
    found = interaction_test(*map(samples, tables))
    assert (found.permutations, found.exact) == (6**4, True)
    assert found.p_value == pytest.approx(np.mean(values >= actual * (1 - 1e-9)))
    assert 0.01 < found.p_value < 0.99


def test_the_order_of_two_methods_is_that_of_a_complete_count():
    """Drawn permutations of the runs of both give p of all splits, up to their own error."""
    rng = np.random.default_rng(2)
    tables = [
        drawn(rng, means, runs=4, environments=1, spread=0.2) for means in ((0.8, 0.4), (0.3, 0.8))
    ]

    def p_value(table):
        runs = np.concatenate([table["A"]["e0"], table["B"]["e0"]])

        def ratio(inside):
            x, y = runs[list(inside)], np.delete(runs, list(inside))
            return abs(x.mean() - y.mean()) / math.sqrt(x.var(ddof=1) / 4 + y.var(ddof=1) / 4)

        actual = ratio(range(4)) * (1 - 1e-9)
        return np.mean([ratio(c) >= actual for c in itertools.combinations(range(8), 4)])

    [change] = rank_changes(*tables, permutations=20_000).changes
    due = [p_value(table) for table in tables]
    assert (change.ahead, change.behind) == ("A", "B")
    assert change.p_values == pytest.approx(due, abs=0.01)
    assert change.p_value == max(change.p_values)


def test_without_an_interaction_p_values_are_uniform():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(100):
        first = drawn(rng, (0.1, 0.4, 0.5, 0.9))
        second = drawn(rng, (-0.2, 0.1, 0.2, 0.6))
        found.append(rank_changes(first, second, permutations=199))
    p_values = np.sort([each.interaction.p_value for each in found])
    # The distance of Kolmogorov and Smirnov, which exceeds 0.16 in one of a hundred cases.
    assert np.abs(p_values - (np.arange(100) + 0.5) / 100).max() < 0.16
    assert sum(bool(each.decided(0.95)) for each in found) <= 5


def test_differences_that_disappear_are_an_interaction_and_no_change_of_the_order():
    rng = np.random.default_rng(1)
    changes = decided = 0
    for _ in range(40):
        first, second = drawn(rng, (0.1, 0.4, 0.6, 0.9)), drawn(rng, (0.1, 0.1, 0.1, 0.1))
        found = rank_changes(first, second, permutations=199)
        assert found.interaction.p_value == 1 / 200
        changes += len(found.changes)
        decided += bool(found.decided(0.95))
    assert changes > 60  # the ranks of equal methods are accidental
    assert decided <= 5


def test_a_reversed_order_is_found():
    rng = np.random.default_rng(3)
    means = (0.1, 0.3, 0.5, 0.7, 0.9)
    found = rank_changes(drawn(rng, means, spread=0.05), drawn(rng, means[::-1], spread=0.05))
    assert found.tau == -1
    assert (found.interaction.p_value, found.p_value) == (0.0005, 0.0005)
    assert len(found.decided(0.95)) == found.pairs == 10
    assert found.overtaken_by("A", 0.95) == ("B", "C", "D", "E")
    assert [one.change for one in found.methods] == [-4, -2, 0, 2, 4]


def test_only_the_two_that_swap_change_their_order():
    rng = np.random.default_rng(4)
    first = drawn(rng, (0.1, 0.4, 0.6, 0.9), runs=10)
    second = drawn(rng, (0.1, 0.6, 0.4, 0.9), runs=8)
    [change] = rank_changes(first, second).decided(0.95)
    assert (change.ahead, change.behind) == ("C", "B")


def test_methods_with_few_runs_do_not_hide_a_change_of_others():
    rng = np.random.default_rng(6)
    tables = [drawn(rng, means, runs=10) for means in ((0.1, 0.5, 0.3), (0.5, 0.1, 0.3))]
    for table in tables:
        table["C"] = {env: runs[:2] for env, runs in table["C"].items()}
        table["D"] = {env: runs[:1] for env, runs in table["A"].items()}
    found = rank_changes(*tables)
    [change] = found.decided(0.95)
    assert (change.ahead, change.behind) == ("B", "A")
    assert math.isnan(found.interaction.p_value)
    assert found.interaction.permutations == 0


@pytest.mark.parametrize("size", [1e160, 1e200, 1e300, 1.7e308])
def test_scores_whose_squares_are_no_floats_decide_nothing(size):
    before = {"a": {"e": [size, 1.0, 2.0]}, "b": {"e": [size, 2.0, 3.0]}}
    after = {"a": {"e": [2.0, 2.0, 1.0]}, "b": {"e": [1.0, 1.0, -size]}}
    with np.errstate(all="ignore"):
        found = rank_changes(before, after, permutations=99)
    assert math.isnan(found.interaction.p_value)
    assert found.p_value == 1


def test_the_order_of_methods_and_runs_does_not_matter():
    rng = np.random.default_rng(7)
    tables = [drawn(rng, (0.4, 0.5, 0.6)) for _ in range(2)]
    turned = [
        {name: {env: runs[::-1] for env, runs in reversed(cells.items())}
         for name, cells in reversed(table.items())}
        for table in tables
    ]  # fmt: skip
    assert rank_changes(*turned) == rank_changes(*tables)
    assert rank_changes(*tables, seed=1) != rank_changes(*tables)
