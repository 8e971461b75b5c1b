"""The learning curve of a run as it is published: its main metric, at few enough steps to share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from imitbench.records.main_metric import is_known_metric, main_metric

MOST_POINTS = 200
"""Most points of a published curve."""

RETURN_METRIC = "rollout/return_mean"
"""The metric that scores can be made of: mean return, by the environment's own reward, of the
training episodes that ended since the point before."""


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """One metric of a run during training.

    Attributes:
        metric: Name of the metric.
        steps: Units of the budget spent, strictly ascending, int64 of shape (points,).
        values: The metric at these steps, finite, float64 of shape (points,).
    """

    metric: str
    steps: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]

    @property
    def has_returns(self) -> bool:
        """Whether its values are mean returns."""
        return self.metric == RETURN_METRIC

    @property
    def points(self) -> list[Mapping[str, float]]:
        """The curve as a run directory has it."""
        pairs = zip(self.steps.tolist(), self.values.tolist(), strict=True)
        return [{"step": step, self.metric: value} for step, value in pairs]


def main_curve(points: Sequence[Mapping[str, float]]) -> LearningCurve | None:
    """Returns the main metric of a learning curve, thinned to `MOST_POINTS`.

    The first, the last, the greatest and the least value stay, the others are spread evenly over
    the recorded points. A curve that is short enough stays as it is, so thinning twice changes
    nothing. Of several points at one step the latest counts; values that are not finite are left
    out.

    Args:
        points: Points in the order of their steps, each with a `step`.

    Returns:
        The curve; `None` if no metric has a known name or no value is finite.
    """
    found = main_metric(points)
    if found is None or not is_known_metric(found[0]):
        return None
    name = found[0]
    by_step = {int(point["step"]): float(point[name]) for point in points if name in point}
    steps = np.array(sorted(by_step), dtype=np.int64)
    values = np.array([by_step[step] for step in steps.tolist()], dtype=np.float64)
    steps, values = steps[np.isfinite(values)], values[np.isfinite(values)]
    if not steps.size:
        return None
    kept = np.arange(steps.size)
    if steps.size > MOST_POINTS:
        spread = np.linspace(0, steps.size - 1, MOST_POINTS - 2).round().astype(np.intp)
        kept = np.unique(np.append(spread, [values.argmax(), values.argmin()]))
    return LearningCurve(name, steps[kept], values[kept])
