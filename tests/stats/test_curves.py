from __future__ import annotations

import math

import numpy as np
import pytest
from rliable import library, metrics

from imitbench.stats import bootstrap
from imitbench.stats.aggregates import interquartile_mean, mean
from imitbench.stats.bootstrap import stratified_bootstrap
from imitbench.stats.curves import (
    ScoreCurve,
    common_steps,
    mean_curve,
    sample_efficiency,
    shared_range,
)
from imitbench.stats.significance import welch
from imitbench.stats.strata import FloatArray


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def curve(*points: tuple[float, float]) -> ScoreCurve:
    steps, scores = np.array(points).T
    return ScoreCurve(steps, scores)


def by_environment(scores: FloatArray) -> dict[str, list[ScoreCurve]]:
    """Curves from an array of shape (runs, environments, steps)."""
    steps = np.arange(scores.shape[2], dtype=np.float64)
    return {
        f"env{i}": [ScoreCurve(steps, run) for run in runs]
        for i, runs in enumerate(scores.transpose(1, 0, 2))
    }


def test_runs_are_interpolated_to_common_steps() -> None:
    curves = {
        "a": [curve((0, 0.0), (10, 1.0)), curve((0, 0.0), (5, 1.0), (20, 4.0))],
        "b": [curve((0, 1.0), (10, 1.0))],
    }
    found = sample_efficiency(curves, [0, 5, 10], statistic=mean, replicates=10, rng=rng())
    np.testing.assert_array_equal(found.at, [0, 5, 10])
    np.testing.assert_allclose(found.values, [0.5, (0.75 + 1) / 2, (1.5 + 1) / 2])


def test_it_is_that_of_rliable_where_all_runs_are_evaluated_at_the_same_steps() -> None:
    scores = rng(1).normal(size=(6, 3, 4)).cumsum(axis=2)
    replicates = 1000

    def iqms(scores: FloatArray) -> FloatArray:
        return np.array([metrics.aggregate_iqm(scores[..., i]) for i in range(scores.shape[-1])])

    np.random.seed(0)  # noqa: NPY002 - all that rliable's resamples depend on
    points, ends = library.get_interval_estimates({"x": scores}, iqms, reps=replicates)
    found = sample_efficiency(by_environment(scores), np.arange(4), rng=rng(), replicates=20_000)
    np.testing.assert_allclose(found.values, points["x"], rtol=1e-12)
    # As in the tests of the bootstrap: four standard errors of rliable's quantiles.
    tolerance = 4 * 2.7 / math.sqrt(replicates) * (found.high - found.low) / 3.9
    assert (np.abs(found.low - ends["x"][0]) <= tolerance).all()
    assert (np.abs(found.high - ends["x"][1]) <= tolerance).all()


def test_each_step_has_the_interval_of_its_scores() -> None:
    scores = rng(1).normal(size=(9, 2, 3))
    found = sample_efficiency(by_environment(scores), [0, 1, 2], rng=rng())
    for step in range(3):
        alone = stratified_bootstrap(scores[..., step], interquartile_mean, rng=rng(5))
        width = alone.high - alone.low
        assert found.values[step] == pytest.approx(alone.point, rel=1e-12)
        assert found.low[step] == pytest.approx(alone.low, abs=0.04 * width)
        assert found.high[step] == pytest.approx(alone.high, abs=0.04 * width)


def test_unequal_numbers_of_runs_all_count() -> None:
    curves = {
        "many": [curve((0, float(i)), (1, float(i))) for i in range(5)],
        "one": [curve((0, 9.0), (1, 9.0))],
    }
    found = sample_efficiency(curves, [0, 1], replicates=200, rng=rng())
    expected = float(interquartile_mean({"many": np.arange(5.0), "one": [9.0]}))
    assert found.values.tolist() == pytest.approx([expected] * 2)
    assert found.known
    np.testing.assert_array_equal(found.low[0], found.low[1])


