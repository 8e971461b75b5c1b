from __future__ import annotations

import numpy as np
import pytest

from imitbench.stats.coverage import (
    FailurePolicy,
    MissingCell,
    compared_coverage,
    count_failures,
    coverage,
)

TABLE = {
    "bc": {"ant": [0.1, 0.2, 0.3], "hopper": [0.5], "swimmer": [0.7, 0.8]},
    "gail": {"ant": [0.4, 0.5], "hopper": [], "walker": [0.9]},
}


def test_failed_runs_can_count_as_random() -> None:
    found = count_failures(
        {"ant": [0.9, 0.8]}, {"ant": 1, "hopper": 2}, FailurePolicy.COUNT_AS_RANDOM
    )
    assert {env: runs.tolist() for env, runs in found.items()} == {
        "ant": [0.9, 0.8, 0.0],
        "hopper": [0.0, 0.0],
    }


def test_failed_runs_can_be_excluded_which_may_leave_a_cell_missing() -> None:
    found = count_failures(
        {"ant": [0.9, 0.8]},
        {"ant": 1, "hopper": 2, "swimmer": 0},
        FailurePolicy.EXCLUDE,
    )
    assert {env: runs.tolist() for env, runs in found.items()} == {"ant": [0.9, 0.8]}


def test_each_policy_has_a_sentence_for_reports() -> None:
    assert FailurePolicy("count-as-random").statement != FailurePolicy("exclude").statement
    assert all(policy.statement.endswith(".") for policy in FailurePolicy)


def test_negative_failures_are_refused() -> None:
    with pytest.raises(ValueError, match="failures: ant has -1"):
        count_failures({"ant": [0.9]}, {"ant": -1}, FailurePolicy.EXCLUDE)


def test_a_comparison_is_over_the_environments_that_all_have_and_names_what_is_missing() -> None:
    over = coverage(TABLE)
    assert over.algorithms == ("bc", "gail")
    assert over.environments == ("ant",)
    assert over.missing == (
        MissingCell("gail", "hopper"),
        MissingCell("gail", "swimmer"),
        MissingCell("bc", "walker"),
    )
    assert over.runs == ((3, 3), (2, 2))


def test_no_run_is_cut_to_make_numbers_even() -> None:
    restricted, over = compared_coverage(TABLE)
    assert over == coverage(TABLE)
    np.testing.assert_array_equal(restricted["bc"]["ant"], [0.1, 0.2, 0.3])
    np.testing.assert_array_equal(restricted["gail"]["ant"], [0.4, 0.5])
    assert [set(cells) for cells in restricted.values()] == [{"ant"}, {"ant"}]


def test_complete_tables_miss_nothing() -> None:
    over = coverage({"bc": {"a": [1.0], "b": [2.0, 3.0]}, "gail": {"b": [1.0], "a": [2.0]}})
    assert over.missing == ()
    assert over.environments == ("a", "b")
    assert over.runs == ((1, 2), (1, 1))
