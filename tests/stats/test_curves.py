from __future__ import annotations

import math

import numpy as np
import pytest

from imitbench.stats.curves import ScoreCurve, common_steps, mean_curve, shared_range
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
    found = mean_curve(curves, [0, 5, 10])
    np.testing.assert_array_equal(found.at, [0, 5, 10])
    np.testing.assert_allclose(found.values, [0.5, (0.75 + 1) / 2, (1.5 + 1) / 2])


def test_the_order_of_runs_and_environments_does_not_matter() -> None:
    curves = by_environment(rng(1).normal(size=(5, 3, 4)))
    shuffled = {env: curves[env][::-1] for env in reversed(list(curves))}
    one, other = (mean_curve(runs, [0.0, 1.5, 3.0]) for runs in (curves, shuffled))
    for name in ("values", "low", "high"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


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
        mean_curve(curves, [0, 10])
    with pytest.raises(ValueError, match="share 2 to 10"):
        mean_curve(curves, [2, 11])
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
        mean_curve({}, [0])
    with pytest.raises(ValueError, match="a has no runs"):
        mean_curve({"a": []}, [0])
    with pytest.raises(ValueError, match="no runs"):
        shared_range({})
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
