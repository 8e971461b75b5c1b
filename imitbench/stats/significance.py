"""Tests of whether two algorithms differ, and the correction for making many of them.

Which to use: `permutation` where an answer with few assumptions is wanted, `welch` for an effect
with an interval and for planning (`imitbench.stats.power`), `mann_whitney` on one environment
whose scores have outliers, `wilcoxon` across environments. All are two-sided.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
import numpy.typing as npt

from imitbench.stats.bootstrap import check_options
from imitbench.stats.strata import FloatArray, Scores, matched

EXACT_SPLITS = 200_000
"""Up to how many relabelings all are looked at; ten runs against ten have 184,756."""

EXACT_RUNS = 50
"""Up to how many runs or pairs the distribution of rank sums is computed exactly."""

CHUNK_ELEMENTS = 1 << 18
"""Relabeled runs held at a time, 2 MiB."""

_NORMAL = NormalDist()


@dataclass(frozen=True)
class MeanDifference:
    """Welch's test with the difference that it is about.

    Attributes:
        difference: Mean of the first less that of the second, environments weighing equally.
        low: Lower end of its interval at `level`; NaN where the spread is unknown.
        high: Upper end, likewise.
        level: Coverage, in (0, 1).
        standard_error: Of the difference; NaN where an environment has fewer than two runs.
        degrees: Degrees of freedom by Welch and Satterthwaite; NaN likewise.
        p_value: Two-sided; NaN where the spread is unknown or none was seen.
    """

    difference: float
    low: float
    high: float
    level: float
    standard_error: float
    degrees: float
    p_value: float


@dataclass(frozen=True)
class Significance:
    """The outcome of a test.

    Attributes:
        test: Which.
        statistic: What it looks at; positive differences and high U speak for the first.
        p_value: Two-sided; NaN where there is nothing to test with.
        exact: Whether all relabelings were counted, and not drawn or approximated.
        used: Runs, or pairs, that the test rests on.
        left_out: Pairs left out because they tie.
    """

    test: Literal["permutation", "mann-whitney", "wilcoxon"]
    statistic: float
    p_value: float
    exact: bool
    used: int
    left_out: int = 0


def welch(first: Scores, second: Scores, *, level: float = 0.95) -> MeanDifference:
    """Welch's t test of the difference of means, over one environment or several.

    With several it tests the mean over environments of the difference of means: each is a fixed
    part of the question, not drawn from a population, and has variances of its own.

    Assumes independent runs and means that are nearly normal, which skewed scores of few runs
    are not.

    Args:
        first: Scores by environment.
        second: Scores on the same environments; run counts may differ.
        level: Coverage of the interval, in (0, 1).

    Returns:
        The test. Interval and p are NaN where a cell has a single run, whose spread nobody knows.
        Where all runs of each cell are equal, the interval is the difference itself, and p is 1
        without a difference and NaN with one: t cannot be computed from no spread.

    Raises:
        ValueError: Scores are unusable, those of other environments, or `level` is not inside
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


def variances(first: Scores, second: Scores) -> FloatArray:
    """Sample variances (ddof 1) of all cells: those of the first, then those of the second.

    Args:
        first: Scores by environment, at least two runs in each.
        second: Likewise.

    Returns:
        Shape (2 * environments,).

    Raises:
        ValueError: As `matched`.
    """
    cells = [cell for strata in matched(first, second) for cell in strata.columns()]
    # Equal scores have no variance, whatever their mean rounds to.
    return np.array([0.0 if np.ptp(cell) == 0 else cell.var(ddof=1) for cell in cells])


def standard_error(spread: FloatArray, sizes: FloatArray) -> tuple[float, float]:
    """Standard error of the mean difference over environments, and its degrees of freedom.

    Args:
        spread: Variances as `variances` returns them, shape (2 * environments,).
        sizes: Runs of the same cells, at least two each.

    Returns:
        Both; degrees of freedom are NaN without any spread.
    """
    parts = spread / sizes / (spread.size / 2) ** 2
    total = float(parts.sum())
    if total == 0:
        return 0.0, math.nan
    shares = parts / total
    return math.sqrt(total), float(1 / (shares**2 / (sizes - 1)).sum())


