"""Decisions about all pairs are those of single comparisons."""

from itertools import combinations

import numpy as np
import pytest

from imitbench.stats.decided_pairs import decided_pairs
from imitbench.stats.verdicts import verdicts


def cells(level, spread, rng, seeds=8, environments=3):
    return {f"e{place}": level + spread * rng.normal(size=seeds) for place in range(environments)}


def decided_one_by_one(table):
    found = set()
    for first, second in combinations(table, 2):
        [verdict] = verdicts(first, table[first], {second: table[second]}, replicates=2_000)
        if verdict.decision == "better":
            found.add((first, second))
        elif verdict.decision == "worse":
            found.add((second, first))
    return found


def test_decisions_are_those_of_single_comparisons():
    rng = np.random.default_rng(0)
    table = {
        "best": cells(0.95, 0.02, rng),
        "close": cells(0.94, 0.05, rng),
        "middle": cells(0.6, 0.1, rng),
        "few": cells(0.3, 0.05, rng, seeds=4),
        "wild": cells(0.5, 0.6, rng),
    }
    found = decided_pairs(table)
    assert found == decided_one_by_one(table)
    assert ("best", "few") in found
    assert ("best", "close") not in found
    assert ("close", "best") not in found


def test_a_single_run_decides_nothing():
    rng = np.random.default_rng(0)
    table = {"a": cells(0.9, 0.0, rng, seeds=1), "b": cells(0.1, 0.0, rng, seeds=1)}
    assert decided_pairs(table) == frozenset()


def test_one_algorithm_has_no_pairs_and_different_environments_are_an_error():
    one = {"e0": np.array([0.5, 0.6])}
    assert decided_pairs({"a": one}) == frozenset()
    with pytest.raises(ValueError, match="environment"):
        decided_pairs({"a": one, "b": {"e1": np.array([0.5, 0.6])}})
