"""What one look of a race says about one comparison: test, repeated interval and decision.

Everything is computed for many experiments at once, so that simulations (`imitbench.stats.racing`)
decide exactly as races do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from imitbench.stats.difference_test import difference_tests
from imitbench.stats.mean_test import Mask, permutations
from imitbench.stats.strata import FloatArray

Outcome: TypeAlias = Literal["better", "worse", "equivalent", "undecided"]

Columns: TypeAlias = Sequence[tuple[FloatArray, FloatArray]]
"""For each environment the scores of both methods, shapes (experiments, runs)."""

EQUIVALENCE_RUNS = 10
"""Runs of each side on each environment without which nothing is called equivalent."""

EXACT_SPLITS = 20_000
"""Maximum number of permutations to enumerate; eight runs against eight have 12,870."""

_MOST_DRAWN = 1 << 22  # more take gigabytes, which a design of somebody else could ask for


@dataclass(frozen=True)
class Levels:
    """Nominal two-sided levels of one look.

    Attributes:
        test: Level of the test; 0 to make none.
        interval: Level of the repeated confidence interval.
    """

    test: float
    interval: float


@dataclass(frozen=True, eq=False)
class LookResult:
    """What a look finds in each experiment; all arrays have the shape (experiments,).

    Attributes:
        p_value: Of the test; a lower bound of it where that alone is above the level. NaN without
            a test.
        difference: Mean of the first less that of the second; environments weigh equally.
        low: Lower end of the interval; NaN if the spread is unknown.
        high: Upper end.
        outcome: Decision about the first.
    """

    p_value: FloatArray
    difference: FloatArray
    low: FloatArray
    high: FloatArray
    outcome: npt.NDArray[np.str_]


def look_at(
    columns: Columns,
    levels: Levels,
    *,
    margin: float | None,
    replicates: int,
    seed: tuple[int, int],
) -> LookResult:
    """Looks at a comparison once.

    `better` and `worse` require p at or below the level of the test. `equivalent` requires that
    the interval lies within the margin, also if the most extreme run of each cell is counted twice,
    and at least `EQUIVALENCE_RUNS` runs: the tail of skewed scores shows itself late.

    Args:
        columns: At least one run of each method on each environment.
        levels: Levels of this look.
        margin: Largest difference that counts as none; `None` to never decide so.
        replicates: Least number of permutations, if they are drawn.
        seed: Of drawn permutations, and the number of the look.

    Returns:
        Numbers and decisions of all experiments.
    """
    difference, low, high = _intervals(columns, levels.interval)
    p_value = np.full(difference.shape, np.nan)
    if levels.test > 0:
        drawn = _drawn(replicates, levels.test)
        sizes = tuple((x.shape[1], y.shape[1]) for x, y in columns)
        p_value = difference_tests(
            columns,
            significance=levels.test,
            replicates=drawn,
            rng=np.random.default_rng(seed),
            bounds=True,
            splits=EXACT_SPLITS,
            masks=lambda: _masks(sizes, drawn, seed),
        ).p_value
    outcome = np.full(difference.shape, "undecided", dtype="<U10")
    least = min(scores.shape[1] for pair in columns for scores in pair)
    if margin is not None and least >= EQUIVALENCE_RUNS:
        near = np.flatnonzero((-margin < low) & (high < margin))
        outcome[near[_stays_within(columns, near, levels.interval, margin)]] = "equivalent"
    rejected = (p_value <= levels.test) & (difference != 0)
    outcome[rejected & (difference > 0)] = "better"
    outcome[rejected & (difference < 0)] = "worse"
    return LookResult(p_value, difference, low, high, outcome)


def _drawn(replicates: int, level: float) -> int:
    """Returns enough permutations for the level: `replicates`, doubled as often as needed.

    With fewer than that, p is valid, too (Phipson and Smyth 2010), but rarely small enough.
    """
    wanted = min(10 / level, _MOST_DRAWN)
    doublings = max(0, math.ceil(math.log2(wanted / replicates)))
    return replicates << doublings


@lru_cache(maxsize=16)
def _masks(
    sizes: tuple[tuple[int, int], ...], drawn: int, seed: tuple[int, int]
) -> tuple[Mask, ...]:
    rng = np.random.default_rng(seed)
    return tuple(permutations(sizes, replicates=drawn, splits=EXACT_SPLITS, rng=rng))


def _intervals(columns: Columns, level: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Returns the difference of means and both ends of its repeated confidence interval.

    It is Welch's interval at 1 - `level`. At nominal levels (`nominal_levels`) the intervals of all
    looks together contain the difference with probability 1 - alpha, also if a race stops because
    of them. If all runs of a cell are equal, what none of n runs showed is allowed for: a collapse
    to the score 0 or, where all have 0, such as no success, a score of 1. With probability
    1 - level / 2 its rate is at most 1 - (level / 2)^(1 / n).

    Args:
        columns: Scores.
        level: Nominal level of the look.

    Returns:
        Each of shape (experiments,); ends are NaN if a cell has a single run.

    Source: Jennison and Turnbull 1989; Clopper and Pearson 1934 for what was not seen.
    """
    from scipy.special import stdtrit

    environments = len(columns)
    shape = columns[0][0].shape[:1]
    difference, total, squares = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    unseen = np.zeros(shape), np.zeros(shape)
    for pair in columns:
        for side, (scores, sign) in enumerate(zip(pair, (1, -1), strict=True)):
            runs = scores.shape[1]
            mean = scores.mean(axis=1)
            difference = difference + sign * mean / environments
            if runs == 1:
                total = np.full(shape, np.nan)
                continue
            # Equal scores have no variance, even if their mean is rounded.
            steady = np.ptp(scores, axis=1) == 0
            part = np.where(steady, 0.0, scores.var(axis=1, ddof=1)) / runs / environments**2
            total = total + part
            squares = squares + part**2 / (runs - 1)
            rate = 1 - (level / 2) ** (1 / runs)
            unseen[side][:] += np.where(steady, np.abs(mean) * rate, 0.0) / environments
            unseen[1 - side][:] += np.where(steady & (mean == 0), rate, 0.0) / environments
    known = total > 0
    degrees = np.where(known, total, 1.0) ** 2 / np.where(known, squares, 1.0)
    half = np.where(total == 0, 0.0, stdtrit(degrees, 1 - level / 2) * np.sqrt(total))
    return difference, difference - half - unseen[0], difference + half + unseen[1]


def _stays_within(
    columns: Columns, chosen: npt.NDArray[np.intp], level: float, margin: float
) -> npt.NDArray[np.bool_]:
    """Returns where the interval is within the margin with any extreme run counted twice."""
    within = np.ones(chosen.size, dtype=bool)
    if not chosen.size:
        return within
    picked = [(x[chosen], y[chosen]) for x, y in columns]
    for extremes in ((np.min, np.max), (np.max, np.min)):
        doubled = [
            tuple(
                np.concatenate([scores, extreme(scores, axis=1, keepdims=True)], axis=1)
                for scores, extreme in zip(pair, extremes, strict=True)
            )
            for pair in picked
        ]
        _, low, high = _intervals([(x, y) for x, y in doubled], level)
        within &= (-margin < low) & (high < margin)
    return within
