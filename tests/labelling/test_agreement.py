"""Krippendorff's alpha against published examples, and what is said of annotators."""

import math

import numpy as np
import pytest
from support.labelling import write_small_set

from imitbench.labelling.agreement import agreement, krippendorff_alpha, summarize
from imitbench.labelling.answers import GivenAnswer
from imitbench.labelling.label_set import LabelSet

NAN = math.nan
# Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability", section C: 4 observers, 12
# units; the reliability data with which textbooks and libraries check their implementations.
OBSERVERS = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
        [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
    ]
)
# Section A: two observers and binary data.
BINARY = np.array([[0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]], dtype=float)


def alpha(values):
    return krippendorff_alpha(values, np.random.default_rng(1))


@pytest.mark.parametrize(("values", "published"), [(OBSERVERS, 0.849), (BINARY, 0.095)])
def test_alpha_is_that_of_the_published_examples(values, published):
    assert alpha(values).value == pytest.approx(published, abs=6e-4)


def test_alpha_is_one_for_agreement_and_negative_for_opposition():
    same = np.array([[0.0, 1, 0, 1]] * 3)
    assert alpha(same).value == 1.0
    opposed = np.array([[0.0, 1, 0, 1], [1, 0, 1, 0]])
    assert alpha(opposed).value < -0.5


@pytest.mark.parametrize("values", [[[1.0, 1.0], [1.0, 1.0]], [[1.0, 0.0]], [[NAN], [1.0]]])
def test_alpha_is_undefined_without_variation_or_second_values(values):
    assert math.isnan(alpha(values).value)


def test_the_interval_has_the_value_in_it_and_shrinks_with_units():
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=400).astype(float)
    table = np.array([np.where(rng.random(400) < 0.85, truth, 1 - truth) for _ in range(3)])
    few = alpha(table[:, :40])
    many = alpha(table)
    assert few.low < few.value < few.high
    assert many.high - many.low < 0.5 * (few.high - few.low)
    assert many == alpha(table)


def given(annotator, pair, choice, purpose="new", swapped=False, ms=1000):
    return GivenAnswer(f"{annotator}{pair}{purpose}", annotator, None, pair, purpose, swapped,
                       choice, ms, 0.0)  # fmt: skip


def test_agreement_counts_what_was_meant_not_the_side_and_leaves_repeats_out():
    answers = [
        given(1, "a", "left"), given(2, "a", "right", swapped=True),
        given(1, "b", "right"), given(2, "b", "left", swapped=True),
        given(1, "c", "left"), given(2, "c", "skip"),
        given(2, "a", "left", purpose="repeat", swapped=True),
    ]  # fmt: skip
    found = agreement(answers)
    assert (found.value, found.units) == (1.0, 2)


def test_an_annotator_is_summarized(tmp_path):
    labels = LabelSet(write_small_set(tmp_path / "set", pairs=4, obvious=1))
    [obvious] = [pair for pair in labels.header.pairs if pair.expected]
    swapped = obvious.expected == "first"
    one, two = (pair.digest for pair in labels.header.pairs[:2])
    found = summarize(
        7,
        [
            given(7, one, "left", ms=1000),
            given(7, two, "tie", ms=3000),
            given(7, one, "right", "repeat", swapped=True, ms=2000),
            given(7, two, "left", "repeat", ms=None),
            given(7, obvious.digest, "right", "obvious", swapped=swapped, ms=None),
        ],
        labels.pairs,
    )
    assert found.choices == {"left": 2, "right": 2, "tie": 1, "skip": 0}
    assert (found.answers, found.median_ms, found.left_share) == (5, 2000.0, 0.5)
    assert (found.repeats, found.consistent) == (2, 1)
    assert (found.obvious, found.sane) == (1, 1)