def test_the_order_of_runs_and_environments_does_not_matter() -> None:
    curves = by_environment(rng(1).normal(size=(5, 3, 4)))
    shuffled = {env: curves[env][::-1] for env in reversed(list(curves))}
    one, other = (
        sample_efficiency(each, [0.0, 1.5, 3.0], replicates=100, rng=rng())
        for each in (curves, shuffled)
    )
    for name in ("values", "low", "high"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_working_in_parts_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    curves = by_environment(rng(1).normal(size=(5, 3, 7)))
    whole = sample_efficiency(curves, np.arange(7), replicates=100, rng=rng())
    monkeypatch.setattr(bootstrap, "MAX_HELD", 250)
    parts = sample_efficiency(curves, np.arange(7), replicates=100, rng=rng())
    np.testing.assert_array_equal(whole.low, parts.low)
    np.testing.assert_array_equal(whole.high, parts.high)


def test_single_runs_give_a_curve_without_a_band() -> None:
    found = sample_efficiency({"a": [curve((0, 1.0), (1, 2.0))]}, [0.5], rng=rng())
    assert found.values.tolist() == [1.5]
    assert not found.known


def test_steps_are_shared_where_every_run_has_scores() -> None:
    one = {"a": [curve((0, 0.0), (10, 1.0)), curve((2, 0.0), (20, 1.0))]}
    other = {"a": [curve((1, 0.0), (8, 1.0))]}
    assert shared_range(one) == (2, 10)
    assert shared_range(one, other) == (2, 8)
    np.testing.assert_array_equal(common_steps(one, other, count=4), [2, 4, 6, 8])
    np.testing.assert_array_equal(common_steps(one, count=1), [10])
    np.testing.assert_array_equal(common_steps({"a": [curve((3, 0.0))]}), [3])


def test_nothing_is_extrapolated() -> None:
    curves = {"a": [curve((0, 0.0), (10, 1.0)), curve((2, 0.0), (20, 1.0))]}
    with pytest.raises(ValueError, match="reach from 0 to 10, but runs on a share 2 to 10"):
        sample_efficiency(curves, [0, 10], rng=rng())
    with pytest.raises(ValueError, match="share 2 to 10"):
        sample_efficiency(curves, [2, 11], rng=rng())
    apart = {"a": [curve((0, 0.0), (1, 1.0)), curve((2, 0.0), (3, 1.0))]}
    with pytest.raises(ValueError, match="no shared steps, as a run ends at 1, others at 2"):
        common_steps(apart)


@pytest.mark.parametrize(
    ("steps", "scores", "problem"),
    [
        ([0.0, 1.0], [1.0], "same shape"),
        ([], [], "at least one"),
        ([0.0, 0.0], [1.0, 2.0], "strictly ascending"),
        ([0.0, 1.0], [1.0, math.nan], "finite"),
    ],
)
def test_unusable_curves_are_refused(steps: list[float], scores: list[float], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        ScoreCurve(np.array(steps), np.array(scores))


def test_impossible_questions_are_refused() -> None:
    with pytest.raises(ValueError, match="no environments"):
        sample_efficiency({}, [0], rng=rng())
    with pytest.raises(ValueError, match="a has no runs"):
        sample_efficiency({"a": []}, [0], rng=rng())
    with pytest.raises(ValueError, match="no runs"):
        shared_range({})
    with pytest.raises(ValueError, match="steps: need ascending"):
        sample_efficiency({"a": [curve((0, 0.0), (1, 1.0))]}, [1, 0], rng=rng())
    with pytest.raises(ValueError, match="count"):
        common_steps({"a": [curve((0, 0.0), (1, 1.0))]}, count=0)


def test_mean_curves_have_the_intervals_of_a_difference_from_nothing() -> None:
    scores = rng().normal(size=(5, 3, 4)) * [1.0, 2.0, 0.5, 3.0]
    curves = by_environment(scores)
    band = mean_curve(curves, [0, 1.5, 3])
    np.testing.assert_allclose(band.values[[0, 2]], scores.mean(axis=(0, 1))[[0, 3]])
    for place, step in ((0, 0), (2, 3)):
        own = {env: np.array([run.scores[step] for run in runs]) for env, runs in curves.items()}
        # Two methods that are alike have twice the variance and twice the degrees of freedom.
        twice = welch(own, own)
        assert band.high[place] - band.low[place] > 2 * twice.high / math.sqrt(2)
    single = mean_curve({"a": [curve((0, 0.0), (2, 1.0))]}, [0, 1])
    np.testing.assert_array_equal(single.values, [0.0, 0.5])
    assert not single.known
    flat = mean_curve({"a": [curve((0, 0.3), (2, 0.3))] * 3}, [0, 2])
    np.testing.assert_allclose(flat.low, flat.high)