def permutation(
    first: Scores,
    second: Scores,
    *,
    replicates: int = 50_000,
    rng: np.random.Generator,
) -> Significance:
    """Permutation test of the difference of means: what if labels meant nothing?

    Runs change sides within their environment. Under the hypothesis that both algorithms have
    the same distribution of scores in each environment, p is exact whatever the distribution:
    the share of relabelings whose difference, of either sign, is at least as large.
    All relabelings are counted where there are at most `EXACT_SPLITS`; else they are drawn, and
    the labels as they are count as one more, so that p is never 0.

    Few runs allow no small p: three against three on one environment give 0.1 at best.

    Args:
        first: Scores by environment.
        second: Scores on the same environments; run counts may differ.
        replicates: Number of relabelings, where they are drawn.
        rng: Source of these; not used otherwise.

    Returns:
        The test, with the mean over environments of the difference of means as `statistic`.

    Raises:
        ValueError: Scores are unusable, those of other environments, or `replicates` is not
            positive.

    Source: Pitman 1937; for drawn relabelings Phipson and Smyth 2010, "Permutation P-values
    Should Never Be Zero".
    """
    check_options(replicates, 0.5)
    one, other = matched(first, second)
    pairs = list(zip(one.columns(), other.columns(), strict=True))
    difference = float((one.means() - other.means()).mean())
    scale = max(float(np.ptp(np.concatenate(pair))) for pair in pairs)
    least = abs(difference) - 1e-10 * scale
    used = sum(one.sizes) + sum(other.sizes)
    splits = math.prod(math.comb(x.size + y.size, x.size) for x, y in pairs)
    if splits <= EXACT_SPLITS:
        sums: FloatArray = np.zeros(1)
        for x, y in pairs:
            sums = np.add.outer(sums, _all_differences(x, y)).ravel()
        p_value = float((np.abs(sums / len(pairs)) >= least).mean())
        return Significance("permutation", difference, p_value, True, used)
    extreme, rows = 0, max(1, CHUNK_ELEMENTS // used)
    for done in range(0, replicates, rows):
        count = min(rows, replicates - done)
        drawn: FloatArray = np.zeros(count)
        for x, y in pairs:
            pooled = np.concatenate([x, y])
            shuffled = rng.permuted(np.broadcast_to(pooled, (count, pooled.size)), axis=1)
            drawn += _difference(shuffled[:, : x.size].sum(axis=1), x.size, pooled)
        extreme += int((np.abs(drawn / len(pairs)) >= least).sum())
    return Significance("permutation", difference, (extreme + 1) / (replicates + 1), False, used)


def _all_differences(x: FloatArray, y: FloatArray) -> FloatArray:
    """Differences of means of all ways to label the runs of one environment."""
    pooled = np.concatenate([x, y])
    splits = math.comb(pooled.size, x.size)
    chosen = itertools.chain.from_iterable(itertools.combinations(range(pooled.size), x.size))
    index = np.fromiter(chosen, dtype=np.intp, count=splits * x.size).reshape(splits, x.size)
    return _difference(pooled[index].sum(axis=1), x.size, pooled)


def _difference(sums: FloatArray, size: int, pooled: FloatArray) -> FloatArray:
    """Difference of means where `size` of the pooled runs sum up to `sums`."""
    difference: FloatArray = sums / size - (pooled.sum() - sums) / (pooled.size - size)
    return difference


def mann_whitney(first: npt.ArrayLike, second: npt.ArrayLike) -> Significance:
    """Mann-Whitney U test on one environment: does one tend to score higher?

    For runs that are not paired. U divided by the number of pairs is the probability of
    improvement (`imitbench.stats.improvement`). Exact, ties included, up to `EXACT_RUNS` runs;
    beyond, normal with corrections for ties and continuity.

    Args:
        first: Scores of one algorithm, shape (runs,).
        second: Scores of the other, shape (runs,).

    Returns:
        The test, with U as `statistic`: pairs that the first wins, ties counting half.

    Raises:
        ValueError: One has no runs or a score that is not finite.

    Source: Mann and Whitney 1947; Wilcoxon 1945; ties as in Lehmann 1975, "Nonparametrics".
    """
    x, y = _line(first, "first"), _line(second, "second")
    doubled, ties = _doubled_ranks(np.concatenate([x, y]))
    runs, pairs = x.size + y.size, x.size * y.size
    wins = float(doubled[: x.size].sum()) / 2 - x.size * (x.size + 1) / 2
    off = abs(wins - pairs / 2)
    if runs <= EXACT_RUNS:
        chances = _rank_sums(doubled, x.size)
        sums = np.arange(chances.size) / 2 - x.size * (x.size + 1) / 2
        p_value = min(1.0, float(chances[np.abs(sums - pairs / 2) >= off - 1e-9].sum()))
        return Significance("mann-whitney", wins, p_value, True, runs)
    variance = pairs / 12 * (runs + 1 - float((ties**3 - ties).sum()) / (runs * (runs - 1)))
    return Significance("mann-whitney", wins, _two_sided(off, variance), False, runs)


def wilcoxon(first: npt.ArrayLike, second: npt.ArrayLike) -> Significance:
    """Wilcoxon's signed-rank test of paired numbers.

    Pair what belongs together: the mean scores of both algorithms on each environment
    (`wilcoxon_environments`). That asks whether the first is better on environments like these,
    and needs six of them before p can be below 0.05, however many seeds there are. Do not pair
    runs by their seed only because numbers agree: seeds of two algorithms share the choice of
    demonstrations at most, and where they share nothing the pairs are arbitrary and the answer
    changes with them; `permutation` does not need pairs.

    Pairs that tie are left out. Exact, equal differences included, up to `EXACT_RUNS` pairs;
    beyond, normal with corrections for ties and continuity.

    Args:
        first: Numbers of one algorithm, shape (pairs,).
        second: Numbers of the other, in the same order.

    Returns:
        The test, with the sum of ranks of positive differences as `statistic`; p is NaN where
        all pairs tie.

    Raises:
        ValueError: Shapes differ, there are no pairs, or a number is not finite.

    Source: Wilcoxon 1945, "Individual Comparisons by Ranking Methods"; for comparisons over
    several tasks Demsar 2006, "Statistical Comparisons of Classifiers over Multiple Data Sets".
    """
    x, y = _line(first, "first"), _line(second, "second")
    if x.size != y.size:
        raise ValueError(f"second: has {y.size} numbers to pair with {x.size}")
    scale = max(float(np.abs(x).max()), float(np.abs(y).max())) or 1.0
    # Equal differences must tie although they were rounded differently.
    differences = np.round((x - y) / scale, 12)
    differences = differences[differences != 0]
    pairs, tied = differences.size, x.size - differences.size
    if not pairs:
        return Significance("wilcoxon", 0.0, math.nan, True, 0, tied)
    doubled, ties = _doubled_ranks(np.abs(differences))
    total = float(doubled[differences > 0].sum()) / 2
    off = abs(total - pairs * (pairs + 1) / 4)
    if pairs <= EXACT_RUNS:
        chances = np.ones(1)
        for rank in doubled:
            longer = np.zeros(chances.size + rank)
            longer[: chances.size] += chances / 2
            longer[rank:] += chances / 2
            chances = longer
        sums = np.arange(chances.size) / 2
        far = np.abs(sums - pairs * (pairs + 1) / 4) >= off - 1e-9
        p_value = min(1.0, float(chances[far].sum()))
        return Significance("wilcoxon", total, p_value, True, pairs, tied)
    variance = pairs * (pairs + 1) * (2 * pairs + 1) / 24 - float((ties**3 - ties).sum()) / 48
    return Significance("wilcoxon", total, _two_sided(off, variance), False, pairs, tied)


def wilcoxon_environments(first: Scores, second: Scores) -> Significance:
    """`wilcoxon` of the mean scores of two algorithms, paired by environment.

    Args:
        first: Scores by environment.
        second: Scores on the same environments; run counts may differ.

    Returns:
        The test, whose pairs are environments.

    Raises:
        ValueError: Scores are unusable, or those of other environments.

    Source: as `wilcoxon`.
    """
    one, other = matched(first, second)
    return wilcoxon(one.means(), other.means())


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Corrects for testing several hypotheses: the chance of any false alarm stays at the level.

    Args:
        p_values: By name of the test. NaN stands for a test that could not be made: it stays NaN
            and does not count.

    Returns:
        Adjusted values in the same order, to be compared with the level itself.

    Raises:
        ValueError: One lies outside [0, 1].

    Source: Holm 1979, "A Simple Sequentially Rejective Multiple Test Procedure".
    """
    for name, value in p_values.items():
        if not (math.isnan(value) or 0 <= value <= 1):
            raise ValueError(f"p_values: {name} has {value}, which is no probability")
    made = sorted((value, name) for name, value in p_values.items() if not math.isnan(value))
    adjusted = dict.fromkeys(p_values, math.nan)
    least = 0.0
    for place, (value, name) in enumerate(made):
        least = max(least, min(1.0, value * (len(made) - place)))
        adjusted[name] = least
    return adjusted


def _line(numbers: npt.ArrayLike, argument: str) -> FloatArray:
    line = np.asarray(numbers, dtype=np.float64)
    if line.ndim != 1 or not line.size or not np.isfinite(line).all():
        raise ValueError(f"{argument}: needs finite numbers, at least one, shape (runs,)")
    return line


def _doubled_ranks(numbers: FloatArray) -> tuple[npt.NDArray[np.intp], FloatArray]:
    """Twice the ranks, which are whole numbers also where ties share one; and sizes of ties."""
    _, places, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    return (2 * np.cumsum(counts) - counts + 1)[places], counts.astype(np.float64)


def _rank_sums(doubled: npt.NDArray[np.intp], size: int) -> FloatArray:
    """Probability of each sum of doubled ranks of `size` runs chosen at random."""
    ways = np.zeros((size + 1, int(doubled.sum()) + 1))
    ways[0, 0] = 1.0
    for rank in doubled:
        ways[1:, rank:] += ways[:-1, :-rank].copy()
    chances: FloatArray = ways[size] / math.comb(doubled.size, size)
    return chances


def _two_sided(off: float, variance: float) -> float:
    """Two-sided p of a rank sum so far off its mean, by the normal distribution."""
    if variance <= 0:
        return 1.0
    return min(1.0, 2 * _NORMAL.cdf(-max(0.0, off - 0.5) / math.sqrt(variance)))
