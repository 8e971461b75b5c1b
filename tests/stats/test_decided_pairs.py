"""Decisions about all pairs are those of single comparisons."""

from itertools import combinations

import numpy as np
import pytest

from imitbench.stats.decided_pairs import compared_pairs, winners
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
    found = winners(compared_pairs(table))
    assert found == decided_one_by_one(table)
    assert ("best", "few") in found
    assert ("best", "close") not in found
    assert ("close", "best") not in found


def test_pairs_are_corrected_for_each_other():
    rng = np.random.default_rng(3)
    table = {f"m{at}": cells(0.5 + 0.06 * at, 0.1, rng, environments=1) for at in range(6)}
    pairs = list(combinations(table, 2))
    outcomes = compared_pairs(table, corrected=pairs)
    for pair in pairs:
        [verdict] = verdicts(pair[0], table[pair[0]], {pair[1]: table[pair[1]]})
        if outcomes[pair].p_value <= 0.05:
            assert outcomes[pair].p_value == verdict.test.p_value
        else:
            assert verdict.test.p_value > 0.05
    alone, together = winners(outcomes), winners(outcomes, 0.05)
    assert 0 < len(together) < len(alone)
    strict = {pair for pair, outcome in outcomes.items() if outcome.p_value <= 0.05 / len(pairs)}
    assert strict <= {*together, *(pair[::-1] for pair in together)}


def test_the_level_is_that_of_single_comparisons_to_the_last_digit():
    """Three clearly better runs of three have p = 0.1, and as floats 1 - 0.9 is less."""
    table = {"a": {"e": [1.0, 1.1, 1.2]}, "b": {"e": [0.1, 0.15, 0.3]}}
    [verdict] = verdicts("a", table["a"], {"b": table["b"]}, level=0.9)
    assert (verdict.decision, verdict.test.p_value) == ("better", 0.1)
    outcome = compared_pairs(table, level=0.9)["a", "b"]
    assert (outcome.decision, outcome.p_value, outcome.lacking) == ("better", 0.1, 0)


def test_a_single_run_decides_nothing():
    rng = np.random.default_rng(0)
    table = {"a": cells(0.9, 0.0, rng, seeds=1), "b": cells(0.1, 0.0, rng, seeds=1)}
    assert winners(compared_pairs(table)) == frozenset()


def test_pairs_are_compared_over_what_both_have():
    rng = np.random.default_rng(1)
    table = {
        "whole": cells(0.9, 0.02, rng),
        "part": {"e0": 0.5 + 0.02 * rng.normal(size=8)},
        "other": {"e1": 0.5 + 0.02 * rng.normal(size=8)},
        "few": {"e1": np.array([0.5])},
    }
    found = compared_pairs(table)
    assert list(found) == [("whole", "part"), ("whole", "other"), ("whole", "few"),
                           ("other", "few")]  # fmt: skip
    for (first, second), outcome in found.items():
        [verdict] = verdicts(first, table[first], {second: table[second]}, replicates=2_000)
        assert outcome.decision == verdict.decision
        assert outcome.environments == verdict.coverage.environments
        assert outcome.lacking == verdict.test.lacking
        assert outcome.iqm.point == pytest.approx(verdict.iqm.point)
        assert (outcome.iqm.low, outcome.iqm.high) == pytest.approx(
            (verdict.iqm.low, verdict.iqm.high), abs=0.02, nan_ok=True
        )
    assert found["whole", "part"].environments == ("e0",)
    assert found["whole", "few"].lacking > 0


def test_pairs_do_not_depend_on_the_other_algorithms_but_for_resamples():
    rng = np.random.default_rng(2)
    table = {name: cells(level, 0.05, rng) for name, level in (("a", 0.9), ("b", 0.5), ("c", 0.4))}
    alone = {name: table[name] for name in ("a", "b")}
    assert compared_pairs(table)["a", "b"] == compared_pairs(alone)["a", "b"]
