"""Tests whether algorithms rank differently under two conditions, such as two regimes of data.

Two questions are different, and have a test each. Do differences between algorithms depend on the
condition at all (an interaction)? They do where a harder condition brings all scores together, and
the order may still be the same. Does the order change (a qualitative interaction)? It does only
where one algorithm is better than another under one condition and worse under the other, so two
differences of opposite sign must be found.

Runs under both conditions are independent: they are not paired by seed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from imitbench.stats.aggregates import interquartile_mean
from imitbench.stats.bootstrap import check_options
from imitbench.stats.coverage import Table
from imitbench.stats.decided_pairs import Pair, by_layout, stacked
from imitbench.stats.mean_test import Mask, draw_permutations, enumerate_permutations
from imitbench.stats.significance import significance_at
from imitbench.stats.strata import FloatArray, Strata

PERMUTATIONS = 1_999
"""Drawn permutations of each test."""

EXACT_PERMUTATIONS = 20_000
"""Most permutations of the test of interactions that are enumerated."""

_CHUNK_ELEMENTS = 1 << 17
"""Numbers of pairs and permutations that are held at a time: 1 MiB, which fits into the cache."""

_MOST_BLOCKS = 1_000
"""Blocks that are compared by their numbers of cells; the number of all grows exponentially."""

_WIDEST = 1e154
"""A range whose square is still a float."""

_ROUNDING = 1e-6
"""Share of the range of scores below which a standard error is none."""


@dataclass(frozen=True)
class MethodRanks:
    """An algorithm under both conditions.

    Attributes:
        algorithm: Its name.
        scores: Interquartile means over the compared environments.
        ranks: Ranks by these among the compared algorithms, from 1; equal scores share the best.
    """

    algorithm: str
    scores: tuple[float, float]
    ranks: tuple[int, int]

    @property
    def change(self) -> int:
        """Number of ranks that it gains under the second condition; negative if it loses some."""
        return self.ranks[0] - self.ranks[1]


@dataclass(frozen=True)
class OrderChange:
    """Two algorithms whose interquartile means have another order under the second condition.

    Attributes:
        ahead: The one that is better under the first condition.
        behind: The one that is better under the second.
        differences: Difference of their interquartile means, ahead minus behind: positive under
            the first condition, negative under the second.
        p_values: Of the test of a difference under each condition, corrected for all pairs of
            algorithms; 1 where means have another order than interquartile means.
    """

    ahead: str
    behind: str
    differences: tuple[float, float]
    p_values: tuple[float, float]

    @property
    def p_value(self) -> float:
        """P-value of the change of the order: the larger one of both."""
        return max(self.p_values)


@dataclass(frozen=True)
class InteractionTest:
    """The result of `interaction_test`.

    Attributes:
        p_value: NaN if a cell has a single run, or if scores are too large for their squares.
        permutations: Number of permutations; 0 where p is NaN.
        exact: Whether these are all, or else drawn.
    """

    p_value: float
    permutations: int
    exact: bool


@dataclass(frozen=True)
class RankChanges:
    """The order of algorithms under two conditions.

    Attributes:
        environments: Environments of the comparison.
        methods: Compared algorithms by their ranks under the first condition, then by name.
        left_out: Algorithms with runs under both conditions that lack a compared environment.
        tau: Kendall's tau-b of the interquartile means, from -1 (opposite order) to 1 (the same
            order); NaN if all are equal under a condition.
        interaction: Whether differences between algorithms depend on the condition.
        changes: Pairs in another order, the most certain one first.
        permutations: Number of drawn permutations behind the p-values of these.
    """

    environments: tuple[str, ...]
    methods: tuple[MethodRanks, ...]
    left_out: tuple[str, ...]
    tau: float
    interaction: InteractionTest
    changes: tuple[OrderChange, ...]
    permutations: int

    @property
    def pairs(self) -> int:
        """Number of pairs of compared algorithms."""
        return math.comb(len(self.methods), 2)

    @property
    def p_value(self) -> float:
        """P-value of any change of the order: the smallest one; 1 without changes."""
        return min((change.p_value for change in self.changes), default=1.0)

    def decided(self, level: float) -> tuple[OrderChange, ...]:
        """Returns the changes of the order that are significant at 1 - `level`."""
        significance = significance_at(level)
        return tuple(change for change in self.changes if change.p_value <= significance)

    def overtaken_by(self, algorithm: str, level: float) -> tuple[str, ...]:
        """Returns the sorted names of those that it decidedly overtakes."""
        found = self.decided(level)
        return tuple(sorted(change.ahead for change in found if change.behind == algorithm))


def rank_changes(
    first: Table,
    second: Table,
    *,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> RankChanges | None:
    """Compares the order of algorithms under two conditions.

    They are compared over the environments and algorithms of `largest_block`. Ranks are by
    interquartile means.

    The null hypothesis for two algorithms is that their order does not change: that neither is
    better under one condition and worse under the other. It is rejected only if a test of means
    finds a difference under each condition, in opposite directions: an intersection-union test,
    whose p-value is the larger one of both. So a difference that only shrinks, or disappears, is no
    change of the order. The test of means permutes the runs of both algorithms within environments;
    its statistic, studentized, is compared with the largest one of all pairs in each permutation,
    so that the chance of any false change is about the level of the test at most.

    Args:
        first: Scores by algorithm and environment under the first condition.
        second: Scores on the same scale under the second one. Run counts may differ.
        permutations: Number of drawn permutations.
        seed: Seed of these.

    Returns:
        The comparison; `None` for fewer than two algorithms with a common environment.

    Raises:
        ValueError: Scores are unusable, or an option is out of range.

    Source: Gail and Simon 1985, "Testing for Qualitative Interactions between Treatment Effects and
    Patient Subsets"; Berger 1982, "Multiparameter Hypothesis Testing and Acceptance Sampling";
    Janssen 1997, "Studentized Permutation Tests for Non-i.i.d. Hypotheses and the Generalized
    Behrens-Fisher Problem"; Westfall and Young 1993, "Resampling-Based Multiple Testing" (the
    largest statistic of all pairs).
    """
    check_options(permutations, 0.5)
    names, environments, left_out = largest_block(first, second)
    if len(names) < 2:
        return None
    tables = [
        {name: Strata.of({env: table[name][env] for env in environments}) for name in names}
        for table in (first, second)
    ]
    iqms = np.array(
        [[float(interquartile_mean(table[name])) for name in names] for table in tables]
    )
    ranks = 1 + (iqms[:, None, :] > iqms[:, :, None]).sum(axis=2)
    methods = [
        MethodRanks(
            name,
            (float(iqms[0, at]), float(iqms[1, at])),
            (int(ranks[0, at]), int(ranks[1, at])),
        )
        for at, name in enumerate(names)
    ]
    return RankChanges(
        environments=environments,
        methods=tuple(sorted(methods, key=lambda one: (one.ranks, one.algorithm))),
        left_out=left_out,
        tau=_kendall(iqms),
        interaction=interaction_test(*tables, permutations=permutations, seed=seed),
        changes=_order_changes(tables, dict(zip(names, iqms.T, strict=True)), permutations, seed),
        permutations=permutations,
    )


def largest_block(
    first: Table, second: Table
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Finds algorithms and environments of which every cell has runs in two tables.

    A comparison over the environments of all algorithms would often have none, as one algorithm
    with few environments is enough. So this is the block with the most cells, and of equal ones
    that with the most algorithms, among those of at least two algorithms.

    Returns:
        Sorted names of algorithms and of environments, both empty if there is no such block; and
        of the algorithms that have runs in both tables, and are not in the block.
    """
    has = {
        name: frozenset(
            env
            for env, scores in first[name].items()
            if np.size(scores) and np.size(second[name].get(env, ()))
        )
        for name in sorted(set(first) & set(second))
    }
    has = {name: environments for name, environments in has.items() if environments}
    blocks = []
    for chosen in _shared_environments(has):
        names = _covering(has, chosen)
        if len(names) > 1:
            blocks.append((len(names) * len(chosen), len(names), tuple(sorted(chosen)), names))
    if not blocks:
        return (), (), tuple(has)
    most = max(block[:2] for block in blocks)
    environments, names = min(block[2:] for block in blocks if block[:2] == most)
    return names, environments, tuple(name for name in has if name not in names)


