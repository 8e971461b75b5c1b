"""The main metric of a learning curve: the one number to show where there is room for one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_BEST_KNOWN = ("return_mean", "return", "loss", "accuracy")
"""Last parts of names, the most telling first."""


def is_return(name: str) -> bool:
    """Whether a metric is a return of the environment's own reward, as the references are."""
    return name.rpartition("/")[2] in ("return_mean", "return")


def main_metric(points: Sequence[Mapping[str, float]]) -> tuple[str, float] | None:
    """Chooses the metric that says most about a training, and returns its latest value.

    That is the mean return of the episodes during training if the method logs it, else a loss, else
    an accuracy, else the first metric. Points may lack metrics: no episode may have ended since
    the last one.

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


def _rank(name: str) -> int:
    last = name.rpartition("/")[2]
    return _BEST_KNOWN.index(last) if last in _BEST_KNOWN else len(_BEST_KNOWN)
