"""Tests whether two means differ by Welch's test, and corrects for several tests.

To decide, use `imitbench.stats.mean_test`; `welch` is for an effect with an interval, and for
planning (`imitbench.stats.power`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from imitbench.stats.bootstrap import Interval, check_options, no_interval
from imitbench.stats.strata import FloatArray, Scores, matched

Key = TypeVar("Key")


@dataclass(frozen=True)
class MeanDifference:
    """The result of Welch's test, with the tested difference.

    Attributes:
        difference: Mean of the first minus mean of the second; environments weigh equally.
        low: Lower end of its interval at `level`; NaN if the spread is unknown.
        high: Upper end of this interval; NaN if the spread is unknown.
        level: Confidence level, in (0, 1).
        standard_error: Standard error of the difference; NaN if an environment has fewer than two
            runs.
        degrees: Degrees of freedom by Welch and Satterthwaite; NaN without a standard error.
        p_value: Two-sided; NaN if the spread is unknown, or 0 with a difference.
    """

    difference: float
    low: float
    high: float
    level: float
    standard_error: float
    degrees: float
    p_value: float


def welch(first: Scores, second: Scores, *, level: float = 0.95) -> MeanDifference:
    """Makes Welch's t test of the difference of means, over one environment or several.

    With several it tests the mean over environments of the difference of means: environments are
    fixed, not drawn from a population, and each has its own variances.

    Assumes independent runs and nearly normal means, which does not hold for skewed scores of few
    runs.

    Args:
        first: Scores by environment.
        second: Scores on the same environments; run counts may differ.
        level: Confidence level of the interval, in (0, 1).

    Returns:
        The test. Interval and p are NaN if a cell has a single run, whose spread is unknown. If
        all runs of each cell are equal, the interval is the difference itself, and p is 1 without
        a difference and NaN with one: t cannot be computed without spread.

    Raises:
        ValueError: Scores are unusable, environments differ, or `level` is not inside
            (0, 1).

    Source: Welch 1947, "The Generalization of 'Student's' Problem when Several Different
    Population Variances are Involved"; degrees of freedom by Satterthwaite 1946.
    """
    from scipy.special import stdtr, stdtrit

    check_options(1, level)
    one, other = matched(first, second)
    difference = float((one.means() - other.means()).mean())
    if min(one.sizes + other.sizes) == 1:
        unknown = math.nan
        return MeanDifference(difference, unknown, unknown, level, unknown, unknown, unknown)
    spread = variances(first, second)
    sizes = np.array(one.sizes + other.sizes, dtype=np.float64)
    error, degrees = standard_error(spread, sizes)
    if error == 0:
        p_value = 1.0 if difference == 0 else math.nan
        return MeanDifference(difference, difference, difference, level, 0.0, math.nan, p_value)
    p_value = float(2 * stdtr(degrees, -abs(difference) / error))
    margin = float(stdtrit(degrees, (1 + level) / 2)) * error
    ends = difference - margin, difference + margin
    return MeanDifference(difference, *ends, level, error, degrees, p_value)


def mean_interval(values: npt.ArrayLike, *, level: float = 0.95) -> Interval:
    """Returns the mean of independent values with Student's t interval.

    Assumes a nearly normal mean, as `welch` does.

    Args:
        values: Shape `(n,)`, at least one.
        level: Confidence level, in (0, 1).

    Returns:
        The interval; its ends are NaN for a single value, whose spread is unknown.

    Raises:
        ValueError: There are no values, or `level` is not inside (0, 1).

    Source: Student 1908, "The Probable Error of a Mean".
    """
    from scipy.special import stdtrit

    check_options(1, level)
    known = np.asarray(values, dtype=np.float64)
    if known.ndim != 1 or len(known) == 0:
        raise ValueError(f"values have shape {known.shape}, and not (n,) with n at least 1")
    mean, runs = float(known.mean()), len(known)
    if runs == 1:
        return no_interval(mean, level)
    error = float(known.std(ddof=1)) / math.sqrt(runs)
    margin = float(stdtrit(runs - 1, (1 + level) / 2)) * error
    return Interval(mean, mean - margin, mean + margin, level)


def welch_margins(
    spread: FloatArray, sizes: npt.NDArray[np.integer[Any]], *, level: float = 0.95
) -> FloatArray:
    """Returns the half-widths of Welch's intervals of many differences of means at once.

    Args:
        spread: Sample variances (ddof 1) of the cells of each difference, shape (..., cells).
        sizes: Number of runs of these cells, same shape.
        level: Confidence level, in (0, 1).

    Returns:
        Shape (...): NaN where a cell has fewer than two runs, 0 where none has any spread. For a
        difference of means over environments that weigh equally, divide by their number.

    Source: see `welch`.
    """
    from scipy.special import stdtrit

    with np.errstate(invalid="ignore", divide="ignore"):
        parts = np.where(sizes > 1, spread / sizes, np.nan)
        total = parts.sum(axis=-1)
        degrees = total**2 / (parts**2 / (sizes - 1)).sum(axis=-1)
        margins = stdtrit(degrees, (1 + level) / 2) * np.sqrt(total)
    return np.asarray(np.where(total == 0, 0.0, margins))


def variances(first: Scores, second: Scores) -> FloatArray:
    """Returns sample variances (ddof 1) of all cells: of the first, then of the second.

    Args:
        first: Scores by environment, at least two runs in each.
        second: Scores on the same environments, at least two runs in each.

    Returns:
        Shape (2 * environments,).

    Raises:
        ValueError: As `matched`.
    """
    cells = [cell for strata in matched(first, second) for cell in strata.columns()]
    # Equal scores have no variance, even if their mean is rounded.
    return np.array([0.0 if np.ptp(cell) == 0 else cell.var(ddof=1) for cell in cells])


def standard_error(spread: FloatArray, sizes: FloatArray) -> tuple[float, float]:
    """Returns the standard error of the mean difference over environments, and its degrees.

    Args:
        spread: Variances as `variances` returns them, shape (2 * environments,).
        sizes: Number of runs of the same cells, at least two each.

    Returns:
        Both numbers; degrees of freedom are NaN without any spread.
    """
    parts = spread / sizes / (spread.size / 2) ** 2
    total = float(parts.sum())
    if total == 0:
        return 0.0, math.nan
    shares = parts / total
    return math.sqrt(total), float(1 / (shares**2 / (sizes - 1)).sum())


def significance_at(level: float) -> float:
    """Returns 1 - `level`, which floats would make less than 0.1 for a level of 0.9."""
    return round(1 - level, 12)


def holm(p_values: Mapping[Key, float]) -> dict[Key, float]:
    """Corrects for several hypotheses, so that the chance of any false alarm stays at the level.

    Args:
        p_values: P-values by name of the test. NaN means that the test could not be made: it stays
            NaN and does not count.

    Returns:
        Adjusted values in the same order, to be compared with the level itself.

    Raises:
        ValueError: A p-value is outside [0, 1].

    Source: Holm 1979, "A Simple Sequentially Rejective Multiple Test Procedure".
    """
    for name, value in p_values.items():
        if not (math.isnan(value) or 0 <= value <= 1):
            raise ValueError(f"p_values: {name} has {value}, which is not a probability")
    known = [(value, name) for name, value in p_values.items() if not math.isnan(value)]
    made = sorted(known, key=lambda pair: pair[0])
    adjusted = dict.fromkeys(p_values, math.nan)
    least = 0.0
    for index, (value, name) in enumerate(made):
        least = max(least, min(1.0, value * (len(made) - index)))
        adjusted[name] = least
    return adjusted
