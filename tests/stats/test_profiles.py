from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rliable import library

from imitbench.stats import profiles
from imitbench.stats.bootstrap import ConfidenceBand, resamples
from imitbench.stats.profiles import performance_profile, profile
from imitbench.stats.strata import Strata

SCORES = st.floats(-10, 10).map(lambda x: round(x, 3))
RAGGED = st.dictionaries(
    st.sampled_from("abcd"), st.lists(SCORES, min_size=1, max_size=5), min_size=1
)
AT = np.array([-3.0, -0.5, 0.0, 0.25, 1.0, 4.0])


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def same(one: ConfidenceBand, other: ConfidenceBand) -> bool:
    names = ("at", "values", "low", "high")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def test_the_share_of_runs_above_each_threshold() -> None:
    scores = {"a": [0.2, 0.8], "b": [0.5, 0.5, 1.0, 2.0]}
    found = profile(scores, [0.0, 0.2, 0.5, 0.9, 2.0])
    expected = [1.0, (1 / 2 + 1) / 2, (1 / 2 + 2 / 4) / 2, (0 + 2 / 4) / 2, 0.0]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_profiles_and_bands_are_those_of_rliable() -> None:
    matrix, replicates = rng(1).normal(size=(6, 4)), 500
    at = np.linspace(-2, 2, 9)
    np.random.seed(0)  # noqa: NPY002 - all that rliable's resamples depend on
    values, ends = library.create_performance_profile(
        {"x": matrix}, at, use_score_distribution=True, reps=replicates
    )
    found = performance_profile(matrix, at, replicates=20_000, rng=rng())
    np.testing.assert_allclose(found.values, values["x"], atol=1e-12)
    # Shares are multiples of 1/24, and so are quantiles of resampled ones.
    step = 1 / 24
    np.testing.assert_allclose(found.low, ends["x"][0], atol=step + 1e-9)
    np.testing.assert_allclose(found.high, ends["x"][1], atol=step + 1e-9)


@settings(max_examples=30, deadline=None)
@given(scores=RAGGED)
def test_a_batch_of_resamples_has_the_profile_of_each(scores: dict[str, list[float]]) -> None:
    strata = Strata.of(scores)
    for chunk in resamples(strata, 7, rng()):
        plain = Strata(chunk.values, chunk.sizes)
        each = [profile(Strata(row, chunk.sizes), AT) for row in chunk.values]
        np.testing.assert_allclose(profile(chunk, AT), each, atol=1e-12)
        np.testing.assert_allclose(profile(plain, AT), each, atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(scores=RAGGED)
def test_profiles_fall_from_one_to_zero(scores: dict[str, list[float]]) -> None:
    found = profile(scores, np.linspace(-11, 11, 30))
    assert (np.diff(found) <= 1e-12).all()
    assert found[0] == 1.0
    assert found[-1] == pytest.approx(0.0, abs=1e-12)


@settings(max_examples=20, deadline=None)
@given(scores=RAGGED)
def test_the_order_of_runs_and_environments_does_not_matter(scores: dict[str, list[float]]) -> None:
    shuffled = {name: scores[name][::-1] for name in reversed(list(scores))}
    one, other = (
        performance_profile(each, AT, replicates=50, rng=rng()) for each in (scores, shuffled)
    )
    assert one.known == other.known
    assert same(one, other) or not one.known


def test_bands_enclose_their_curve_and_vanish_beyond_all_scores() -> None:
    scores = {"a": rng(1).uniform(size=8), "b": rng(2).uniform(size=5)}
    found = performance_profile(scores, [-1.0, 0.5, 2.0], replicates=500, rng=rng())
    assert (found.low <= found.values).all()
    assert (found.values <= found.high).all()
    assert found.low[1] < found.values[1] < found.high[1]
    assert (found.low[0], found.high[0]) == (1.0, 1.0)
    assert found.low[2] == pytest.approx(0.0, abs=1e-12)
    assert found.high[2] == pytest.approx(0.0, abs=1e-12)


def test_working_in_parts_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = {"a": rng(1).normal(size=8), "b": rng(2).normal(size=5)}
    whole = performance_profile(scores, AT, replicates=100, rng=rng())
    monkeypatch.setattr(profiles, "MAX_HELD", 250)
    parts = performance_profile(scores, AT, replicates=100, rng=rng())
    assert same(whole, parts)


def test_single_runs_give_a_curve_without_a_band() -> None:
    found = performance_profile({"a": [0.5], "b": [1.5]}, [0.0, 1.0], rng=rng())
    np.testing.assert_array_equal(found.values, [1.0, 0.5])
    assert not found.known


@pytest.mark.parametrize("thresholds", [[], [1.0, 1.0], [2.0, 1.0], [math.nan], [[1.0]], 1.0])
def test_thresholds_must_ascend(thresholds: npt.ArrayLike) -> None:
    with pytest.raises(ValueError, match="thresholds"):
        profile({"a": [1.0]}, thresholds)
