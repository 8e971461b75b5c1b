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

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from imitbench.stats.bootstrap import check_options
from imitbench.stats.mean_test import CHUNK_ELEMENTS, EXACT_SPLITS, Mask, mean_tests, permutations
from imitbench.stats.strata import FloatArray, Scores, matched

Columns = Sequence[tuple[FloatArray, FloatArray]]
"""For each environment the scores of both, shapes (experiments, runs)."""


def difference_test(
    first: Scores,
    second: Scores,
    *,
    significance: float = 0.05,
    replicates: int = 50_000,
    rng: np.random.Generator,
) -> float:
    """Tests whether the first's runs are better or worse, over one environment or several.

    Args:
        first: Scores by environment.
        second: Scores on the same environments; run counts may differ.
        significance: Level that p will be compared with, in (0, 1).
        replicates: Number of permutations, if they are drawn.
        rng: Source of drawn permutations; not used otherwise.

    Returns:
        The larger p-value of both tests, two-sided; 1 if their directions differ, or if a cell has
        a single run.

    Raises:
        ValueError: Scores are unusable, environments differ, or an option is out of range.

    Source: see `imitbench.stats.mean_test` for means; for typical runs Brunner and Munzel 2000,
    "The Nonparametric Behrens-Fisher Problem"; Neubert and Brunner 2007, "A Studentized Permutation
    Test for the Non-Parametric Behrens-Fisher Problem".
    """
    one, other = matched(first, second)
    pairs = [(x[None], y[None]) for x, y in zip(one.columns(), other.columns(), strict=True)]
    [p_value] = difference_tests(
        pairs, significance=significance, replicates=replicates, rng=rng, splits=EXACT_SPLITS
    )
    return float(p_value)


def difference_tests(
    pairs: Columns,
    *,
    significance: float = 0.05,
    replicates: int = 50_000,
    rng: np.random.Generator,
    bounds: bool = False,
    splits: int = EXACT_SPLITS,
    masks: Callable[[], Sequence[Mask]] | None = None,
) -> FloatArray:
    """Makes `difference_test` of many experiments of one layout; arguments as `mean_tests`.

    Returns:
        P-values, shape (experiments,).

    Raises:
        ValueError: An option is out of range.
    """
    check_options(replicates, significance)
    sizes = [(x.shape[1], y.shape[1]) for x, y in pairs]
    made: list[Sequence[Mask]] = []

    def drawn() -> Sequence[Mask]:
        if not made:
            made.append(
                masks()
                if masks
                else permutations(sizes, replicates=replicates, splits=splits, rng=rng)
            )
        return made[0]

    found = mean_tests(
        pairs,
        significance=significance,
        replicates=replicates,
        rng=rng,
        bounds=bounds,
        splits=splits,
        masks=drawn,
    )
    chosen = np.flatnonzero(found <= significance) if bounds else np.flatnonzero(found < 1)
    if not chosen.size:
        return found
    part = [(x[chosen], y[chosen]) for x, y in pairs]
    typical = typical_run_tests(part, drawn(), splits=splits)
    means = sum(x.mean(axis=1) - y.mean(axis=1) for x, y in part)
    agree = np.sign(typical.effect) == np.sign(means)
    found[chosen] = np.where(agree, np.maximum(found[chosen], typical.p_value), 1.0)
    return found


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
    crossed = int(np.prod([mask.shape[0] for mask in masks], dtype=np.float64)) <= splits
    ranks = [_ranks(x, y) for x, y in pairs]
    actual = _statistic(
        [
            _cells(rank, np.arange(rank.shape[1])[None] < x.shape[1], x.shape[1])
            for rank, (x, _) in zip(ranks, pairs, strict=True)
        ],
        crossed=False,
    )
    p_values = np.empty(len(ranks[0]))
    # Without ties, permutations depend on nothing but the numbers of runs.
    keys = np.concatenate([np.sort(rank, axis=1) for rank in ranks], axis=1)
    for pattern in np.unique(keys, axis=0):
        alike = np.flatnonzero((keys == pattern).all(axis=1))
        at, cells = 0, []
        for mask, (x, _) in zip(masks, pairs, strict=True):
            part = pattern[None, at : at + mask.shape[1]]
            at += mask.shape[1]
            cells.append(_cells(part, mask, x.shape[1]))
        permuted = np.sort(np.abs(_statistic(cells, crossed=crossed)[1][0]))
        least = np.abs(actual[1][alike, 0]) * (1 - 1e-9)
        extreme = permuted.size - np.searchsorted(permuted, least)
        p_values[alike] = (
            extreme / permuted.size if crossed else (extreme + 1) / (permuted.size + 1)
        )
    return TypicalRuns(actual[0][:, 0] / len(pairs), p_values)


def _ranks(x: FloatArray, y: FloatArray) -> FloatArray:
    """Returns the ranks of all runs of an experiment, from 1; equal scores share their mean."""
    from scipy.stats import rankdata

    ranks: FloatArray = rankdata(np.concatenate([x, y], axis=1), axis=1)
    return ranks


_Cell = tuple[FloatArray, FloatArray]  # effect and its variance, shapes (experiments, permutations)


def _cells(ranks: FloatArray, masks: Mask, ours: int) -> _Cell:
    """Returns effect and variance on an environment for each permutation.

    The share of the second's runs below a run of the first is its rank among all runs, less that
    among the first's, divided by the number of the second's.

    Args:
        ranks: Ranks of the runs of each experiment, shape (experiments, runs).
        masks: Which runs are the first's, shape (permutations, runs).
        ours: Number of the first's runs.
    """
    theirs = masks.shape[1] - ours
    count, runs = len(ranks), masks.shape[1]
    effect, variance = np.empty((2, count, len(masks)))
    above = (ranks[:, :, None] > ranks[:, None, :]) + 0.5 * (ranks[:, :, None] == ranks[:, None, :])
    first, second = masks.astype(np.float64), (~masks).astype(np.float64)
    rows = max(1, CHUNK_ELEMENTS // (len(masks) * runs))
    for at in range(0, count, rows):
        some = above[at : at + rows]
        # The equal score of a run itself counts half; it is in its own group, not in the other.
        below = np.einsum("eij,pj->epi", some, second) / theirs
        beaten = np.einsum("eij,pj->epi", some, first) / ours
        mean = (below * first).sum(axis=2) / ours
        other = (beaten * second).sum(axis=2) / theirs
        spread = (np.square(below - mean[..., None]) * first).sum(axis=2) / max(1, ours - 1) / ours
        spread += (
            (np.square(beaten - other[..., None]) * second).sum(axis=2)
            / max(1, theirs - 1)
            / theirs
        )
        effect[at : at + rows], variance[at : at + rows] = mean - 0.5, spread
    # If all runs of one are better, no spread is seen; the least that could have been seen counts.
    return effect, np.maximum(variance, 0.5 / (ours * theirs) ** 2)


def _statistic(cells: Sequence[_Cell], *, crossed: bool) -> _Cell:
    """Returns the sum of effects, and it divided by its standard error.

    Args:
        cells: Effect and variance by environment.
        crossed: Whether to combine every permutation of an environment with those of the others.
    """
    effect, variance = cells[0]
    for other, spread in cells[1:]:
        if crossed:
            shape = (effect.shape[0], -1)
            effect = (effect[:, :, None] + other[:, None, :]).reshape(shape)
            variance = (variance[:, :, None] + spread[:, None, :]).reshape(shape)
        else:
            effect, variance = effect + other, variance + spread
    return effect, effect / np.sqrt(variance)
