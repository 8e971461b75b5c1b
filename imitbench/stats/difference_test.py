"""Tests whether one algorithm's runs are better than another's: their means, and typical runs.

A test of means alone (`imitbench.stats.mean_test`) finds differences that do not exist where scores
are skewed, or where a method rarely collapses: few runs then say little about the mean, and do not
show it. What they do say is how typical runs compare: how often a run of the first scores higher
than one of the second. So a difference counts only if both tests find it, in the same direction,
and what it says is a statement on typical runs.

The test of typical runs permutes a studentized statistic: the probability that a run of the first
is better, less one half, averaged over environments, divided by its standard error. It is exact for
equal distributions, and nearly right wherever the probability is one half, whatever the shapes and
spreads, with ten runs. With few runs of very different spread it is not, as ranks do not show
spreads; there the test of means is right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import numpy.typing as npt

from imitbench.stats.bootstrap import check_options
from imitbench.stats.mean_test import (
    EXACT_SPLITS,
    Mask,
    mean_tests,
    one_experiment,
    permutation_count,
    permutations,
)
from imitbench.stats.strata import FloatArray, Scores

Columns = Sequence[tuple[FloatArray, FloatArray]]
"""For each environment the scores of both, shapes (experiments, runs)."""


@dataclass(frozen=True)
class DifferenceTest:
    """The result of `difference_test`.

    Attributes:
        p_value: The larger of both, two-sided; 1 if their directions differ.
        means: Of the test of means.
        typical: Of the test of typical runs; NaN if a cell has a single run.
    """

    p_value: float
    means: float
    typical: float


@dataclass(frozen=True, eq=False)
class DifferenceTests:
    """Results of `difference_tests`, as `DifferenceTest`, each of shape (experiments,).

    If bounds are enough, `typical` is NaN where the test of means does not reject.
    """

    p_value: FloatArray
    means: FloatArray
    typical: FloatArray


def difference_test(
    first: Scores,
    second: Scores,
    *,
    significance: float = 0.05,
    replicates: int = 50_000,
    rng: np.random.Generator,
) -> DifferenceTest:
    """Tests whether the first's runs are better or worse, over one environment or several.

    Args:
        first: Scores by environment.
        second: Scores on the same environments; run counts may differ.
        significance: Level that p will be compared with, in (0, 1).
        replicates: Number of permutations, if they are drawn.
        rng: Source of drawn permutations; not used otherwise.

    Returns:
        Two-sided p-values; 1 if a cell has a single run.

    Raises:
        ValueError: Scores are unusable, environments differ, or an option is out of range.

    Source: see `imitbench.stats.mean_test` for means; for typical runs Brunner and Munzel 2000,
    "The Nonparametric Behrens-Fisher Problem"; Neubert and Brunner 2007, "A Studentized Permutation
    Test for the Non-Parametric Behrens-Fisher Problem".
    """
    found = difference_tests(
        one_experiment(first, second), significance=significance, replicates=replicates, rng=rng
    )
    return DifferenceTest(
        *(float(values[0]) for values in (found.p_value, found.means, found.typical))
    )


def difference_tests(
    pairs: Columns,
    *,
    significance: float = 0.05,
    replicates: int = 50_000,
    rng: np.random.Generator,
    bounds: bool = False,
    splits: int = EXACT_SPLITS,
    masks: Callable[[], Sequence[Mask]] | None = None,
) -> DifferenceTests:
    """Makes `difference_test` of many experiments of one layout; arguments as `mean_tests`.

    Raises:
        ValueError: An option is out of range.
    """
    check_options(replicates, significance)
    sizes = [(x.shape[1], y.shape[1]) for x, y in pairs]
    new = partial(permutations, sizes, replicates=replicates, splits=splits, rng=rng)
    drawn = cache(masks or new)  # both tests have the same permutations
    by_means = mean_tests(
        pairs,
        significance=significance,
        replicates=replicates,
        rng=rng,
        bounds=bounds,
        splits=splits,
        masks=drawn,
    )
    p_value, by_typical_runs = by_means.copy(), np.full_like(by_means, np.nan)
    chosen = np.flatnonzero(by_means <= (significance if bounds else 1))
    if chosen.size and min(min(pair) for pair in sizes) > 1:
        part = [(x[chosen], y[chosen]) for x, y in pairs]
        typical = typical_run_tests(part, drawn(), splits=splits)
        means = sum(x.mean(axis=1) - y.mean(axis=1) for x, y in part)
        agree = np.sign(typical.effect) == np.sign(means)
        p_value[chosen] = np.where(agree, np.maximum(by_means[chosen], typical.p_value), 1.0)
        by_typical_runs[chosen] = typical.p_value
    return DifferenceTests(p_value, by_means, by_typical_runs)


def runs_lacking(sizes: Sequence[tuple[int, int]], significance: float) -> int:
    """Returns the runs to add to both sides everywhere until `difference_test` could reject.

    Args:
        sizes: Number of runs of both on each environment.
        significance: Level of the test.

    Returns:
        0 if p can be small enough for some scores.
    """
    more = max(0, 2 - min(min(pair) for pair in sizes))
    # At best, only the actual groups and the opposite order are the most extreme.
    while significance * math.prod(math.comb(x + y + 2 * more, x + more) for x, y in sizes) < 2:
        more += 1
    return more


@dataclass(frozen=True, eq=False)
class TypicalRuns:
    """What `typical_run_tests` finds; arrays of shape (experiments,).

    Attributes:
        effect: Probability that a run of the first beats one of the second, ties counted half, less
            one half; mean over environments.
        p_value: Two-sided.
    """

    effect: FloatArray
    p_value: FloatArray


def typical_run_tests(
    pairs: Columns, masks: Sequence[Mask], *, splits: int = EXACT_SPLITS
) -> TypicalRuns:
    """Tests whether a run of the first beats one of the second in half of all cases.

    Args:
        pairs: Scores.
        masks: What `permutations` returned for these sizes, and for `splits`.
        splits: Maximum number of permutations to enumerate, see `permutations`.
    """
    crossed = permutation_count([(x.shape[1], y.shape[1]) for x, y in pairs]) <= splits
    ordered = [_Ordered.of(x, y) for x, y in pairs]
    effect, actual = _statistic(
        [
            _cell(cell.ours, cell.ties, x.shape[1])
            for cell, (x, _) in zip(ordered, pairs, strict=True)
        ],
        crossed=False,
    )
    p_values = np.empty(len(actual))
    # Without ties, permutations depend on nothing but the numbers of runs.
    patterns = np.concatenate([cell.ties[0] for cell in ordered], axis=1)
    for first in np.unique(patterns, axis=0, return_index=True)[1]:
        alike = np.flatnonzero((patterns == patterns[first]).all(axis=1))
        cells = [
            _cell(mask, (cell.ties[0][first], cell.ties[1][first]), x.shape[1])
            for mask, cell, (x, _) in zip(masks, ordered, pairs, strict=True)
        ]
        permuted = np.sort(np.abs(_statistic(cells, crossed=crossed)[1]))
        least = np.abs(actual[alike]) * (1 - 1e-9)
        extreme = permuted.size - np.searchsorted(permuted, least)
        p_values[alike] = (
            extreme / permuted.size if crossed else (extreme + 1) / (permuted.size + 1)
        )
    return TypicalRuns(effect / len(pairs), p_values)


_Counts = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class _Ordered:
    """The runs of both in ascending order; arrays of shape (experiments, runs).

    Attributes:
        ours: Which are the first's.
        ties: Number of runs below each, and number of runs below it or equal to it.
    """

    ours: Mask
    ties: tuple[_Counts, _Counts]

    @classmethod
    def of(cls, x: FloatArray, y: FloatArray) -> _Ordered:
        pooled = np.concatenate([x, y], axis=1)
        order = np.argsort(pooled, axis=1)
        scores = np.take_along_axis(pooled, order, axis=1)
        at = np.arange(pooled.shape[1])
        begins = np.diff(scores, axis=1, prepend=-np.inf) > 0
        ends = np.diff(scores, axis=1, append=np.inf) > 0
        below = np.maximum.accumulate(np.where(begins, at, 0), axis=1)
        upto = np.where(ends, at + 1, at.size)[:, ::-1]
        return cls(order < x.shape[1], (below, np.minimum.accumulate(upto, axis=1)[:, ::-1]))


_Cell = tuple[FloatArray, FloatArray]  # effect and its variance, of experiments or permutations


def _cell(masks: Mask, ties: tuple[_Counts, _Counts], ours: int) -> _Cell:
    """Returns effect and variance on an environment.

    Args:
        masks: Which runs in ascending order are the first's, shape (cases, runs).
        ties: See `_Ordered`; of each case, or of all, shape (runs,).
        ours: Number of the first's runs.
    """
    theirs = masks.shape[1] - ours
    effect, first = _beaten(masks, ~masks, ties, ours, theirs)
    _, second = _beaten(~masks, masks, ties, theirs, ours)
    # If all runs of one are better, no spread is seen; the least that could have been seen counts.
    return effect - 0.5, np.maximum(first + second, 0.5 / (ours * theirs) ** 2)


def _beaten(
    chosen: Mask, others: Mask, ties: tuple[_Counts, _Counts], runs: int, against: int
) -> _Cell:
    """Returns the mean share of others that a chosen run beats, and the variance of this mean."""
    below = np.zeros((len(chosen), chosen.shape[1] + 1), dtype=np.int32)
    np.cumsum(others, axis=1, out=below[:, 1:])
    # Twice the number of others below: whole numbers, so that equal statistics are exactly equal.
    if ties[0].ndim == 1:
        twice = below[:, ties[0]] + below[:, ties[1]]
    else:
        twice = np.take_along_axis(below, ties[0], 1) + np.take_along_axis(below, ties[1], 1)
    twice *= chosen
    total = twice.sum(axis=1)
    squares = np.square(twice, out=twice).sum(axis=1)
    variance = (squares - total**2 / runs) / max(1, runs - 1) / runs
    return total / (2 * against * runs), variance / (2 * against) ** 2


def _statistic(cells: Sequence[_Cell], *, crossed: bool) -> _Cell:
    """Returns the sum of effects, and it divided by its standard error.

    Args:
        cells: Effect and variance by environment.
        crossed: Whether to combine every permutation of an environment with those of the others.
    """
    effect, variance = cells[0]
    for other, spread in cells[1:]:
        if crossed:
            effect = (effect[:, None] + other).ravel()
            variance = (variance[:, None] + spread).ravel()
        else:
            effect, variance = effect + other, variance + spread
    return effect, effect / np.sqrt(variance)
