"""Probability of improvement: how often a run of one algorithm beats a run of another."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from imitbench.stats.bootstrap import check_options, resampled_indices
from imitbench.stats.coverage import Cells, Coverage, Table, compared_coverage
from imitbench.stats.intervals import Interval, interval, no_interval
from imitbench.stats.strata import FloatArray, Strata

CHUNK_ELEMENTS = 1 << 18
"""Runs drawn at a time, of all algorithms together: 2 MiB per buffer."""


@dataclass(frozen=True)
class Improvement:
    """How probable it is that the first algorithm beats the second.

    Attributes:
        first: Algorithm that is asked about.
        second: What it is compared with.
        probability: P(first > second) + P(first = second) / 2, averaged over environments, with
            its interval: above 1/2 where the first is better. NaN without common environments.
        by_environment: The same of each environment, in the order of `coverage.environments`.
        coverage: Environments that both have, and missing cells.
    """

    first: str
    second: str
    probability: Interval
    by_environment: tuple[float, ...]
    coverage: Coverage

    def reversed(self) -> Improvement:
        """The same comparison seen from the second: probabilities are complements."""
        seen = self.probability
        over = self.coverage
        return Improvement(
            first=self.second,
            second=self.first,
            probability=Interval(
                1 - seen.point, 1 - seen.high, 1 - seen.low, seen.level, seen.method
            ),
            by_environment=tuple(1 - value for value in self.by_environment),
            coverage=Coverage(
                over.algorithms[::-1], over.environments, over.missing, over.runs[::-1]
            ),
        )


@dataclass(frozen=True)
class ImprovementMatrix:
    """All pairs of algorithms.

    Attributes:
        algorithms: In the order given.
        pairs: One per pair of different algorithms, in both directions.
    """

    algorithms: tuple[str, ...]
    pairs: tuple[Improvement, ...]

    def of(self, first: str, second: str) -> Improvement:
        """P(first > second).

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
    """How probable it is that a run of `first` scores higher than a run of `second`.

    Within an environment all pairs of runs are compared, ties count half, so it is the
    Mann-Whitney U statistic divided by the number of pairs. Environments weigh equally. Runs of
    both are resampled independently within each environment.

    It says how often, not by how much: 1 means that all runs are better, if only by a little.
    Where runs are fully separated no resample shows an overlap and the interval is (1, 1),
    however few there are; that is the bootstrap's limit and no certainty. A permutation test
    (`imitbench.stats.significance`) has none such.

    Args:
        first: Scores of the algorithm that is asked about, by environment.
        second: Scores of what it is compared with; run counts may differ.
        names: What the two are called in the result.
        replicates: Number of resamples.
        level: Coverage of the percentile interval, in (0, 1).
        rng: Source of the resamples.

    Returns:
        The probability over the environments that both have; unknown where there are none. The
        interval is unknown where neither has two runs in any of these.

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
    """`probability_of_improvement` of all pairs.

    Each pair is compared over the environments that these two have, so pairs may be over
    different ones where cells are missing; each says which. All pairs share the resamples of
    their algorithms. Intervals are of each pair alone: among many pairs some exclude 1/2 by
    chance.

    Args:
        table: Scores by algorithm and environment.
        replicates: Number of resamples.
        level: Coverage of each interval, in (0, 1).
        rng: Source of the resamples.

    Returns:
        Both directions of each pair; that of (b, a) is the exact complement of (a, b).

    Raises:
        ValueError: As `probability_of_improvement`.

    Source: as `probability_of_improvement`.
    """
    check_options(replicates, level)
    layout = _Layout.of(table)
    pairs = list(itertools.combinations(range(len(table)), 2))
    overs = [_over(table, layout.algorithms[i], layout.algorithms[j]) for i, j in pairs]
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
        first, second = (layout.algorithms[i] for i in pair)
        by_env = tuple(_share(table[first][env], table[second][env]) for env in over.environments)
        point = float(np.mean(by_env)) if by_env else float("nan")
        single = max(most for _, most in over.runs) <= 1
        ends = no_interval(point, level) if single else interval(point, drawn, level)
        improvement = Improvement(first, second, ends, by_env, over)
        found += [improvement, improvement.reversed()]
    return ImprovementMatrix(layout.algorithms, tuple(found))


def _over(table: Table, first: str, second: str) -> Coverage:
    return compared_coverage({name: table[name] for name in (first, second)})[1]


def _share(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """How many pairs of runs the first wins, of one environment; ties count half."""
    signs = np.sign(np.asarray(first, dtype=np.float64)[:, None] - np.asarray(second))
    return float((signs.mean() + 1) / 2)


@dataclass(frozen=True, eq=False)
class _EnvironmentPairs:
    """One algorithm against all later ones, on one environment.

    Attributes:
        row: Its place among the algorithms.
        own: Where its runs stand among all runs, in ascending order of their scores.
        rest: Where those of the others stand.
        lower: How many of its runs score less than each of theirs, and how many no more, each of
            shape (runs of the others,).
        columns: Places of the others among the algorithms.
        starts: Where the runs of each of them begin within `rest`.
        pairs: Pairs of runs with each of them, shape (others, 1).
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
    """All cells one after the other: those of the first environment, then of the second, ...

    Attributes:
        algorithms: In the order given.
        sizes: Runs of each cell.
        contests: What is compared.
    """

    algorithms: tuple[str, ...]
    sizes: tuple[int, ...]
    contests: tuple[_EnvironmentPairs, ...]

    @classmethod
    def of(cls, table: Table) -> _Layout:
        algorithms = tuple(table)
        sizes: list[int] = []
        contests = []
        for env in sorted({env for cells in table.values() for env in cells}):
            has = [i for i, name in enumerate(algorithms) if np.size(table[name].get(env, ()))]
            cells = [Strata.of({env: table[algorithms[i]][env]}).values for i in has]
            counts = [cell.size for cell in cells]
            begins = sum(sizes) + np.cumsum([0, *counts])
            sizes += counts
            for place in range(len(has) - 1):
                others = np.concatenate(cells[place + 1 :])
                later = begins[place + 1 : -1]
                contests.append(
                    _EnvironmentPairs(
                        row=has[place],
                        own=slice(begins[place], begins[place + 1]),
                        rest=slice(begins[place + 1], begins[-1]),
                        lower=(
                            np.searchsorted(cells[place], others, side="left"),
                            np.searchsorted(cells[place], others, side="right"),
                        ),
                        columns=has[place + 1 :],
                        starts=later - later[0],
                        pairs=np.array(counts[place + 1 :])[:, None] * float(counts[place]),
                    )
                )
        return cls(algorithms, tuple(sizes), tuple(contests))

    def resampled_sums(self, replicates: int, rng: np.random.Generator) -> Iterator[FloatArray]:
        """Sums over environments of P(row > column), of resamples.

        Yields:
            Shape (algorithms, algorithms, replicates in this chunk); only the upper right is
            filled in.
        """
        runs, many = sum(self.sizes), len(self.algorithms)
        for index in resampled_indices(
            self.sizes, replicates, rng, chunk_elements=max(CHUNK_ELEMENTS, runs)
        ):
            rows = len(index)
            places = (index + np.arange(rows)[:, None] * runs).ravel()
            drawn = np.bincount(places, minlength=rows * runs).reshape(rows, runs)
            # How often each run was drawn, resamples side by side: what follows is exact sums of
            # whole numbers along contiguous rows.
            times = np.ascontiguousarray(drawn.T, dtype=np.float64)
            sums: FloatArray = np.zeros((many, many, rows))
            for contest in self.contests:
                own = times[contest.own]
                upto = np.zeros((len(own) + 1, rows))
                np.cumsum(own, axis=0, out=upto[1:])
                less, no_more = contest.lower
                lost = upto[less]  # pairs that the row loses, and again with those that tie
                lost += upto[no_more]
                lost *= times[contest.rest]
                shares = np.add.reduceat(lost, contest.starts, axis=0) / contest.pairs
                sums[contest.row, contest.columns] += 1 - shares / 2
            yield sums
