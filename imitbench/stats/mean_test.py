"""Tests whether two means differ, for any distribution and for unequal spreads.

A permutation test of the plain difference of means assumes that both algorithms have the same
distribution of scores. With ten runs of a steady method
and three of a wild one it finds a difference between equal means in a quarter of all comparisons:
shuffled groups spread the wild scores over both sides, and the three runs move much more than any
shuffled ones. The test here requires that two tests agree, and so holds where either holds:

- Permutations of Welch's p-value. It is exact if the distributions are the same, whatever they
  are, because any statistic may be permuted. Studentizing (Janssen 1997; Chung and Romano 2013)
  makes it right for unequal spreads with many runs, and taking p instead of t, with the degrees of
  freedom of each permutation (Beran 1988), with far fewer.
- Welch's p-value itself, which holds for nearly normal scores of any spread, also with few runs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from imitbench.stats.bootstrap import check_options
from imitbench.stats.strata import FloatArray, Scores, matched

EXACT_SPLITS = 200_000
"""Maximum number of permutations to enumerate; ten runs against ten have 184,756."""

CHUNK_ELEMENTS = 1 << 18
"""Maximum number of permuted runs in memory, 2 MiB."""

FEW_RUNS = 6
"""With fewer runs on one side, and more on the other, Welch's p is too small far in the tail."""

Mask: TypeAlias = npt.NDArray[np.bool_]
"""Which runs are the first's, shape (permutations, runs of both)."""

NODES = 2_000
"""Number of nodes of the integral for the Behrens-Fisher distribution."""

_ROUNDING = 1e-14
"""Variance of a mean, in squared scales of the scores, that rounding cannot be told from."""


def mean_test(
    first: Scores,
    second: Scores,
    *,
    significance: float = 0.05,
    replicates: int = 50_000,
    rng: np.random.Generator,
) -> float:
    """Tests the difference of means, over one environment or the mean over several.

    p is the larger of two p-values. One is the share of permutations, within environments, whose
    Welch's p is at most the actual one: all of them up to `EXACT_SPLITS`, drawn ones beyond. The
    other is Welch's p itself. If no cell shows any spread, permutations alone decide.

    Degrees of freedom are those of Satterthwaite; over several environments with equal numbers of
    runs, those of Welch, which are less cautious there. On one environment with unequal numbers, of
    which one is less than `FEW_RUNS`, neither holds far in the tail: if `significance` is below
    0.05, as after a correction for several tests, the Behrens-Fisher distribution replaces them.

    A collapse that no run shows is unknown to any test: three equal scores of a method that fails
    half of the time look steady.

    Args:
        first: Scores by environment.
        second: Scores on the same environments; run counts may differ.
        significance: Level that p will be compared with, in (0, 1).
        replicates: Number of permutations, if they are drawn.
        rng: Source of drawn permutations; not used otherwise.

    Returns:
        p, two-sided. If a cell has a single run, whose spread is unknown, p is 1.

    Raises:
        ValueError: Scores are unusable, environments differ, or an option is out of range.

    Source: Welch 1947; Janssen 1997, "Studentized Permutation Tests for Non-i.i.d. Hypotheses and
    the Generalized Behrens-Fisher Problem"; Chung and Romano 2013, "Exact and Asymptotically Robust
    Permutation Tests"; Beran 1988, "Prepivoting Test Statistics"; Phipson and Smyth 2010 for drawn
    permutations; Behrens 1929 and Fisher 1935 for few runs.
    """
    pairs = one_experiment(first, second)
    [p_value] = mean_tests(
        pairs, significance=significance, replicates=replicates, rng=rng, splits=EXACT_SPLITS
    )
    return float(p_value)


def one_experiment(first: Scores, second: Scores) -> list[tuple[FloatArray, FloatArray]]:
    """Returns the scores of a single comparison in the form of many, shapes (1, runs).

    Raises:
        ValueError: Scores are unusable, or environments differ.
    """
    one, other = matched(first, second)
    return [(x[None], y[None]) for x, y in zip(one.columns(), other.columns(), strict=True)]


