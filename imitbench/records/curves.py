"""Learning curves of runs: the main metric, and the curve that is published.

The main metric is the one to show where there is room for one. A published curve has it at few
enough steps to share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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


_BEST_KNOWN = ("return_mean", "return", "loss", "accuracy")
"""Last parts of names, the most telling first."""


def is_return(name: str) -> bool:
    """Whether a metric is a return of the environment's own reward, as the references are."""
    return name.rpartition("/")[2] in ("return_mean", "return")


def main_metric(points: Sequence[Mapping[str, float]]) -> tuple[str, float] | None:
    """Chooses the metric that says most about a training, and returns its latest value.

    That is the mean return of the episodes during training if the method logs it, else a loss, else
    an accuracy, else the first metric. The policy's own `loss` comes before that of a part, such as
    `discriminator/loss`. Points may lack metrics: no episode may have ended since the last one, or
    a part may not learn any more.

    Args:
        points: Points of a learning curve, in order; `step` is not a metric.

    Returns:
        Name and latest value; `None` if there is no metric.
    """
    latest = {name: value for point in points for name, value in point.items() if name != "step"}
    name = min(latest, key=_rank, default=None)
    return None if name is None else (name, latest[name])


def is_known_metric(name: str) -> bool:
    """Whether the last part of a metric's name says what it is: a return, loss or accuracy."""
    return name.rpartition("/")[2] in _BEST_KNOWN


def _rank(name: str) -> tuple[int, bool]:
    part, _, last = name.rpartition("/")
    known = last in _BEST_KNOWN
    return _BEST_KNOWN.index(last) if known else len(_BEST_KNOWN), known and bool(part)
