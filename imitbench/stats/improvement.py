"""Computes the probability of improvement: how often a run of one algorithm beats another's."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from imitbench.stats.bootstrap import (
    Interval,
    check_options,
    no_interval,
    percentile_interval,
    resampled_indices,
)
from imitbench.stats.coverage import Cells, Coverage, Table, coverage
from imitbench.stats.strata import FloatArray, Strata

CHUNK_ELEMENTS = 1 << 18
"""Number of runs of all algorithms drawn at a time: 2 MiB per buffer."""


@dataclass(frozen=True)
class Improvement:
    """Probability that the first algorithm beats the second.

    Attributes:
        first: Name of the algorithm.
        second: Name of the algorithm that it is compared with.
        probability: P(first > second) + P(first = second) / 2, averaged over environments, with
            its interval: above 1/2 if the first is better. NaN without common environments.
        by_environment: The same probability for each environment, in the order of
            `coverage.environments`.
        coverage: Environments that both have, and missing cells.
    """

    first: str
    second: str
    probability: Interval
    by_environment: tuple[float, ...]
    coverage: Coverage

    def reversed(self) -> Improvement:
        """Returns the comparison of the second with the first: probabilities are complements."""
        seen = self.probability
        over = self.coverage
        return Improvement(
            first=self.second,
            second=self.first,
            probability=Interval(1 - seen.point, 1 - seen.high, 1 - seen.low, seen.level),
            by_environment=tuple(1 - value for value in self.by_environment),
            coverage=Coverage(
                over.algorithms[::-1], over.environments, over.missing, over.runs[::-1]
            ),
        )


@dataclass(frozen=True)
class ImprovementMatrix:
    """All pairs of algorithms.

    Attributes:
        algorithms: Names in the given order.
        pairs: One per pair of different algorithms, in both directions.
    """

    algorithms: tuple[str, ...]
    pairs: tuple[Improvement, ...]

    def of(self, first: str, second: str) -> Improvement:
        """Returns P(first > second).

        Raises:
            KeyError: There is no such pair.
        """
        for pair in self.pairs:
            if (pair.first, pair.second) == (first, second):
                return pair
        raise KeyError((first, second))


def probability_of_improvement(
    first: Cells,
    second: Cells,
    *,
    names: tuple[str, str] = ("first", "second"),
    replicates: int = 50_000,
    level: float = 0.95,
    rng: np.random.Generator,
) -> Improvement:
    """Estimates the probability that a run of `first` scores higher than a run of `second`.

    Within an environment all pairs of runs are compared, and ties count half. The result is the
    Mann-Whitney U statistic divided by the number of pairs. Environments weigh equally. Runs of
    both are resampled independently within each environment.

    It measures how often, not by how much: 1 means that all runs are better, possibly only
    slightly. If runs are fully separated, no resample shows an overlap and the interval is (1, 1),
    even for few runs; this is a limit of the bootstrap, not certainty. A permutation test
    (`imitbench.stats.mean_test`) does not have this limit.

    Args:
        first: Scores of the algorithm, by environment.
        second: Scores of the algorithm to compare with; run counts may differ.
        names: Names of the two in the result.
        replicates: Number of resamples.
        level: Confidence level of the percentile interval, in (0, 1).
        rng: Source of the resamples.

    Returns:
        The probability over the environments that both have; NaN if there are none. The
        interval is NaN if neither has two runs in any of these.

    Raises:
        ValueError: Scores are unusable (see `Strata.of`), the names are the same, `replicates`
            is not positive or `level` is not inside (0, 1).

    Source: Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of the Statistical
    Precipice", section 4.3; Mann and Whitney 1947.
    """
    if names[0] == names[1]:
        raise ValueError(f"names: both are {names[0]!r}")
    table = {names[0]: first, names[1]: second}
    matrix = improvement_matrix(table, replicates=replicates, level=level, rng=rng)
    return matrix.of(*names)


def improvement_matrix(
    table: Table,
    *,
    replicates: int = 50_000,
    level: float = 0.95,
    rng: np.random.Generator,
) -> ImprovementMatrix:
    """Computes `probability_of_improvement` of all pairs.

    Each pair is compared over the environments that both have, so if cells are missing, pairs may
    have different environments; each records its own. All pairs share the resamples of their
    algorithms. Intervals are for single pairs: among many pairs, some exclude 1/2 by chance.

    Args:
        table: Scores by algorithm and environment.
        replicates: Number of resamples.
        level: Confidence level of each interval, in (0, 1).
        rng: Source of the resamples.

    Returns:
        Both directions of each pair; (b, a) is the exact complement of (a, b).

    Raises:
        ValueError: As `probability_of_improvement`.

    Source: as `probability_of_improvement`.
    """
    check_options(replicates, level)
    layout = _Layout.of(table)
    pairs = list(itertools.combinations(range(len(table)), 2))
    names = layout.algorithms
    overs = [coverage({name: table[name] for name in (names[i], names[j])}) for i, j in pairs]
    common = np.array([len(over.environments) for over in overs], dtype=np.float64)
    firsts, seconds = (np.array([pair[side] for pair in pairs], dtype=np.intp) for side in (0, 1))
    estimates: FloatArray = np.empty((len(pairs), replicates))
    if pairs and layout.sizes:
        done = 0
        for sums in layout.resampled_sums(replicates, rng):
            after = done + sums.shape[-1]
            with np.errstate(invalid="ignore"):  # pairs without a common environment
                np.divide(sums[firsts, seconds], common[:, None], out=estimates[:, done:after])
            done = after
    found = []
    for pair, over, drawn in zip(pairs, overs, estimates, strict=True):
        first, second = (names[i] for i in pair)
        by_env = tuple(_share(table[first][env], table[second][env]) for env in over.environments)
        point = float(np.mean(by_env)) if by_env else float("nan")
        single = max(most for _, most in over.runs) <= 1
        ends = no_interval(point, level) if single else percentile_interval(point, drawn, level)
        improvement = Improvement(first, second, ends, by_env, over)
        found += [improvement, improvement.reversed()]
    return ImprovementMatrix(names, tuple(found))


def _share(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Returns the share of pairs of runs that the first wins; ties count half."""
    signs = np.sign(np.asarray(first, dtype=np.float64)[:, None] - np.asarray(second))
    return float((signs.mean() + 1) / 2)


