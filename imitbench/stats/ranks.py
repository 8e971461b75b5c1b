"""Computes the uncertainty of a ranking: the probability of each rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from imitbench.stats.aggregates import Statistic, interquartile_mean
from imitbench.stats.bootstrap import check_options, resampled
from imitbench.stats.coverage import Coverage, Table, compared_coverage, require_common_environments
from imitbench.stats.strata import FloatArray, Strata


@dataclass(frozen=True)
class AlgorithmRanks:
    """How often one algorithm has each rank in resamples.

    Attributes:
        algorithm: Name of the algorithm.
        point: Its statistic in the full sample.
        probabilities: Probabilities of the ranks 1 (best), 2, ... in this order; they sum to 1.
        mean_rank: Mean rank, 1 if it is always best.
    """

    algorithm: str
    point: float
    probabilities: tuple[float, ...]
    mean_rank: float


@dataclass(frozen=True)
class RankDistribution:
    """The ranks of all algorithms.

    Attributes:
        ranks: One per algorithm, in the given order. Probabilities also sum to 1 for each rank.
        coverage: Environments of the comparison, and missing cells.
        resampled: Whether some algorithm has several runs in some environment; if not, the
            probabilities are those of one ranking, without information about its uncertainty.
    """

    ranks: tuple[AlgorithmRanks, ...]
    coverage: Coverage
    resampled: bool

    def of(self, algorithm: str) -> AlgorithmRanks:
        """Returns the ranks of one algorithm.

        Raises:
            KeyError: The algorithm was not ranked.
        """
        for each in self.ranks:
            if each.algorithm == algorithm:
                return each
        raise KeyError(algorithm)


def rank_distribution(
    table: Table,
    *,
    statistic: Statistic = interquartile_mean,
    higher_is_better: bool = True,
    replicates: int = 50_000,
    rng: np.random.Generator,
) -> RankDistribution:
    """Ranks algorithms in each resample of their runs.

    Runs are resampled within each environment, for each algorithm independently. Algorithms that
    tie share their ranks: two at the top have the ranks 1 and 2 with probability 1/2 each.
    Ranks depend on the set of algorithms. A small but certain difference gives as certain a rank
    as a large one. For the ranks on one environment, pass only the cells of that environment.

    Args:
        table: Scores by algorithm and environment; run counts may differ.
        statistic: Statistic by which they are ranked.
        higher_is_better: Whether high values are good; false for `optimality_gap`.
        replicates: Number of resamples.
        rng: Source of the resamples, drawn one algorithm at a time.

    Returns:
        The distribution, over the environments on which all have scores.

    Raises:
        ValueError: Scores are unusable (see `Strata.of`), no environment has scores of all
            algorithms, or `replicates` is not positive.

    Source: Agarwal et al. 2021, appendix on ranks; there per environment, here of the aggregate.
    """
    check_options(replicates, 0.5)
    restricted, over = compared_coverage(table)
    require_common_environments(over)
    samples = [Strata.of(cells) for cells in restricted.values()]
    points = [float(statistic(sample)) for sample in samples]
    several = max(max(sample.sizes) for sample in samples) > 1
    if several:
        named = {"statistic": statistic}
        drawn = [resampled(sample, named, replicates, rng)["statistic"] for sample in samples]
        estimates = np.stack(drawn)
    else:
        estimates = np.array(points)[:, None]
    # Ties differ by rounding, as sums of scores are computed in different orders.
    scale = max(float(np.abs(sample.values).max()) for sample in samples) or 1.0
    rounded = np.round(estimates / scale, 12)
    shares = _shares(rounded if higher_is_better else -rounded)
    places = np.arange(1, len(samples) + 1)
    ranks = tuple(
        AlgorithmRanks(name, point, tuple(row.tolist()), float(row @ places))
        for name, point, row in zip(table, points, shares, strict=True)
    )
    return RankDistribution(ranks, over, several)


def _shares(estimates: FloatArray) -> FloatArray:
    """Returns how often each algorithm has each rank, shape (algorithms, ranks), rank 1 first.

    Args:
        estimates: Shape (algorithms, replicates), higher is better; ties are exactly equal.
    """
    many, replicates = estimates.shape
    shares = np.zeros((many, many))
    for row, own in zip(shares, estimates, strict=True):
        better = (estimates > own).sum(axis=0)
        tied = (estimates == own).sum(axis=0)
        counts = np.bincount(better * (many + 1) + tied, minlength=many * (many + 1))
        for first, by_ties in enumerate(counts.reshape(many, many + 1)):
            for ties in np.flatnonzero(by_ties):
                row[first : first + ties] += by_ties[ties] / ties
    probabilities: FloatArray = shares / replicates
    return probabilities