def _covering(has: Mapping[str, frozenset[str]], chosen: frozenset[str]) -> tuple[str, ...]:
    """Returns the algorithms that have all of some environments."""
    return tuple(name for name, environments in has.items() if environments >= chosen)


def _shared_environments(has: Mapping[str, frozenset[str]]) -> set[frozenset[str]]:
    """Returns the environments that algorithms share, for any choice of algorithms.

    Of more than `_MOST_BLOCKS` these are the ones that make the largest blocks.
    """

    def cells(chosen: frozenset[str]) -> tuple[int, list[str]]:
        return -len(chosen) * len(_covering(has, chosen)), sorted(chosen)

    found: set[frozenset[str]] = set()
    for own in sorted(set(has.values()), key=sorted):
        found |= {own & other for other in found} | {own}
        found.discard(frozenset())
        if len(found) > _MOST_BLOCKS:
            found = set(sorted(found, key=cells)[:_MOST_BLOCKS])
    return found


def _kendall(scores: FloatArray) -> float:
    """Returns Kendall's tau-b of two rows of scores, shape (2, algorithms)."""
    at = np.triu_indices(scores.shape[1], 1)
    signs = np.sign(scores[:, at[0]] - scores[:, at[1]])
    untied = math.prod(float(np.abs(row).sum()) for row in signs)
    return float((signs[0] * signs[1]).sum()) / math.sqrt(untied) if untied else math.nan


