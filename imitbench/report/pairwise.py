"""Compares an algorithm with others: selects comparable runs, and finds verdicts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np

from imitbench.cards.suite import ScoreOne
from imitbench.errors import InputError, did_you_mean
from imitbench.records.bundled_cards import bundled_algorithm, bundled_suite
from imitbench.records.selection import Acting, ActingChoice
from imitbench.report.comparison_runs import ComparableRun, ways_of_acting
from imitbench.stats.coverage import FailurePolicy, count_failures
from imitbench.stats.perturbations import PerturbationEffect, perturbation_effects
from imitbench.stats.strata import FloatArray
from imitbench.stats.verdicts import Verdict, in_all_views, verdicts
from imitbench.store.comparability import Conditions
from imitbench.util.text_line import one_line

_SHOWN = 4  # conditions of each algorithm in a message
_Sides = Mapping[str, Sequence[ComparableRun]]


@dataclass(frozen=True)
class PairwiseOptions:
    """Settings of pairwise comparisons.

    Attributes:
        policy: How failed runs count; `None` if a verdict must not depend on it.
        acting: How policies act; `None` for both ways where the scores of both are known.
        level: Confidence level of intervals; tests reject at 1 - `level`.
        replicates: Number of bootstrap replicates, and of relabelings drawn in permutation tests.
        seed: Seed of bootstrap and tests.
    """

    policy: FailurePolicy | None = None
    acting: ActingChoice | None = None
    level: float = 0.95
    replicates: int = 50_000
    seed: int = 0


@dataclass(frozen=True)
class OtherReferences:
    """An environment that is left out, because scores there have different references.

    Attributes:
        environment: Its id.
        versions: Versions of the references of the algorithm's runs, and of the baseline's. They
            may be the same, with other values.
        rescored: Whether published results can get the references of the suite's card.
    """

    environment: str
    versions: tuple[tuple[str, ...], tuple[str, ...]]
    rescored: bool


@dataclass(frozen=True)
class PairwiseComparison:
    """Verdicts on an algorithm against others under the same conditions.

    Attributes:
        conditions: Conditions that all their runs share, as far as known.
        algorithm: Name of the compared algorithm.
        verdicts: One per baseline. With two ways of acting, what holds in both, with the numbers
            of sampled actions.
        raw_means: Mean raw return by algorithm and environment, where all its runs have one.
        failures: Number of failed runs by algorithm and environment, where there are any.
        score_one: Whose returns are score 1, as far as known.
        by_acting: Verdicts of each way of acting that was compared.
        lacking: Why most likely actions are not compared, though `options.acting` allows it.
        perturbations: By baseline, what variants of environments change, with the first way of
            acting and completed runs.
        other_references: By baseline, environments that are left out though both have runs there.
    """

    conditions: Conditions
    algorithm: str
    verdicts: tuple[Verdict, ...]
    raw_means: dict[tuple[str, str], float]
    failures: dict[tuple[str, str], int]
    score_one: tuple[ScoreOne, ...] = ()
    by_acting: Mapping[Acting, tuple[Verdict, ...]] = field(default_factory=dict)
    lacking: str | None = None
    perturbations: Mapping[str, list[PerturbationEffect]] = field(default_factory=dict)
    other_references: Mapping[str, list[OtherReferences]] = field(default_factory=dict)

    def ways(self, verdict: Verdict) -> dict[Acting, Verdict]:
        """Returns what each way of acting says about the question of one of `verdicts`."""
        return {
            acting: found
            for acting, all_found in self.by_acting.items()
            for found in all_found
            if found.second == verdict.second
        }


def compare_pairwise(
    algorithm: str,
    entries: Sequence[ComparableRun],
    against: Sequence[ComparableRun],
    baselines: Sequence[str],
    options: PairwiseOptions,
) -> list[PairwiseComparison]:
    """Compares an algorithm with baselines, separately for each set of conditions.

    Args:
        algorithm: Its name in `entries`.
        entries: Runs that include those of the algorithm.
        against: Runs that include those of the baselines.
        baselines: Their names in `against`, of which one without runs stands for its only variant,
            as `algorithm` does; if empty, all methods except the algorithm itself and
            imported ones.
        options: Settings of the comparison.

    Returns:
        A comparison for each suite, budget, number and source of demonstrations that runs of the
        algorithm and of a baseline share; each with the baselines that have such runs.

    Raises:
        InputError: A name has no runs, the algorithm shares no conditions with any baseline or with
            one that is named, a score is not finite, scores have different references everywhere,
            or the options require scores of most likely actions that are unknown.
    """
    algorithm = _only_variant(algorithm, entries)
    ours = _named(algorithm, entries)
    names = [*dict.fromkeys(_only_variant(name, against) for name in baselines)] or sorted(
        {entry.algo for entry in against if not entry.imported and entry.role == "method"}
        - {algorithm}
    )
    if not names:
        raise InputError(
            f"{algorithm}: there is nothing to compare it with; run another algorithm, too"
        )
    elsewhere = ", or name results that have it with --against (--against published)"
    theirs = {name: _named(name, against, elsewhere) for name in names}
    shared = []
    for conditions in _shared_conditions(ours, [run for runs in theirs.values() for run in runs]):
        within = {name: _within(conditions, runs) for name, runs in theirs.items()}
        shared.append((conditions, {name: runs for name, runs in within.items() if runs}))
    compared = {name for _, here in shared for name in here}
    without = {name: runs for name, runs in theirs.items() if name not in compared}
    if without and (baselines or not compared):
        both = [(algorithm, ours), *without.items()]  # a baseline may have the same name
        having = "; ".join(_having(name, runs) for name, runs in both)
        raise InputError(
            f"{algorithm} and {', '.join(without)}: no runs under the same suite, budget, "
            f"demonstrations and source; run the missing ones ({having})"
        )
    found = [
        _comparison(conditions, algorithm, _within(conditions, ours), here, options)
        for conditions, here in shared
    ]
    _check_references(found)
    return found


def _check_references(found: Sequence[PairwiseComparison]) -> None:
    """Checks that something is compared; references are named where they are the reason."""
    if any(verdict.environments for comparison in found for verdict in comparison.verdicts):
        return
    for comparison in found:
        for name, left_out in comparison.other_references.items():
            if left_out:
                raise InputError(
                    f"{comparison.algorithm} and {name}: their scores have different references "
                    f"on every environment that both have; on {left_out[0].environment}, "
                    f"{said_of(left_out[0], (comparison.algorithm, name))}"
                )


def said_of(found: OtherReferences, names: tuple[str, str]) -> str:
    """Returns which references the runs of both sides have, and what would make them comparable."""
    first, second = (
        f"{'version' if len(versions) == 1 else 'versions'} {one_line(' and '.join(versions))}"
        if versions
        else "unknown ones"
        for versions in found.versions
    )
    alike = len({*found.versions[0], *found.versions[1]}) == 1
    said = f"{names[0]} has {first}, {names[1]} {second}{' with other values' * alike}"
    return said + found.rescored * (
        "; `imitbench leaderboard rescore` scores published results with those of the suite's card"
    )


def _having(name: str, runs: Sequence[ComparableRun]) -> str:
    """States under which conditions an algorithm has runs."""
    titles = sorted({run.conditions.title for run in runs})
    more = [f"{len(titles) - _SHOWN} more"] if len(titles) > _SHOWN else []
    return f"{name} has {' | '.join(titles[:_SHOWN] + more)}"


def _only_variant(name: str, entries: Sequence[ComparableRun]) -> str:
    """Returns the label of the only variant of an algorithm without runs by its own name."""
    labels = {entry.algo for entry in entries}
    variants = [label for label in labels if label.startswith(f"{name}[")]
    return variants[0] if name not in labels and len(variants) == 1 else name


def _named(name: str, entries: Sequence[ComparableRun], elsewhere: str = "") -> list[ComparableRun]:
    runs = [entry for entry in entries if entry.algo == name]
    if not runs:
        known = sorted({entry.algo for entry in entries})
        if bundled_algorithm(name) is None:
            raise InputError(f"{name}: has no runs here; {did_you_mean(name, known)}")
        variants = [label for label in known if label.startswith(f"{name}[")]
        if variants:
            raise InputError(
                f"{name}: has no runs with the card's values here; name one of "
                f"{', '.join(variants)}"
            )
        raise InputError(
            f"{name}: has no runs here; run it first{elsewhere}; "
            f"here are {', '.join(known) or 'none'}"
        )
    for run in runs:
        if run.score is not None and not math.isfinite(run.score):
            raise InputError(
                f"{name} on {run.env}: a score is not finite; exclude the environment with --env"
            )
    return runs


def _shared_conditions(
    ours: Sequence[ComparableRun], theirs: Sequence[ComparableRun]
) -> list[Conditions]:
    """Returns the conditions that both sides have runs of, without those that others include."""
    opposite = {entry.conditions for entry in theirs}
    shared = {
        own.merged(other)
        for own in {entry.conditions for entry in ours}
        for other in opposite
        if own.compatible(other)
    }
    specific = [
        conditions
        for conditions in shared
        if not any(
            other.known > conditions.known and other.compatible(conditions)
            for other in shared - {conditions}
        )
    ]
    return sorted(specific, key=str)


def _within(conditions: Conditions, entries: Sequence[ComparableRun]) -> list[ComparableRun]:
    return [entry for entry in entries if entry.conditions.compatible(conditions)]


def _comparison(
    conditions: Conditions,
    algorithm: str,
    ours: Sequence[ComparableRun],
    theirs: dict[str, list[ComparableRun]],
    options: PairwiseOptions,
) -> PairwiseComparison:
    # The same name on both sides is two algorithms.
    labels = {name: name if name != algorithm else f"{name} (baseline)" for name in theirs}
    sides: _Sides = {algorithm: ours, **{labels[name]: runs for name, runs in theirs.items()}}
    first: Acting = "likely" if options.acting == "likely" else "sampled"
    sides, left_out = _on_one_scale(algorithm, sides, (first,))
    ways, lacking = ways_of_acting(_lacking(sides), options.acting)
    sides, more = _on_one_scale(algorithm, sides, ways)
    left_out = {name: [*found, *more[name]] for name, found in left_out.items()}
    views = {acting: _by_policy(algorithm, sides, acting, options) for acting in ways}
    by_acting = {
        acting: tuple(in_all_views(found, "failed runs decide")) for acting, found in views.items()
    }
    decided = in_all_views(list(by_acting.values()), "ways of acting differ")
    # Those by acting have the p-values of one policy for failed runs.
    every = [view for found in views.values() for view in found]
    decided = in_all_views([decided, *every], None)
    decided = [_without_missing(verdict, left_out[verdict.second]) for verdict in decided]
    return PairwiseComparison(
        conditions=conditions,
        algorithm=algorithm,
        verdicts=tuple(decided),
        raw_means={
            (name, env): mean
            for name, runs in sides.items()
            for env in {run.env for run in runs}
            if (mean := _raw_mean(env, runs)) is not None
        },
        failures={
            (name, env): count
            for name, runs in sides.items()
            for env, count in _failures(runs).items()
        },
        score_one=tuple(
            sorted({run.score_one for runs in sides.values() for run in runs if run.score_one})
        ),
        by_acting=by_acting,
        lacking=lacking,
        perturbations=_perturbations(algorithm, sides, ways[0], options),
        other_references=left_out,
    )


def _on_one_scale(
    algorithm: str, sides: _Sides, ways: Sequence[Acting]
) -> tuple[_Sides, dict[str, list[OtherReferences]]]:
    """Leaves out runs of baselines whose scores have other references than the algorithm's.

    Also where the runs of one side have several. Failed runs have score 0 on any scale, and runs
    whose references are not known cannot be told apart.

    Returns:
        The sides, and by baseline what is left out.
    """
    kept = {algorithm: sides[algorithm]}
    left_out: dict[str, list[OtherReferences]] = {}
    for name, runs in sides.items():
        if name == algorithm:
            continue
        pair = [_by_environment(sides[algorithm]), _by_environment(runs)]
        left_out[name] = [
            _other_references(env, own, other)
            for env in sorted(pair[0].keys() & pair[1].keys())
            if not _agree([*(own := pair[0][env]), *(other := pair[1][env])], ways)
        ]
        without = {found.environment for found in left_out[name]}
        kept[name] = [run for run in runs if run.env not in without]
    return kept, left_out


def _by_environment(runs: Sequence[ComparableRun]) -> dict[str, list[ComparableRun]]:
    found: dict[str, list[ComparableRun]] = {}
    for run in runs:
        found.setdefault(run.env, []).append(run)
    return found


def _agree(runs: Sequence[ComparableRun], ways: Sequence[Acting]) -> bool:
    scales = list(dict.fromkeys(run.scale for run in runs if run.scale is not None))
    return all(one.agrees(other, way) for one, other in combinations(scales, 2) for way in ways)


def _other_references(
    env: str, own: Sequence[ComparableRun], other: Sequence[ComparableRun]
) -> OtherReferences:
    first, second = (
        tuple(sorted({run.scale.version for run in runs if run.scale is not None}))
        for runs in (own, other)
    )
    suites = {run.conditions.suite for run in (*own, *other)} - {None}
    card = bundled_suite(next(iter(suites)) or "") if len(suites) == 1 else None
    on_card = card.environments.get(env) if card is not None else None
    has_scale = on_card is not None and on_card.scale is not None
    # Scores with the expert of another source keep it.
    foreign = any("+" in version for version in (*first, *second))
    return OtherReferences(env, (first, second), has_scale and not foreign)


def _without_missing(verdict: Verdict, left_out: Sequence[OtherReferences]) -> Verdict:
    """Returns the verdict without missing cells where runs are left out for their references."""
    without = {found.environment for found in left_out}
    missing = tuple(cell for cell in verdict.coverage.missing if cell.environment not in without)
    return replace(verdict, coverage=replace(verdict.coverage, missing=missing))


def _perturbations(
    algorithm: str,
    sides: _Sides,
    acting: Acting,
    options: PairwiseOptions,
) -> dict[str, list[PerturbationEffect]]:
    """Returns what variants of environments, `ID+NAME`, change for the algorithm and baselines."""
    cells = {name: _scores(runs, acting) for name, runs in sides.items()}
    own = cells.pop(algorithm)
    controls = {env: base for env in own if (base := env.partition("+")[0]) != env and base in own}
    return {
        name: perturbation_effects(
            own,
            other,
            controls,
            level=options.level,
            replicates=options.replicates,
            seed=options.seed,
        )
        for name, other in cells.items()
    }


def _lacking(sides: _Sides) -> tuple[str, str] | None:
    """Returns name and environment of a run without a score of most likely actions, if any."""
    return next(
        (
            (name, run.env)
            for name, runs in sides.items()
            for run in runs
            if run.score is not None and run.score_likely is None
        ),
        None,
    )


def _by_policy(
    algorithm: str,
    sides: _Sides,
    acting: Acting,
    options: PairwiseOptions,
) -> list[list[Verdict]]:
    """Returns the verdicts about one way of acting, for each way to count failed runs."""
    policies = [options.policy or FailurePolicy.COUNT_AS_RANDOM]
    if options.policy is None and any(run.score is None for runs in sides.values() for run in runs):
        policies.append(FailurePolicy.EXCLUDE)
    return [_verdicts(algorithm, sides, policy, acting, options) for policy in policies]


def _verdicts(
    algorithm: str,
    sides: _Sides,
    policy: FailurePolicy,
    acting: Acting,
    options: PairwiseOptions,
) -> list[Verdict]:
    cells = {
        name: count_failures(_scores(runs, acting), _failures(runs), policy)
        for name, runs in sides.items()
    }
    return verdicts(
        algorithm,
        cells.pop(algorithm),
        cells,
        level=options.level,
        replicates=options.replicates,
        seed=options.seed,
    )


def _scores(runs: Sequence[ComparableRun], acting: Acting) -> dict[str, FloatArray]:
    by_environment: dict[str, list[float]] = {}
    for run in runs:
        score = run.score_by(acting)
        if score is not None:
            by_environment.setdefault(run.env, []).append(score)
    return {env: np.array(scores) for env, scores in by_environment.items()}


def _failures(runs: Sequence[ComparableRun]) -> Counter[str]:
    return Counter(run.env for run in runs if run.score is None)


def _raw_mean(env: str, runs: Sequence[ComparableRun]) -> float | None:
    returns = [run.raw_return for run in runs if run.env == env and run.score is not None]
    known = [value for value in returns if value is not None]
    return float(np.mean(known)) if known and len(known) == len(returns) else None
