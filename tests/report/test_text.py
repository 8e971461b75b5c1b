from __future__ import annotations

import math

import pytest

from imitbench.report.model import Report
from imitbench.report.text import all_seeds, conditions, fixed, message, raw, score


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1234567.891, "1234567.89"),
        (-0.5, "-0.50"),
        (0.0, "0.00"),
        (0.01234, "0.0123"),
        (-0.00012345, "-0.000123"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (None, "n/a"),
    ],
)
def test_raw_returns_have_two_decimals_or_three_digits(value: float | None, shown: str) -> None:
    assert raw(value) == shown


def test_scores_have_three_decimals() -> None:
    assert score(0.98765) == "0.988"


def test_there_is_no_minus_zero() -> None:
    assert fixed(-0.0001, 3) == "0.000"
    assert fixed(-0.0, 0) == "0"
    assert fixed(-0.0006, 3) == "-0.001"


def test_seeds_of_all_algorithms_are_stated_once(report: Report) -> None:
    assert all_seeds(report.sections[0]) == "2, 2-3, 3"


def test_conditions_are_a_sentence(report: Report) -> None:
    said = conditions(report.sections[0], report)
    assert said.startswith("50 episodes, stochastic policy; ")
    assert "references version 1.0. Failed runs are left out" in said


def test_messages_are_one_line_and_not_too_long() -> None:
    assert message("a\nb") == "a b"
    assert message("x" * 301) == "x" * 300 + "…"