def _order_changes(
    tables: Sequence[Mapping[str, Strata]],
    iqms: Mapping[str, FloatArray],
    permutations: int,
    seed: int,
) -> tuple[OrderChange, ...]:
    """Returns the pairs in another order under the second condition, the most certain first."""
    pairs = list(combinations(iqms, 2))
    before, after = (
        _order_test(table, pairs, permutations, np.random.default_rng([seed, at]))
        for at, table in enumerate(tables)
    )
    changes = []
    for pair in pairs:
        ahead, behind = sorted(pair, key=lambda name: -iqms[name][0])
        lead, lag = (iqms[ahead] - iqms[behind]).tolist()
        if lead > 0 > lag:
            p_values = before.p_value(ahead, behind), after.p_value(behind, ahead)
            changes.append(OrderChange(ahead, behind, (lead, lag), p_values))
    return tuple(sorted(changes, key=lambda one: (one.p_value, one.ahead, one.behind)))


@dataclass(frozen=True)
class _OrderTest:
    """Corrected p-values of differences of means, by pair, and the signs of these differences."""

    p_values: Mapping[Pair, float]
    signs: Mapping[Pair, float]

    def p_value(self, better: str, worse: str) -> float:
        """Returns p of a difference in this direction; 1 if the means have the opposite order."""
        if (better, worse) in self.signs:
            pair, sign = (better, worse), 1
        else:
            pair, sign = (worse, better), -1
        return self.p_values[pair] if sign * self.signs[pair] > 0 else 1.0


def _order_test(
    samples: Mapping[str, Strata],
    pairs: Sequence[Pair],
    permutations: int,
    rng: np.random.Generator,
) -> _OrderTest:
    """Tests all differences of means under one condition, corrected for each other.

    The runs of two algorithms are permuted within environments. A difference divided by its
    standard error is compared with the largest one of all pairs in each permutation. The tails of
    such a ratio depend on the smallest number of runs; so pairs that share it are corrected for
    each other in this way, and these groups by Bonferroni's method.
    """
    grouped: dict[int, list[tuple[list[Pair], FloatArray]]] = defaultdict(list)
    largest: dict[int, FloatArray] = {}
    signs: dict[Pair, float] = {}
    for sizes, alike in by_layout(pairs, samples).items():
        cells = stacked(alike, samples)
        signs |= zip(alike, sum(x.mean(axis=1) - y.mean(axis=1) for x, y in cells), strict=True)
        least = min(min(pair) for pair in sizes)
        actual, permuted = np.zeros(len(alike)), np.zeros(permutations)
        if least > 1:
            actual, permuted = _ratios(cells, sizes, permutations, rng)
        grouped[least].append((alike, actual))
        largest[least] = np.maximum(largest.get(least, 0.0), permuted)
    p_values: dict[Pair, float] = {}
    for least, members in grouped.items():
        size = sum(len(alike) for alike, _ in members)
        ordered = np.sort(largest[least])
        for alike, actual in members:
            reached = permutations - np.searchsorted(ordered, actual * (1 - 1e-9))
            found = np.minimum(1.0, (reached + 1) / (permutations + 1) * len(pairs) / size)
            found[~np.isfinite(actual)] = 1.0
            p_values |= zip(alike, found.tolist(), strict=True)
    return _OrderTest(p_values, signs)


