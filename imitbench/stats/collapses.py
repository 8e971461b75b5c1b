"""Counts runs that collapse, and says how often collapses may happen that few runs do not show.

Whether the typical run of a method is better says nothing about rare collapses, and few runs say
little about these: ten runs without any leave it open whether 26 % of all runs collapse.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np

from imitbench.stats.strata import FloatArray, Scores, matched

COLLAPSE_SCORE = 0.5
"""A run with a lower score has collapsed: it is nearer to random actions than to the expert."""


@dataclass(frozen=True)
class Collapses:
    """Collapsed runs of one algorithm.

    Attributes:
        collapsed: Number of runs below `COLLAPSE_SCORE`.
        runs: Number of all runs.
        at_most: Upper bound of the share of collapses at the confidence level, one-sided.
    """

    collapsed: int
    runs: int
    at_most: float

    @classmethod
    def of(cls, scores: FloatArray, level: float) -> Collapses:
        """Counts the collapses among runs.

        Args:
            scores: Scores of all runs, shape (runs,).
            level: Confidence level of the bound.

        Source: Clopper and Pearson 1934. Over environments whose shares differ, the bound is
        cautious (Hoeffding 1956, "On the Distribution of the Number of Successes in Independent
        Trials").
        """
        from scipy.special import betaincinv

        runs, collapsed = scores.size, int((scores < COLLAPSE_SCORE).sum())
        bound = 1.0 if collapsed == runs else betaincinv(collapsed + 1, runs - collapsed, level)
        return cls(collapsed, runs, float(bound))


@dataclass(frozen=True)
class CollapseComparison:
    """Collapses of two algorithms over the same environments.

    Attributes:
        first: Of the first.
        second: Of the second.
        p_value: Exact test of whether they collapse equally often, two-sided.
    """

    first: Collapses
    second: Collapses
    p_value: float


def compare_collapses(first: Scores, second: Scores, *, level: float = 0.95) -> CollapseComparison:
    """Compares how often two algorithms collapse, over one environment or several.

    Args:
        first: Scores by environment.
        second: Scores on the same environments; run counts may differ.
        level: Confidence level of the bounds.

    Returns:
        Counts, bounds, and p of Fisher's exact test within environments: given the number of
        collapses of both on each environment, any of the runs may have had them.

    Raises:
        ValueError: Scores are unusable, or environments differ.

    Source: Fisher 1935; Gart 1970, "Point and Interval Estimation of the Common Odds Ratio in the
    Combination of 2 x 2 Tables with Fixed Marginals", for several environments.
    """
    one, other = matched(first, second)
    chances = np.ones(1)  # of each number of collapses of the first
    for x, y in zip(one.columns(), other.columns(), strict=True):
        both = int((x < COLLAPSE_SCORE).sum() + (y < COLLAPSE_SCORE).sum())
        chances = np.convolve(chances, _hypergeometric(x.size + y.size, both, x.size))
    ours, theirs = (Collapses.of(side.values, level) for side in (one, other))
    actual = chances[ours.collapsed]
    p_value = float(chances[chances <= actual * (1 + 1e-9)].sum())
    return CollapseComparison(ours, theirs, min(p_value, 1.0))


def _hypergeometric(runs: int, collapsed: int, drawn: int) -> FloatArray:
    """Returns the chances of 0, 1, … collapses among runs that are drawn without replacement."""
    ways = comb(runs, drawn)
    counts = range(min(collapsed, drawn) + 1)
    return np.array([comb(collapsed, k) * comb(runs - collapsed, drawn - k) / ways for k in counts])
