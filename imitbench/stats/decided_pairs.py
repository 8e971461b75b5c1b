"""Decides for all pairs of many algorithms which one is better, quickly.

`imitbench.stats.verdicts` says much about each pair. A leaderboard of a hundred algorithms has
thousands of pairs, and needs only the decisions.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from imitbench.stats.aggregates import interquartile_mean
from imitbench.stats.bootstrap import Interval, check_options, resampled
from imitbench.stats.coverage import Cells
from imitbench.stats.difference_test import difference_tests, runs_lacking
from imitbench.stats.significance import holm, significance_at
from imitbench.stats.strata import FloatArray, Strata
from imitbench.stats.verdicts import Decision

MOST_PERMUTATIONS = 20_000
"""Most permutations of a pair whose p-value is corrected for others: enough for 1,000 pairs."""

_FEW = 199
"""Permutations after which most pairs are clear."""

_CHUNK = 256
"""Pairs whose resamples are held at a time."""

_Layout = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class PairOutcome:
    """One algorithm against another.

    Attributes:
        p_value: Of the test, not corrected; only a lower bound of it where no decision is near.
        decision: Decision about the first, as in `imitbench.stats.verdicts.Verdict`.
        iqm: Difference of the interquartile means, first minus second, with its percentile
            interval; NaN ends if every cell has a single run.
        environments: Environments that both have, over which they are compared.
        lacking: Number of runs that each needs in addition on each environment before the test
            could reject for any scores.
    """

    p_value: float
    decision: Decision
    iqm: Interval
    environments: tuple[str, ...]
    lacking: int


Pair: TypeAlias = tuple[str, str]


def winners(
    outcomes: Mapping[Pair, PairOutcome], significance: float | None = None
) -> frozenset[Pair]:
    """Returns the pairs (better, worse) among outcomes.

    Args:
        outcomes: Outcomes, each a question of its own.
        significance: Chance of any false pair; p-values are corrected for all outcomes by Holm's
            method. `None` for no correction.
    """
    if significance is not None:
        adjusted = holm({pair: outcome.p_value for pair, outcome in outcomes.items()})
        outcomes = {pair: outcomes[pair] for pair, p in adjusted.items() if p <= significance}
    return frozenset(
        pair if outcome.decision == "better" else pair[::-1]
        for pair, outcome in outcomes.items()
        if outcome.decision != "undecided"
    )


def compared_pairs(
    table: Mapping[str, Cells],
    *,
    level: float = 0.95,
    replicates: int = 2_000,
    seed: int = 0,
    excluded: Mapping[Pair, frozenset[str]] = MappingProxyType({}),
    corrected: Collection[Pair] = (),
) -> dict[Pair, PairOutcome]:
    """Compares all pairs, by the rule of `verdicts`, each over the environments that both have.

    Each pair is a question of its own: the test is not corrected for the number of pairs, as in a
    comparison of one algorithm with one baseline.

    Args:
        table: Scores by algorithm and environment; run counts may differ.
        level: Confidence level of the intervals of the IQM; tests reject at 1 - `level`.
        replicates: Number of resamples, and of permutations if not all are counted.
        seed: Seed of these.
        excluded: Environments over which a pair is not compared, by pairs in the order of the
            table.
        corrected: Pairs whose p-values will be corrected for each other; small ones get as many
            permutations as that takes, up to `MOST_PERMUTATIONS`.

    Returns:
        An outcome for each pair in the order of the table; pairs without a common environment are
        left out.

    Raises:
        ValueError: Scores are unusable, or an option is out of range.

    Source: see `imitbench.stats.verdicts.verdicts`.
    """
    check_options(replicates, level)
    has = {
        name: frozenset(env for env in cells if np.size(cells[env]))
        for name, cells in table.items()
    }
    by_common: dict[frozenset[str], list[Pair]] = defaultdict(list)
    for pair in combinations(table, 2):
        by_common[(has[pair[0]] & has[pair[1]]) - excluded.get(pair, frozenset())].append(pair)
    order = {name: index for index, name in enumerate(table)}
    options = _Options(level, replicates, seed, frozenset(corrected))
    found: dict[Pair, PairOutcome] = {}
    for common, pairs in by_common.items():
        if common:
            names = sorted({name for pair in pairs for name in pair}, key=order.__getitem__)
            part = {name: {env: table[name][env] for env in sorted(common)} for name in names}
            rng = {name: np.random.default_rng([seed, order[name]]) for name in names}
            found |= _over(part, pairs, rng, options)
    return {pair: found[pair] for pair in combinations(table, 2) if pair in found}


@dataclass(frozen=True)
class _Options:
    level: float
    replicates: int
    seed: int
    corrected: frozenset[Pair]


def _over(
    table: Mapping[str, Cells],
    pairs: Sequence[Pair],
    rng: Mapping[str, np.random.Generator],
    options: _Options,
) -> dict[Pair, PairOutcome]:
    """Compares pairs that have the same environments in common."""
    level, significance = options.level, significance_at(options.level)
    samples = {name: Strata.of(own) for name, own in table.items()}
    iqms = {
        name: resampled(sample, {"iqm": interquartile_mean}, options.replicates, rng[name])["iqm"]
        for name, sample in samples.items()
    }
    points = {name: float(interquartile_mean(sample)) for name, sample in samples.items()}
    environments = tuple(next(iter(table.values())))
    found = {}
    for sizes, alike in by_layout(pairs, samples).items():
        lacking = runs_lacking(sizes, significance)
        p_values = np.ones(len(alike))
        if not lacking:
            p_values = _p_values(stacked(alike, samples), alike, options)
        ends = _differences(alike, iqms, level)
        if max(max(pair) for pair in sizes) == 1:
            ends = np.full_like(ends, np.nan)
        for pair, p_value, (low, high) in zip(alike, p_values, ends.tolist(), strict=True):
            first, second = pair
            iqm = Interval(points[first] - points[second], low, high, level)
            difference = float((samples[first].means() - samples[second].means()).mean())
            decision: Decision = "undecided"
            if p_value <= significance:
                decision = _decision(difference, iqm)
            found[pair] = PairOutcome(float(p_value), decision, iqm, environments, lacking)
    return found


def _differences(pairs: Sequence[Pair], iqms: Mapping[str, FloatArray], level: float) -> FloatArray:
    """Returns the percentile intervals of differences of resampled IQMs, shape (pairs, 2)."""
    ends: FloatArray = np.empty((len(pairs), 2))
    for start in range(0, len(pairs), _CHUNK):
        part = pairs[start : start + _CHUNK]
        drawn = np.stack([iqms[first] - iqms[second] for first, second in part])
        at = [(1 - level) / 2, (1 + level) / 2]
        ends[start : start + len(part)] = np.quantile(drawn, at, axis=1).T
    return ends


def _p_values(
    scores: list[tuple[FloatArray, FloatArray]], pairs: Sequence[Pair], options: _Options
) -> FloatArray:
    """Returns p by pair, of few permutations if they leave no doubt (Besag, Clifford 1991)."""
    level = significance_at(options.level)

    def test(chosen: npt.NDArray[np.intp], count: int, significance: float, bounds: bool) -> None:
        if chosen.size:
            found[chosen] = difference_tests(
                [(x[chosen], y[chosen]) for x, y in scores],
                significance=significance,
                replicates=count,
                rng=np.random.default_rng(options.seed),
                bounds=bounds,
            ).p_value

    found = np.ones(len(pairs))
    test(np.arange(len(pairs)), min(options.replicates, _FEW), level, bounds=True)
    if options.replicates > _FEW:
        doubtful = (found > level / 5) & (found <= 3 * level)
        test(np.flatnonzero(doubtful), options.replicates, level, bounds=True)
    family = len(options.corrected)
    if family > 1:
        small = [pair in options.corrected for pair in pairs] & (found <= level)
        count = max(options.replicates, min(MOST_PERMUTATIONS, math.ceil(10 * family / level)))
        test(np.flatnonzero(small), count, level / family, bounds=False)
    return found


def by_layout(pairs: Sequence[Pair], samples: Mapping[str, Strata]) -> dict[_Layout, list[Pair]]:
    """Returns pairs by their numbers of runs on each environment: those that `stacked` takes."""
    found: dict[_Layout, list[Pair]] = defaultdict(list)
    for first, second in pairs:
        sizes = tuple(zip(samples[first].sizes, samples[second].sizes, strict=True))
        found[sizes].append((first, second))
    return found


def stacked(
    pairs: Sequence[Pair], samples: Mapping[str, Strata]
) -> list[tuple[FloatArray, FloatArray]]:
    """Returns the scores of all pairs by environment, each of shape (pairs, runs)."""
    columns = {name: sample.columns() for name, sample in samples.items()}
    count = len(next(iter(columns.values())))
    return [
        (
            np.stack([columns[first][index] for first, _ in pairs]),
            np.stack([columns[second][index] for _, second in pairs]),
        )
        for index in range(count)
    ]


def _decision(difference: float, iqm: Interval) -> Decision:
    """Returns the decision of the test, if the interval of the IQM agrees."""
    if difference > 0 and iqm.low > 0:
        return "better"
    if difference < 0 and iqm.high < 0:
        return "worse"
    return "undecided"
