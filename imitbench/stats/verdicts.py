"""Decides whether one algorithm is better than another, with few false alarms.

Bootstrap intervals of three runs exclude 0 in a fifth of all comparisons of a method with itself.
If runs either succeed or collapse, Welch's test of three runs on each of five environments finds a
difference on one of them in a seventh of such comparisons. Permutations of the difference of means
find one in a quarter, if ten runs of a steady method meet three of a wild one with the same mean.
And tests of means find one in up to a third, if scores are skewed or a method rarely collapses: few
runs say little about means then. So a difference counts only if two tests find it
(`imitbench.stats.difference_test`): that of means, valid for equal distributions of any shape and
for unequal spreads, and that of typical runs, valid under skew. The statement is that typical runs
are better. How often runs collapse, and what cannot be excluded, stands beside it
(`imitbench.stats.collapses`). If there are too few runs to reject at all, nothing is decided. All
tests of one question are corrected by Holm's method.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal, TypeAlias, TypeVar

import numpy as np

from imitbench.stats.aggregates import interquartile_mean
from imitbench.stats.bootstrap import (
    Interval,
    bootstrap_differences,
    check_options,
    no_interval,
)
from imitbench.stats.collapses import CollapseComparison, compare_collapses
from imitbench.stats.coverage import Cells, Coverage, compared_coverage
from imitbench.stats.difference_test import difference_test, runs_lacking
from imitbench.stats.improvement import Improvement, probability_of_improvement
from imitbench.stats.power import SeedEstimate, seeds_to_decide
from imitbench.stats.significance import MeanDifference, holm, significance_at, welch
from imitbench.stats.strata import FloatArray

Decision: TypeAlias = Literal["better", "worse", "undecided"]

Reason: TypeAlias = Literal[
    "decided",
    "no difference seen",
    "too few runs",
    "mean and IQM disagree",
    "failed runs decide",
    "ways of acting differ",
    "nothing in common",
]
"""Reason for a decision; `failed runs decide` if it depends on how failed runs count, and `ways of
acting differ` if it depends on whether policies sample their actions."""


@dataclass(frozen=True)
class PermutationTestResult:
    """Result of the permutation tests (`imitbench.stats.difference_test`).

    Attributes:
        p_value: The larger of both, two-sided, not corrected; 1 if their directions differ, NaN
            without scores.
        means: Of the test of means alone, not corrected.
        typical: Of the test of typical runs alone, not corrected.
        adjusted: `p_value` corrected by Holm's method for all tests of the same question; NaN
            without scores.
        lacking: Number of runs that each algorithm needs in addition on each environment before the
            test could reject for any scores.
    """

    p_value: float
    means: float
    typical: float
    adjusted: float
    lacking: int


@dataclass(frozen=True)
class EnvironmentVerdict:
    """Verdict on one algorithm against another on one environment.

    Attributes:
        environment: Id of the environment.
        decision: Decision of the test; its direction is that of the difference.
        reason: Reason for the decision.
        runs: Number of runs of both.
        means: Mean scores of both.
        difference: First minus second, with Welch's interval.
        test: Permutation tests, corrected for the number of environments.
        improvement: Probability that a run of the first beats one of the second.
        seeds: Estimate of how many more seeds would decide.
    """

    environment: str
    decision: Decision
    reason: Reason
    runs: tuple[int, int]
    means: tuple[float, float]
    difference: MeanDifference
    test: PermutationTestResult
    improvement: float
    seeds: SeedEstimate


@dataclass(frozen=True)
class Verdict:
    """Verdict on one algorithm against another over all environments that both have.

    Attributes:
        first: Name of the algorithm.
        second: Name of the baseline.
        decision: Overall decision on typical runs: the tests of means and of typical runs and the
            interval of the IQM must agree.
        reason: Reason for the decision.
        iqm: Difference of interquartile means, first minus second, with its bootstrap interval.
        difference: Difference of means over environments, with Welch's interval.
        test: Permutation tests, corrected for the number of baselines.
        improvement: Probability of improvement, with its bootstrap interval.
        collapses: How many runs of both collapsed; `None` without common environments.
        seeds: Estimate of how many more seeds would decide; `None` without common environments.
        environments: Verdicts by environment, sorted.
        coverage: Environments that both have, and cells that are missing.
    """

    first: str
    second: str
    decision: Decision
    reason: Reason
    iqm: Interval
    difference: MeanDifference
    test: PermutationTestResult
    improvement: Improvement
    collapses: CollapseComparison | None
    seeds: SeedEstimate | None
    environments: tuple[EnvironmentVerdict, ...]
    coverage: Coverage


def verdicts(
    name: str,
    scores: Cells,
    baselines: Mapping[str, Cells],
    *,
    level: float = 0.95,
    replicates: int = 50_000,
    seed: int = 0,
) -> list[Verdict]:
    """Decides whether an algorithm is better or worse than each of several others.

    The chance of a decision `better` or `worse` on any equally good baseline is at most
    1 - `level`. For each single baseline, the same holds for its environments.

    Args:
        name: Name of the algorithm.
        scores: Its scores by environment.
        baselines: Scores of the baselines, by their names; run counts may differ.
        level: Confidence level of all intervals; tests reject at 1 - `level`.
        replicates: Number of resamples, and of permutations if not all are counted.
        seed: Seed of these; each comparison starts from it, so that it does not depend on the
            other comparisons.

    Returns:
        A verdict per baseline, in the given order.

    Raises:
        ValueError: Scores are unusable (see `Strata.of`), a baseline has the algorithm's own
            name, or an option is out of range.

    Source: `imitbench.stats.difference_test` for the tests, Holm 1979 for the correction, Welch
    1947 for intervals of means, Agarwal et al. 2021 for IQM and probability of improvement.
    """
    check_options(replicates, level)
    options = _TestOptions(level, replicates, seed)
    found = [
        _over_all(name, other, scores, cells, len(baselines), options)
        for other, cells in baselines.items()
    ]
    adjusted = holm({verdict.second: verdict.test.p_value for verdict in found})
    return [_decided(verdict, adjusted[verdict.second], options) for verdict in found]


_Found = TypeVar("_Found", Verdict, EnvironmentVerdict)


def in_all_views(views: Sequence[Sequence[Verdict]], reason: Reason | None) -> list[Verdict]:
    """Returns the verdicts that hold in all views of the same comparisons.

    Each view is one policy for failed runs and one way of acting. The tests of one comparison need
    no correction for each other, as all must reject: the largest p-value is that of the whole. It
    is this one that Holm's method corrects for the other baselines and environments. If each view
    were corrected by itself, a baseline that is equally good in one view alone would make room for
    another that is equally good in the other.

    Args:
        views: The verdicts of `verdicts` in each view, in the same order; numbers of the first are
            kept.
        reason: Reason for being undecided where the views differ; `None` if the first view has
            combined the others already, so that only their p-values count.

    Returns:
        The verdicts of the first view, undecided where the decisions differ.
    """
    by_baseline = list(zip(*views, strict=True))
    adjusted = holm(
        {same[0].second: max(view.test.p_value for view in same) for same in by_baseline}
    )
    return [_in_all(same, adjusted[same[0].second], reason) for same in by_baseline]


def _in_all(same: Sequence[Verdict], adjusted: float, reason: Reason | None) -> Verdict:
    elsewhere = [{found.environment: found for found in view.environments} for view in same]
    shared = set.intersection(*(set(found) for found in elsewhere))
    corrected = holm(
        {name: max(found[name].test.p_value for found in elsewhere) for name in sorted(shared)}
    )
    environments = tuple(
        _kept(
            found,
            [view.get(found.environment) for view in elsewhere],
            corrected.get(found.environment, math.nan),
            reason,
        )
        for found in same[0].environments
    )
    decided: Verdict = replace(same[0], environments=environments)
    return _kept(decided, same, adjusted, reason)


def _kept(
    found: _Found,
    same: Sequence[Verdict | EnvironmentVerdict | None],
    adjusted: float,
    reason: Reason | None,
) -> _Found:
    """Returns what was found in the first view, undecided unless it holds in all."""
    decisions = {"undecided" if view is None else view.decision for view in same}
    if reason is not None and decisions != {found.decision}:
        return replace(found, decision="undecided", reason=reason)
    if found.decision == "undecided":
        return found
    significance = significance_at(found.difference.level)
    if adjusted <= significance:
        return found
    test = replace(found.test, adjusted=adjusted)
    return replace(found, decision="undecided", reason="no difference seen", test=test)


@dataclass(frozen=True)
class _TestOptions:
    level: float
    replicates: int
    seed: int

    @property
    def significance(self) -> float:
        return significance_at(self.level)

    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)


def _over_all(
    first: str, second: str, ours: Cells, theirs: Cells, family: int, options: _TestOptions
) -> Verdict:
    """Returns a verdict that is not yet corrected, and so not yet decided."""
    improvement = probability_of_improvement(
        ours,
        theirs,
        names=(first, second),
        replicates=options.replicates,
        level=options.level,
        rng=options.rng(),
    )
    table, over = compared_coverage({first: ours, second: theirs})
    one, other = table[first], table[second]
    if not over.environments:
        nan = math.nan
        unknown = MeanDifference(nan, nan, nan, options.level, nan, nan, nan)
        return Verdict(
            first=first,
            second=second,
            decision="undecided",
            reason="nothing in common",
            iqm=no_interval(nan, options.level),
            difference=unknown,
            test=PermutationTestResult(nan, nan, nan, nan, lacking=0),
            improvement=improvement,
            collapses=None,
            seeds=None,
            environments=(),
            coverage=over,
        )
    iqm = bootstrap_differences(
        one,
        other,
        {"iqm": interquartile_mean},
        replicates=options.replicates,
        level=options.level,
        rng=options.rng(),
    )["iqm"]
    return Verdict(
        first=first,
        second=second,
        decision="undecided",
        reason="no difference seen",
        iqm=iqm,
        difference=welch(one, other, level=options.level),
        test=_test(one, other, family, options),
        improvement=improvement,
        collapses=compare_collapses(one, other, level=options.level),
        seeds=_seeds(one, other, family, options),
        environments=_by_environment(one, other, improvement, options),
        coverage=over,
    )


def _decided(verdict: Verdict, adjusted: float, options: _TestOptions) -> Verdict:
    test = replace(verdict.test, adjusted=adjusted)
    decision, reason = _decide(verdict.difference.difference, test, options)
    if not verdict.coverage.environments:
        decision, reason = "undecided", "nothing in common"
    elif decision != "undecided" and not _agrees(verdict.iqm, decision):
        decision, reason = "undecided", "mean and IQM disagree"
    return replace(verdict, test=test, decision=decision, reason=reason)


def _agrees(iqm: Interval, decision: Decision) -> bool:
    return iqm.known and (iqm.low > 0 if decision == "better" else iqm.high < 0)


def _decide(
    difference: float, test: PermutationTestResult, options: _TestOptions
) -> tuple[Decision, Reason]:
    if test.lacking:
        return "undecided", "too few runs"
    if difference == 0 or not test.adjusted <= options.significance:
        return "undecided", "no difference seen"
    return ("better" if difference > 0 else "worse"), "decided"


def _by_environment(
    one: Mapping[str, FloatArray],
    other: Mapping[str, FloatArray],
    improvement: Improvement,
    options: _TestOptions,
) -> tuple[EnvironmentVerdict, ...]:
    names = improvement.coverage.environments
    cells = {name: ({name: one[name]}, {name: other[name]}) for name in names}
    tests = {name: _test(*pair, len(names), options) for name, pair in cells.items()}
    adjusted = holm({name: test.p_value for name, test in tests.items()})
    found = []
    for index, (name, pair) in enumerate(cells.items()):
        test = replace(tests[name], adjusted=adjusted[name])
        difference = welch(*pair, level=options.level)
        decision, reason = _decide(difference.difference, test, options)
        found.append(
            EnvironmentVerdict(
                environment=name,
                decision=decision,
                reason=reason,
                runs=(one[name].size, other[name].size),
                means=(float(one[name].mean()), float(other[name].mean())),
                difference=difference,
                test=test,
                improvement=improvement.by_environment[index],
                seeds=_seeds(*pair, len(names), options),
            )
        )
    return tuple(found)


def _test(
    one: Mapping[str, FloatArray],
    other: Mapping[str, FloatArray],
    family: int,
    options: _TestOptions,
) -> PermutationTestResult:
    """Returns the test, one of `family` tests, not yet corrected."""
    # With few permutations p is never small enough, for any scores.
    replicates = max(options.replicates, math.ceil(10 * family / options.significance))
    found = difference_test(
        one,
        other,
        significance=options.significance / family,
        replicates=replicates,
        rng=options.rng(),
    )
    lacking = _lacking(one, other, options.significance / family)
    return PermutationTestResult(**asdict(found), adjusted=found.p_value, lacking=lacking)


def _lacking(
    one: Mapping[str, FloatArray], other: Mapping[str, FloatArray], significance: float
) -> int:
    return runs_lacking([(one[name].size, other[name].size) for name in one], significance)


def _seeds(
    one: Mapping[str, FloatArray],
    other: Mapping[str, FloatArray],
    family: int,
    options: _TestOptions,
) -> SeedEstimate:
    # Each single test rejects at this level or before; Holm's method may require less.
    significance = options.significance / family
    found = seeds_to_decide(one, other, significance=significance)
    lacking = _lacking(one, other, significance)
    if found.more is None or found.more >= lacking:
        return found
    return replace(found, more=lacking, outlook="estimated", power=None)
