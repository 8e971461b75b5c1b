"""Averages the scores of runs at each step of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from imitbench.stats.bootstrap import ConfidenceBand
from imitbench.stats.significance import welch_margins
from imitbench.stats.strata import FloatArray


@dataclass(frozen=True, eq=False)
class ScoreCurve:
    """Scores of one run during training.

    Attributes:
        steps: Steps of the evaluations, strictly ascending, shape (evaluations,): environment
            steps, demonstrations, or shares of the budget where budgets differ by environment.
        scores: Scores at these steps, shape (evaluations,).

    Raises:
        ValueError: Shapes differ, arrays are empty or not finite, or steps do not ascend.
    """

    steps: FloatArray
    scores: FloatArray

    def __post_init__(self) -> None:
        steps = np.asarray(self.steps, dtype=np.float64)
        scores = np.asarray(self.scores, dtype=np.float64)
        if steps.ndim != 1 or not steps.size or steps.shape != scores.shape:
            raise ValueError(
                "steps and scores need the same shape (evaluations,), at least one, "
                f"not {steps.shape} and {scores.shape}"
            )
        if not (np.isfinite(steps).all() and np.isfinite(scores).all()):
            raise ValueError("steps and scores must be finite")
        if (np.diff(steps) <= 0).any():
            raise ValueError("steps must be strictly ascending")
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "scores", scores)


Curves = Mapping[str, Sequence[ScoreCurve]]
"""Curves of the runs of one algorithm, by environment."""


def shared_range(*curves: Curves) -> tuple[float, float]:
    """Returns the range of steps in which every run has scores or can be interpolated.

    Args:
        *curves: Curves of one algorithm or of several.

    Returns:
        The latest first step and the earliest last step. The former is greater if some runs ended
        before others started.

    Raises:
        ValueError: There are no runs.
    """
    runs = [run for algorithm in curves for env in algorithm.values() for run in env]
    if not runs:
        raise ValueError("curves: no runs")
    return max(float(run.steps[0]) for run in runs), min(float(run.steps[-1]) for run in runs)


def common_steps(*curves: Curves, count: int = 51) -> FloatArray:
    """Returns evenly spaced steps over the shared range.

    Args:
        *curves: Curves of one algorithm or of several.
        count: Number of steps; a single one is the last.

    Returns:
        Steps of shape (count,), or (1,) if the range is a single step.

    Raises:
        ValueError: There are no runs, or no shared range, or `count` is not positive.
    """
    first, last = shared_range(*curves)
    if first > last:
        raise ValueError(f"curves: no shared steps, as a run ends at {last:g}, others at {first:g}")
    if count < 1:
        raise ValueError(f"count must be at least 1, not {count}")
    return np.array([last]) if first == last or count == 1 else np.linspace(first, last, count)


def mean_curve(curves: Curves, steps: npt.ArrayLike, *, level: float = 0.95) -> ConfidenceBand:
    """Averages over the runs of each environment, then over environments, at each step.

    Each run is interpolated linearly to the steps, and never extrapolated. Intervals are right for
    nearly normal means only.

    Args:
        curves: Runs by environment; their number and their evaluation steps may differ.
        steps: Ascending, inside `shared_range(curves)`, shape (steps,).
        level: Confidence level at each step, in (0, 1).

    Returns:
        Means with pointwise t intervals; ends are NaN if an environment has a single run.

    Raises:
        ValueError: An environment has no runs, or steps are outside the range that all runs have.

    Source: Welch 1947, with a spread for each environment; see `imitbench.stats.significance`.
    """
    at = np.asarray(steps, dtype=np.float64)
    scores, sizes = _interpolated(curves, at)
    cells = np.split(scores, np.cumsum(sizes)[:-1], axis=1)
    means = np.stack([cell.mean(axis=1) for cell in cells], axis=1)
    spread = np.stack(
        [cell.var(axis=1, ddof=1) if cell.shape[1] > 1 else np.zeros(at.size) for cell in cells],
        axis=1,
    )
    counts = np.broadcast_to(np.array(sizes), spread.shape)
    margins = welch_margins(spread, counts, level=level) / len(sizes)
    values = means.mean(axis=1)
    return ConfidenceBand(at, values, values - margins, values + margins, level)


def _interpolated(curves: Curves, at: FloatArray) -> tuple[FloatArray, tuple[int, ...]]:
    """Returns scores of all runs at the steps, shape (steps, runs), and runs per environment."""
    if not curves:
        raise ValueError("curves: no environments")
    columns = []
    for env in sorted(curves):
        if not curves[env]:
            raise ValueError(f"curves: {env} has no runs")
        first, last = shared_range({env: curves[env]})
        if at[0] < first or at[-1] > last:
            raise ValueError(
                f"steps: reach from {at[0]:g} to {at[-1]:g}, but runs on {env} share "
                f"{first:g} to {last:g} only"
            )
        runs = np.stack([np.interp(at, run.steps, run.scores) for run in curves[env]], axis=1)
        columns.append(runs[:, np.lexsort(runs)])
    return np.concatenate(columns, axis=1), tuple(column.shape[1] for column in columns)