def mean_tests(
    pairs: Sequence[tuple[FloatArray, FloatArray]],
    *,
    significance: float = 0.05,
    replicates: int = 50_000,
    rng: np.random.Generator,
    bounds: bool = False,
    splits: int = EXACT_SPLITS,
    masks: Callable[[], Sequence[Mask]] | None = None,
) -> FloatArray:
    """Makes the test `mean_test` of many experiments of one layout, for simulations.

    Args:
        pairs: For each environment the scores of both algorithms, shapes (experiments, runs).
        significance: Level that p will be compared with, in (0, 1).
        replicates: Number of permutations, if they are drawn; they are the same in all experiments.
        rng: Source of drawn permutations; not used otherwise.
        bounds: Whether a lower bound of p is enough where p is above `significance`; much quicker,
            as most experiments then need no permutations.
        splits: Maximum number of permutations to enumerate; beyond, they are drawn.
        masks: Returns what `permutations` returned for the same sizes, `replicates` and `splits`,
            to make them once for several calls; called if they are needed.

    Returns:
        P-values, shape (experiments,).

    Raises:
        ValueError: An option is out of range.
    """
    check_options(replicates, significance)
    experiments = pairs[0][0].shape[0]
    sizes = [(x.shape[1], y.shape[1]) for x, y in pairs]
    if min(min(pair) for pair in sizes) == 1:
        return np.ones(experiments)
    actual, scale, equal = _actual(pairs)
    found = _welch(actual, scale, equal)[:, 0]
    undecided = np.flatnonzero(found <= significance) if bounds else np.arange(experiments)
    if not undecided.size:
        return found
    exact = permutation_count(sizes) <= splits
    made = masks() if masks else permutations(sizes, replicates=replicates, splits=splits, rng=rng)
    floats = [mask.astype(np.float64) for mask in made]
    rows = max(1, CHUNK_ELEMENTS // sum(mask.shape[0] for mask in floats))
    for at in range(0, undecided.size, rows):
        chosen = undecided[at : at + rows]
        part = [(x[chosen], y[chosen]) for x, y in pairs]
        found[chosen] = _p_values(part, floats, exact, significance)
    return found


def permutations(
    sizes: Sequence[tuple[int, int]], *, replicates: int, splits: int, rng: np.random.Generator
) -> list[Mask]:
    """Returns which runs are the first's in each permutation, by environment.

    Args:
        sizes: Number of runs of both on each environment.
        replicates: Number of permutations, if they are drawn.
        splits: Maximum number to enumerate: all permutations of each environment are returned then,
            to be combined with each other.
        rng: Source of drawn ones.

    Returns:
        Arrays of shape (permutations, runs of both).
    """
    if permutation_count(sizes) > splits:
        return draw_permutations(sizes, replicates, rng)
    return enumerate_permutations(sizes)


def draw_permutations(
    sizes: Sequence[tuple[int, int]], replicates: int, rng: np.random.Generator
) -> list[Mask]:
    """Draws permutations, see `permutations`; those of all environments belong together."""
    actual = [np.arange(first + second) < first for first, second in sizes]
    return [rng.permuted(np.broadcast_to(mask, (replicates, mask.size)), axis=1) for mask in actual]


def enumerate_permutations(sizes: Sequence[tuple[int, int]]) -> list[Mask]:
    """Returns all permutations of each environment, to be combined with those of the others."""
    masks = []
    for first, second in sizes:
        chosen = choices(first + second, first)
        mask = np.zeros((chosen.shape[0], first + second), dtype=bool)
        np.put_along_axis(mask, chosen, True, axis=1)
        masks.append(mask)
    return masks


@lru_cache(maxsize=4)
def choices(runs: int, size: int) -> npt.NDArray[np.intp]:
    """Returns all ways to choose some of the runs of an environment.

    Args:
        runs: Number of runs.
        size: Number of chosen ones.

    Returns:
        Indices, shape (ways, size); at most `EXACT_SPLITS` ways are worth this.
    """
    ways = math.comb(runs, size)
    chosen = itertools.chain.from_iterable(itertools.combinations(range(runs), size))
    index = np.fromiter(chosen, dtype=np.intp, count=ways * size).reshape(ways, size)
    index.flags.writeable = False
    return index


def permutation_count(sizes: Sequence[tuple[int, int]]) -> int:
    """Returns the number of all permutations of all environments together."""
    return math.prod(math.comb(first + second, first) for first, second in sizes)


def _p_values(
    pairs: Sequence[tuple[FloatArray, FloatArray]],
    masks: list[FloatArray],
    exact: bool,
    significance: float,
) -> FloatArray:
    actual, scale, equal = _actual(pairs)
    least = _welch(actual, scale, equal)
    parts = [_permuted(*pair, mask) for pair, mask in zip(pairs, masks, strict=True)]
    permuted = _combined(parts, crossed=exact)
    extreme = _at_most(permuted, least, scale, equal)
    count = permuted.difference.shape[1]
    by_permutation = extreme / count if exact else (extreme + 1) / (count + 1)
    [*others, runs] = [(x.shape[1], y.shape[1]) for x, y in pairs]
    few = not others and runs[0] != runs[1] and min(runs) < FEW_RUNS and significance < 0.05
    by_spread = _behrens_fisher(actual, runs, scale) if few else least[:, 0]
    return np.asarray(np.maximum(by_permutation, by_spread))


def _actual(
    pairs: Sequence[tuple[FloatArray, FloatArray]],
) -> tuple[_Permutations, FloatArray, bool]:
    """Returns numbers of the actual groups, the largest range of scores, and if sizes are equal.

    Sizes count as equal only over several environments, where degrees of freedom depend on it.
    """
    scale = np.max([np.ptp(np.concatenate(pair, axis=1), axis=1) for pair in pairs], axis=0)
    parts = []
    for x, y in pairs:
        mask = np.arange(x.shape[1] + y.shape[1]) < x.shape[1]
        parts.append(_permuted(x, y, mask.astype(np.float64)[None]))
    equal = len(pairs) > 1 and all(x.shape == y.shape for x, y in pairs)
    return _combined(parts), scale[:, None], equal


@dataclass(frozen=True, eq=False)
class _Permutations:
    """Numbers of several permutations of the runs, each of shape (experiments, permutations).

    Attributes:
        difference: Difference of means, summed over environments.
        variance: Estimated variance of it.
        satterthwaite: Sum of squared parts of the variance, each divided by its runs less 1.
        welch: The same, divided by its runs plus 1.
        parts: Variance of both means; only of use on a single environment.
    """

    difference: FloatArray
    variance: FloatArray
    satterthwaite: FloatArray
    welch: FloatArray
    parts: tuple[FloatArray, FloatArray]


def _permuted(x: FloatArray, y: FloatArray, mask: FloatArray) -> _Permutations:
    """Returns the numbers of one environment.

    Args:
        x: Runs of the first, shape (experiments, runs).
        y: Runs of the second.
        mask: 1 for runs taken as the first's, else 0, shape (permutations, runs of both).
    """
    ours, theirs = x.shape[1], y.shape[1]
    pooled = np.concatenate([x, y], axis=1)
    centred = pooled - pooled.mean(axis=1, keepdims=True)
    squares = np.square(centred)
    sums, ours_squared = centred @ mask.T, squares @ mask.T
    means = sums / ours, -sums / theirs  # all runs add up to 0
    theirs_squared = squares.sum(axis=1, keepdims=True) - ours_squared
    scale = np.ptp(pooled, axis=1)[:, None]
    first = _variance(ours_squared, means[0], ours, scale)
    second = _variance(theirs_squared, means[1], theirs, scale)
    return _Permutations(
        means[0] - means[1],
        first + second,
        first**2 / (ours - 1) + second**2 / (theirs - 1),
        first**2 / (ours + 1) + second**2 / (theirs + 1),
        (first, second),
    )


def _variance(squares: FloatArray, mean: FloatArray, size: int, scale: FloatArray) -> FloatArray:
    """Returns the variance of a mean; exactly 0 if the runs are equal up to rounding."""
    found = (squares - size * mean**2) / (size - 1) / size
    return np.where(found <= _ROUNDING * scale**2, 0.0, found)


def _combined(cells: list[_Permutations], *, crossed: bool = False) -> _Permutations:
    """Sums over environments; if `crossed`, for all combinations of their permutations."""

    def total(parts: list[FloatArray]) -> FloatArray:
        found = parts[0]
        for part in parts[1:]:
            if crossed:
                found = (found[:, :, None] + part[:, None, :]).reshape(found.shape[0], -1)
            else:
                found = found + part
        return found

    return _Permutations(
        total([cell.difference for cell in cells]),
        total([cell.variance for cell in cells]),
        total([cell.satterthwaite for cell in cells]),
        total([cell.welch for cell in cells]),
        cells[0].parts,
    )


def _at_most(found: _Permutations, least: FloatArray, scale: FloatArray, equal: bool) -> FloatArray:
    """Returns for each experiment the number of permutations whose p is at most `least`."""
    from scipy.special import ndtri

    # Permutations that are the same up to rounding must tie.
    least = least * (1 + 1e-6)
    # The lowest |t| with such a p has the normal distribution; t is quick to compute.
    inside = (least > 0) & (least < 1)
    bound = np.where(inside, -ndtri(np.where(inside, least, 0.5) / 2), 0.0)
    rows, columns = np.nonzero(
        np.abs(found.difference) >= (1 - 1e-6) * bound * np.sqrt(found.variance)
    )
    near = _Permutations(
        found.difference[rows, columns],
        found.variance[rows, columns],
        found.satterthwaite[rows, columns],
        found.welch[rows, columns],
        found.parts,
    )
    reached = _welch(near, scale[rows, 0], equal) <= least[rows, 0]
    return np.bincount(rows[reached], minlength=least.shape[0]).astype(np.float64)


def _welch(found: _Permutations, scale: FloatArray, equal: bool) -> FloatArray:
    """Returns Welch's p of each permutation; without any spread, 0 if means differ and else 1."""
    from scipy.special import stdtr

    away = np.abs(found.difference) > 1e-10 * scale
    steady = found.variance == 0
    variance = np.where(steady, 1.0, found.variance)
    degrees = variance**2 / np.where(steady, 1.0, found.satterthwaite)
    if equal:
        unbiased = variance**2 / np.where(steady, 1.0, found.welch) - 2
        degrees = np.maximum(degrees, unbiased)
    p_values = 2 * stdtr(degrees, -np.abs(found.difference) / np.sqrt(variance))
    return np.where(away, np.where(steady, 0.0, p_values), 1.0)


def _behrens_fisher(actual: _Permutations, runs: tuple[int, int], scale: FloatArray) -> FloatArray:
    """Returns p of differences on one environment by the Behrens-Fisher distribution."""
    from scipy.special import stdtr, stdtrit

    first, second = (part[:, 0] for part in actual.parts)
    away = np.abs(actual.difference[:, 0])
    swap = second > first
    large, small = np.where(swap, second, first), np.where(swap, first, second)
    degrees = np.where(swap, runs[1], runs[0]) - 1, np.where(swap, runs[0], runs[1]) - 1
    quantiles = stdtrit(degrees[1][:, None], (np.arange(NODES) + 0.5) / NODES)
    steady = large == 0
    root = np.sqrt(np.where(steady, 1.0, large))[:, None]
    reached = (away[:, None] + np.sqrt(small)[:, None] * quantiles) / root
    p_values = 2 * stdtr(degrees[0][:, None], -reached).mean(axis=1)
    return np.where(steady, np.where(away > 1e-10 * scale[:, 0], 0.0, 1.0), p_values)