@dataclass(frozen=True, eq=False)
class _EnvironmentPairs:
    """Comparison of one algorithm with all later ones, on one environment.

    Attributes:
        row: Index of the algorithm.
        own: Indices of its runs among all runs, in ascending order of their scores.
        rest: Indices of the runs of the other algorithms.
        lower: Number of its runs that score less than each of these, and number of its runs that
            do not score more, each of shape (runs of the others,).
        columns: Indices of the other algorithms.
        starts: Index within `rest` of the first run of each of them.
        pairs: Number of pairs of runs with each of them, shape (others, 1).
    """

    row: int
    own: slice
    rest: slice
    lower: tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]
    columns: list[int]
    starts: npt.NDArray[np.intp]
    pairs: FloatArray


@dataclass(frozen=True, eq=False)
class _Layout:
    """All cells in sequence: those of the first environment, then of the second, ...

    Attributes:
        algorithms: Names in the given order.
        sizes: Number of runs of each cell.
        comparisons: The comparisons, by environment and algorithm.
    """

    algorithms: tuple[str, ...]
    sizes: tuple[int, ...]
    comparisons: tuple[_EnvironmentPairs, ...]

    @classmethod
    def of(cls, table: Table) -> _Layout:
        algorithms = tuple(table)
        sizes: list[int] = []
        comparisons = []
        for env in sorted({env for cells in table.values() for env in cells}):
            has = [i for i, name in enumerate(algorithms) if np.size(table[name].get(env, ()))]
            cells = [Strata.of({env: table[algorithms[i]][env]}).values for i in has]
            counts = [cell.size for cell in cells]
            begins = sum(sizes) + np.cumsum([0, *counts])
            sizes += counts
            for index in range(len(has) - 1):
                others = np.concatenate(cells[index + 1 :])
                later = begins[index + 1 : -1]
                comparisons.append(
                    _EnvironmentPairs(
                        row=has[index],
                        own=slice(begins[index], begins[index + 1]),
                        rest=slice(begins[index + 1], begins[-1]),
                        lower=(
                            np.searchsorted(cells[index], others, side="left"),
                            np.searchsorted(cells[index], others, side="right"),
                        ),
                        columns=has[index + 1 :],
                        starts=later - later[0],
                        pairs=np.array(counts[index + 1 :])[:, None] * float(counts[index]),
                    )
                )
        return cls(algorithms, tuple(sizes), tuple(comparisons))

    def resampled_sums(self, replicates: int, rng: np.random.Generator) -> Iterator[FloatArray]:
        """Computes sums over environments of P(row > column), for resamples.

        Yields:
            Sums of shape (algorithms, algorithms, replicates in this chunk); only the upper right
            is filled in.
        """
        runs, many = sum(self.sizes), len(self.algorithms)
        for index, _ in resampled_indices(self.sizes, replicates, rng, max(CHUNK_ELEMENTS, runs)):
            rows = len(index)
            positions = (index + np.arange(rows)[:, None] * runs).ravel()
            drawn = np.bincount(positions, minlength=rows * runs).reshape(rows, runs)
            # How often each run was drawn, with resamples along the rows: the next steps are exact
            # sums of integers along contiguous rows.
            times = np.ascontiguousarray(drawn.T, dtype=np.float64)
            sums: FloatArray = np.zeros((many, many, rows))
            for comparison in self.comparisons:
                own = times[comparison.own]
                upto = np.zeros((len(own) + 1, rows))
                np.cumsum(own, axis=0, out=upto[1:])
                less, no_more = comparison.lower
                lost = upto[less]  # pairs that the row loses, and the same including ties
                lost += upto[no_more]
                lost *= times[comparison.rest]
                shares = np.add.reduceat(lost, comparison.starts, axis=0) / comparison.pairs
                sums[comparison.row, comparison.columns] += 1 - shares / 2
            yield sums