def _ratios(
    cells: Sequence[tuple[FloatArray, FloatArray]],
    sizes: Sequence[tuple[int, int]],
    permutations: int,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """Returns absolute differences over environments, divided by their standard errors.

    Returns:
        Of all pairs, shape (pairs,); and the largest one in each permutation, which is the same for
        all pairs, shape (permutations,).
    """
    pooled = []
    for x, y in cells:
        # Runs are sorted; in another order for each pair, permutations of pairs are independent.
        pooled.append(np.concatenate([rng.permuted(x, axis=1), rng.permuted(y, axis=1)], axis=1))
    least = _least_variance(pooled)

    def ratios(masks: Sequence[Mask]) -> FloatArray:
        parts = [_moments(runs, mask) for runs, mask in zip(pooled, masks, strict=True)]
        effect, variance = parts[0]
        for also, spread in parts[1:]:
            effect += also
            variance += spread
        np.maximum(variance, least, out=variance)
        return np.abs(effect) / np.sqrt(variance)

    actual = ratios([(np.arange(first + second) < first)[None] for first, second in sizes])[:, 0]
    drawn = draw_permutations(sizes, permutations, rng)
    rows = max(1, _CHUNK_ELEMENTS // len(actual))
    largest = [
        ratios([mask[start : start + rows] for mask in drawn]).max(axis=0)
        for start in range(0, permutations, rows)
    ]
    return actual, np.concatenate(largest)


def _least_variance(pooled: Sequence[FloatArray]) -> float:
    """Returns the least variance of an effect: no spread at all would be an infinite weight."""
    widest = max(float(np.ptp(runs)) for runs in pooled) * _ROUNDING
    if widest > _WIDEST:
        return math.inf
    return widest**2 or 1.0


def _moments(pooled: FloatArray, masks: Mask) -> tuple[FloatArray, FloatArray]:
    """Returns differences of means of two parts of some runs, and the variances of these.

    Args:
        pooled: Runs, shape (cases, runs).
        masks: Which are in the first part, shape (permutations, runs); of all the same number.

    Returns:
        Both of shape (cases, permutations).
    """
    ours = int(masks[0].sum())
    theirs = masks.shape[1] - ours
    centred = pooled - pooled.mean(axis=1, keepdims=True)
    squares = np.square(centred)
    chosen = masks.T.astype(np.float64)
    sums = centred @ chosen  # those of the others are the same with the opposite sign
    one, other = 1 / ((ours - 1) * ours), 1 / ((theirs - 1) * theirs)
    variance = np.square(sums)
    variance *= -(one / ours + other / theirs)
    variance += other * squares.sum(axis=1, keepdims=True)
    if one != other:
        variance += (one - other) * (squares @ chosen)
    sums *= 1 / ours + 1 / theirs
    return sums, variance


def interaction_test(
    first: Mapping[str, Strata],
    second: Mapping[str, Strata],
    *,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> InteractionTest:
    """Tests whether the differences of algorithms' mean scores depend on the condition.

    The null hypothesis: on each environment the condition shifts the runs of all algorithms by the
    same amount. This amount, the mean over algorithms, is subtracted; then the runs of an algorithm
    on an environment can be exchanged between the conditions, and are permuted there. The statistic
    is the Wald statistic of equal effects: the squared distances of each algorithm's effect (mean
    over environments of the difference of its means) from their weighted mean, each divided by the
    estimated variance of the effect. It is computed anew in each permutation, so that unequal
    spreads and numbers of runs matter less. The amount is estimated, so p is approximate, and too
    small where few runs spread much more under one condition (`docs/statistics.md`).

    Args:
        first: Scores by algorithm, with the same environments for all.
        second: Scores of the same algorithms under the other condition.
        permutations: Number of permutations, if they are drawn; up to `EXACT_PERMUTATIONS` are
            enumerated.
        seed: Seed of drawn permutations.

    Returns:
        The test; drawn permutations count the actual groups in addition.

    Raises:
        ValueError: `permutations` is not positive.

    Source: Anderson and ter Braak 2003, "Permutation Tests for Multi-Factorial Analysis of
    Variance" (permuted residuals); Pauly, Brunner and Konietschke 2015, "Asymptotic Permutation
    Tests in General Factorial Designs" (permuted Wald statistics).
    """
    check_options(permutations, 0.5)
    names = list(first)
    cells = _aligned([first[name] for name in names], [second[name] for name in names])
    if min(min(own.first, own.pooled.size - own.first) for own in cells) < 2:
        return InteractionTest(math.nan, 0, False)
    sizes = [(own.first, own.pooled.size - own.first) for own in cells]
    least = _least_variance([own.pooled for own in cells])
    shape = len(names), len(cells) // len(names)
    [actual] = _wald(
        *_effects(cells, [(np.arange(sum(pair)) < pair[0])[None] for pair in sizes]), shape, least
    )
    if not math.isfinite(actual):
        return InteractionTest(math.nan, 0, False)
    least_extreme = actual * (1 - 1e-9)
    count = math.prod(math.comb(sum(pair), pair[0]) for pair in sizes)
    if count <= EXACT_PERMUTATIONS:
        masks = enumerate_permutations(sizes)
        grid = np.indices([len(mask) for mask in masks]).reshape(len(cells), -1)
        crossed = [mask[at] for mask, at in zip(masks, grid, strict=True)]
        reached = (_wald(*_effects(cells, crossed), shape, least) >= least_extreme).sum()
        return InteractionTest(float(reached) / count, count, True)
    drawn = draw_permutations(sizes, permutations, np.random.default_rng([seed, 2]))
    reached = (_wald(*_effects(cells, drawn), shape, least) >= least_extreme).sum()
    return InteractionTest(float(reached + 1) / (permutations + 1), permutations, False)


@dataclass(frozen=True, eq=False)
class _Cell:
    """The runs of an algorithm on an environment, less what the conditions do to all algorithms.

    Attributes:
        pooled: Runs under the first condition, then those under the second.
        first: Number of the former.
    """

    pooled: FloatArray
    first: int


def _aligned(first: Sequence[Strata], second: Sequence[Strata]) -> list[_Cell]:
    """Returns the cells of all algorithms, those of one algorithm side by side."""
    sides = []
    for samples in (first, second):
        shift = np.mean([sample.means() for sample in samples], axis=0)
        sides.append([
            column - at
            for sample in samples
            for column, at in zip(sample.columns(), shift, strict=True)
        ])  # fmt: skip
    return [_Cell(np.concatenate([x, y]), x.size) for x, y in zip(*sides, strict=True)]


def _effects(cells: Sequence[_Cell], masks: Sequence[Mask]) -> tuple[FloatArray, FloatArray]:
    """Returns what the condition does, and its variance, each of shape (permutations, cells)."""
    parts = [_moments(own.pooled[None], mask) for own, mask in zip(cells, masks, strict=True)]
    effects, variances = (np.stack([part[at][0] for part in parts], axis=1) for at in (0, 1))
    return effects, variances


def _wald(
    effects: FloatArray, variances: FloatArray, shape: tuple[int, int], least: float
) -> FloatArray:
    """Returns the Wald statistic of equal effects of all algorithms, shape (permutations,).

    Args:
        effects: Differences of means, shape (permutations, cells).
        variances: Their variances.
        shape: Numbers of algorithms and environments.
        least: Least variance of an effect.
    """
    algorithms, environments = shape
    by_algorithm = effects.reshape(-1, algorithms, environments).mean(axis=2)
    spread = variances.reshape(-1, algorithms, environments).sum(axis=2) / environments**2
    weights = 1 / np.maximum(spread, least)
    middle = (weights * by_algorithm).sum(axis=1) / weights.sum(axis=1)
    return np.asarray((weights * np.square(by_algorithm - middle[:, None])).sum(axis=1))
