"""Learning curves of published results: a CSV file for a run, and the checks on it.

The header is `step` and the name of the metric, then comes a line per point.
"""

from __future__ import annotations

import csv
import io
import re

import numpy as np

from imitbench.cards.algorithm import STEP_UNITS
from imitbench.errors import InputError
from imitbench.published.findings import Findings
from imitbench.records.curves import MOST_POINTS, LearningCurve, is_known_metric
from imitbench.records.runs import RunResult, RunSpec
from imitbench.util.text_line import one_line

CURVES = "curves"

_METRIC = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+){0,4}")
_LONGEST = 80
_FIX = "export the results again"


def curve_file(suite: str, run_id: str) -> str:
    """Returns the path of the file with a run's learning curve, relative to the folder."""
    return f"{CURVES}/{suite}/{run_id}.csv"


def is_publishable(metric: str) -> bool:
    """Whether published curves may have a metric of this name."""
    named = len(metric) <= _LONGEST and _METRIC.fullmatch(metric) is not None
    return named and is_known_metric(metric)


def curve_text(curve: LearningCurve) -> str:
    """Returns a learning curve as CSV, with numbers that are read as exactly the same."""
    lines = [f"step,{curve.metric}"]
    pairs = zip(curve.steps.tolist(), curve.values.tolist(), strict=True)
    lines += [f"{step},{value!r}" for step, value in pairs]
    return "\n".join(lines) + "\n"


def parse_curve(text: str) -> LearningCurve:
    """Reads a published learning curve.

    Raises:
        InputError: The text is not such a curve. The message does not name a file.
    """
    rows = csv.reader(io.StringIO(text))
    try:
        header = next(rows, [])
        if len(header) != 2 or header[0] != "step":
            raise InputError("columns must be step and a metric")
        metric = header[1]
        if not is_publishable(metric):
            raise InputError(f"unknown metric {one_line(metric, 60)!r}")
        pairs = [(int(step), float(value)) for step, value in rows]
        steps = np.array([step for step, _ in pairs], dtype=np.int64)
        values = np.array([value for _, value in pairs], dtype=np.float64)
    except InputError:
        raise
    except (ValueError, OverflowError, csv.Error) as error:
        raise InputError(f"not a learning curve ({one_line(error, 80)})") from error
    if not 1 <= steps.size <= MOST_POINTS:
        raise InputError(f"{steps.size:,} points, and a curve has 1 to {MOST_POINTS}")
    if not np.isfinite(values).all():
        raise InputError("a value is not finite")
    if (np.diff(steps) <= 0).any():
        raise InputError("steps do not ascend")
    return LearningCurve(metric, steps, values)


def check_curve(
    curve: LearningCurve, spec: RunSpec, result: RunResult, name: str, findings: Findings
) -> None:
    """Checks that the steps of a learning curve are those of its run.

    Args:
        curve: The curve.
        spec: Specification of the run.
        result: Its result.
        name: File of the curve, for messages.
        findings: Receives a problem.
    """
    first, last = int(curve.steps[0]), int(curve.steps[-1])
    most = spec.budget.amount
    if spec.budget.unit in STEP_UNITS:  # the last round may exceed the budget
        most = max(most, result.env_steps)
    if first < 0:
        findings.fail("curves", name, f"a point at step {first}", _FIX)
    elif last > most:
        unit = spec.budget.unit.replace("_", " ")
        findings.fail("curves", name, f"a point at step {last}; the run had {most} {unit}", _FIX)
