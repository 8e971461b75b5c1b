"""Tests whether two algorithms differ, and corrects for several tests.

Which one to use: `imitbench.stats.mean_test` to decide, `permutation` if both sides can differ in
nothing but their means, `welch` for an effect with an interval and for planning
(`imitbench.stats.power`), `mann_whitney` on one environment whose scores have outliers, `wilcoxon`
across environments. All are two-sided.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from imitbench.stats.bootstrap import check_options
from imitbench.stats.strata import FloatArray, Scores, matched

EXACT_SPLITS = 200_000
"""Maximum number of relabelings to enumerate; ten runs against ten have 184,756."""

EXACT_RUNS = 50
"""Maximum number of runs or pairs for the exact distribution of rank sums."""

CHUNK_ELEMENTS = 1 << 18
"""Maximum number of relabeled runs in memory, 2 MiB."""

_NORMAL = NormalDist()


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


@dataclass(frozen=True)
class Significance:
    """The result of a test.

    Attributes:
        test: Name of the test.
        statistic: Value of the test statistic; positive differences and high U favour the first.
        p_value: Two-sided; NaN without data to test.
        exact: Whether all relabelings were counted, not drawn or approximated.
        used: Number of runs, or pairs, in the test.
        left_out: Number of pairs excluded because they tie.
    """

    test: Literal["permutation", "welch-permutation", "mann-whitney", "wilcoxon"]
    statistic: float
    p_value: float
    exact: bool
    used: int
    left_out: int = 0


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


def permutation(
    first: Scores,
    second: Scores,
    *,
    replicates: int = 50_000,
    rng: np.random.Generator,
) -> Significance:
    """Makes a permutation test of the difference of means.

    Runs are relabeled within their environment. Under the hypothesis that both algorithms have
    the same distribution of scores in each environment, p is exact for any distribution: the
    share of relabelings whose difference, of either sign, is at least as large.
    If there are at most `EXACT_SPLITS` relabelings, all are counted. Otherwise they are drawn, and
    the actual labels count as one more, so that p is never 0.

    Few runs cannot give a small p: three against three on one environment give 0.1 at best.

    If spreads differ, equal means alone do not make p valid: with unequal numbers of runs it is far
    too small. `imitbench.stats.mean_test` is right there, too.

    Args:
        first: Scores by environment.
        second: Scores on the same environments; run counts may differ.
        replicates: Number of relabelings, if they are drawn.
        rng: Source of drawn relabelings; not used otherwise.

    Returns:
        The test, with the mean over environments of the difference of means as `statistic`.

    Raises:
        ValueError: Scores are unusable, environments differ, or `replicates` is not positive.

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
    """Returns the differences of means for all labelings of the runs of one environment."""
    pooled = np.concatenate([x, y])
    return _difference(pooled[choices(pooled.size, x.size)].sum(axis=1), x.size, pooled)


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


def _difference(sums: FloatArray, size: int, pooled: FloatArray) -> FloatArray:
    """Returns the difference of means if `size` of the pooled runs have the sum `sums`."""
    difference: FloatArray = sums / size - (pooled.sum() - sums) / (pooled.size - size)
    return difference


def mann_whitney(first: npt.ArrayLike, second: npt.ArrayLike) -> Significance:
    """Makes a Mann-Whitney U test on one environment: does one algorithm tend to score higher?

    For unpaired runs. U divided by the number of pairs is the probability of
    improvement (`imitbench.stats.improvement`). Exact, ties included, up to `EXACT_RUNS` runs;
    beyond, normal with corrections for ties and continuity.

    Args:
        first: Scores of one algorithm, shape (runs,).
        second: Scores of the other, shape (runs,).

    Returns:
        The test, with U as `statistic`: number of pairs that the first wins, ties counting half.

    Raises:
        ValueError: An algorithm has no runs, or a score that is not finite.

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
    """Makes Wilcoxon's signed-rank test of paired numbers.

    Pair numbers that belong together: the mean scores of both algorithms on each environment
    (`wilcoxon_environments`). This tests whether the first is better on such environments, and
    needs at least six of them for p below 0.05, for any number of seeds. Do not pair runs only
    because they have the same seed: runs of two algorithms with one seed share at most the choice
    of demonstrations. If they share nothing, the pairs are arbitrary, and the result depends on
    them; `permutation` does not need pairs.

    Pairs that tie are excluded. Exact, equal differences included, up to `EXACT_RUNS` pairs;
    beyond, normal with corrections for ties and continuity.

    Args:
        first: Numbers of one algorithm, shape (pairs,).
        second: Numbers of the other, in the same order.

    Returns:
        The test, with the sum of ranks of positive differences as `statistic`; p is NaN if all
        pairs tie.

    Raises:
        ValueError: Shapes differ, there are no pairs, or a number is not finite.

    Source: Wilcoxon 1945, "Individual Comparisons by Ranking Methods"; for comparisons over
    several tasks Demsar 2006, "Statistical Comparisons of Classifiers over Multiple Data Sets".
    """
    x, y = _line(first, "first"), _line(second, "second")
    if x.size != y.size:
        raise ValueError(f"second: has {y.size} numbers to pair with {x.size}")
    scale = max(float(np.abs(x).max()), float(np.abs(y).max())) or 1.0
    # Equal differences must tie, although their rounding differs.
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
    """Makes the test `wilcoxon` of the mean scores of two algorithms, paired by environment.

    Args:
        first: Scores by environment.
        second: Scores on the same environments; run counts may differ.

    Returns:
        The test, whose pairs are environments.

    Raises:
        ValueError: Scores are unusable, or environments differ.

    Source: as `wilcoxon`.
    """
    one, other = matched(first, second)
    return wilcoxon(one.means(), other.means())


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
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
    """Returns twice the ranks, which are integers also with ties, and the sizes of ties."""
    _, places, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    return (2 * np.cumsum(counts) - counts + 1)[places], counts.astype(np.float64)


def _rank_sums(doubled: npt.NDArray[np.intp], size: int) -> FloatArray:
    """Returns the probability of each sum of doubled ranks of `size` randomly chosen runs."""
    ways = np.zeros((size + 1, int(doubled.sum()) + 1))
    ways[0, 0] = 1.0
    for rank in doubled:
        ways[1:, rank:] += ways[:-1, :-rank].copy()
    chances: FloatArray = ways[size] / math.comb(doubled.size, size)
    return chances


def _two_sided(off: float, variance: float) -> float:
    """Returns the two-sided p of a rank sum at distance `off` from its mean, by the normal law."""
    if variance <= 0:
        return 1.0
    return min(1.0, 2 * _NORMAL.cdf(-max(0.0, off - 0.5) / math.sqrt(variance)))
