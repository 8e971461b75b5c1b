"""Decides for all pairs of many algorithms which one is better, quickly.

`imitbench.stats.verdicts` says much about each pair. A leaderboard of a hundred algorithms has
thousands of pairs, and needs only the decisions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import combinations

import numpy as np

from imitbench.stats.aggregates import interquartile_mean
from imitbench.stats.bootstrap import check_options, resampled
from imitbench.stats.coverage import Cells, compared_coverage, require_common_environments
from imitbench.stats.mean_test import mean_test_lacks, mean_tests
from imitbench.stats.strata import FloatArray, Strata

_FEW = 199
"""Relabelings after which most pairs are clear."""

_Layout = tuple[tuple[int, int], ...]


def decided_pairs(
    table: Mapping[str, Cells], *, level: float = 0.95, replicates: int = 2_000, seed: int = 0
) -> frozenset[tuple[str, str]]:
    """Decides which algorithms are better than which others, by the rule of `verdicts`.

    Each pair is a question of its own: the test is not corrected for the number of pairs, as in a
    comparison of one algorithm with one baseline.

    Args:
        table: Scores by algorithm and environment; run counts may differ.
        level: Confidence level of the intervals of the IQM; tests reject at 1 - `level`.
        replicates: Number of resamples, and of relabelings if not all are counted.
        seed: Seed of these.

    Returns:
        The pairs (better, worse); a pair in neither order is undecided.

    Raises:
        ValueError: Scores are unusable, no environment has scores of all algorithms, or an option
            is out of range.

    Source: see `imitbench.stats.verdicts.verdicts`.
    """
    check_options(replicates, level)
    if len(table) < 2:
        return frozenset()
    cells, over = compared_coverage(table)
    require_common_environments(over)
    samples = {name: Strata.of(own) for name, own in cells.items()}
    iqms = {
        name: resampled(sample, {"iqm": interquartile_mean}, replicates,
                        np.random.default_rng([seed, place]))["iqm"]
        for place, (name, sample) in enumerate(samples.items())
    }  # fmt: skip
    by_layout: dict[_Layout, list[tuple[str, str]]] = defaultdict(list)
    for first, second in combinations(cells, 2):
        sizes = tuple(zip(samples[first].sizes, samples[second].sizes, strict=True))
        by_layout[sizes].append((first, second))
    better = set()
    for sizes, pairs in by_layout.items():
        if mean_test_lacks(sizes, 1 - level):
            continue
        p_values = _p_values(_stacked(pairs, samples), 1 - level, replicates, seed)
        for pair, p_value in zip(pairs, p_values, strict=True):
            if p_value <= 1 - level:
                better.add(_ordered(pair, samples, iqms, level))
    return frozenset(pair for pair in better if pair is not None)


def _p_values(
    scores: list[tuple[FloatArray, FloatArray]], significance: float, replicates: int, seed: int
) -> FloatArray:
    """Returns p by pair; with few relabelings where these leave no doubt (Besag, Clifford 1991)."""

    def test(part: list[tuple[FloatArray, FloatArray]], count: int) -> FloatArray:
        rng = np.random.default_rng(seed)
        return mean_tests(part, significance=significance, replicates=count, rng=rng, bounds=True)

    found = test(scores, min(replicates, _FEW))
    doubtful = np.flatnonzero((found > significance / 5) & (found <= 3 * significance))
    if doubtful.size and replicates > _FEW:
        found[doubtful] = test([(x[doubtful], y[doubtful]) for x, y in scores], replicates)
    return found


def _stacked(
    pairs: list[tuple[str, str]], samples: Mapping[str, Strata]
) -> list[tuple[FloatArray, FloatArray]]:
    """Returns the scores of all pairs by environment, each of shape (pairs, runs)."""
    columns = {name: sample.columns() for name, sample in samples.items()}
    count = len(next(iter(columns.values())))
    return [
        (
            np.stack([columns[first][place] for first, _ in pairs]),
            np.stack([columns[second][place] for _, second in pairs]),
        )
        for place in range(count)
    ]


def _ordered(
    pair: tuple[str, str],
    samples: Mapping[str, Strata],
    iqms: Mapping[str, FloatArray],
    level: float,
) -> tuple[str, str] | None:
    """Returns the better one first; `None` if the interval of the IQM does not agree."""
    first, second = pair
    difference = float((samples[first].means() - samples[second].means()).mean())
    low, high = np.quantile(iqms[first] - iqms[second], [(1 - level) / 2, (1 + level) / 2])
    if difference > 0 and low > 0:
        return first, second
    if difference < 0 and high < 0:
        return second, first
    return None
