"""Ranks the rows of tables in tiers, and says in which order tables and methods stand."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from imitbench.cards.demonstrations import Regime
from imitbench.records.bundled_cards import bundled_suite
from imitbench.records.selection import Acting
from imitbench.report.leaderboard.model import TRACKS, BoardRow, BoardSection
from imitbench.report.model import StatisticsSettings
from imitbench.stats.coverage import FailurePolicy, count_failures
from imitbench.stats.decided_pairs import Pair, PairOutcome, compared_pairs, winners
from imitbench.stats.significance import significance_at
from imitbench.stats.strata import FloatArray
from imitbench.store.comparability import Conditions

REPLICATES = 2_000
"""Most replicates of the intervals of comparisons."""

PARTIAL, CONTROLS, EXTERNAL, OTHER = "partial", "controls", "external", "other"
"""Groups of a table besides its tracks, see `ordered_groups`."""
_LAST = (PARTIAL, CONTROLS, EXTERNAL)


@dataclass(frozen=True)
class Standings:
    """The rows of a table with their tiers, and what was compared to find these.

    Attributes:
        rows: The rows.
        pairs: Outcomes of all pairs by sampled actions, each a question of its own.
        likely_pairs: The same by most likely actions, of rows that have their scores.
        decided: Pairs (better, worse) of a track that are decided in both ways of acting, after
            Holm's correction.
    """

    rows: list[BoardRow]
    pairs: dict[Pair, PairOutcome]
    likely_pairs: dict[Pair, PairOutcome]
    decided: frozenset[Pair]


@dataclass(frozen=True)
class MethodEntry:
    """A method in a table: the row that stands for it, and its other ones.

    Attributes:
        row: Its row with the best tier, or else the highest IQM.
        others: Rows of other values, or of other submitters.
    """

    row: BoardRow
    others: tuple[BoardRow, ...] = ()


def by_method(rows: Iterable[BoardRow]) -> list[MethodEntry]:
    """Returns one entry for each method of some rows, in the order of the first rows."""
    grouped: dict[str, list[BoardRow]] = {}
    for row in rows:
        grouped.setdefault(row.method, []).append(row)
    ordered = [sorted(own, key=standing) for own in grouped.values()]
    return [MethodEntry(own[0], tuple(own[1:])) for own in ordered]


def ordered_groups(part: BoardSection) -> list[tuple[str, list[MethodEntry]]]:
    """Returns the methods of a table in groups, of which none is empty.

    Groups are the tracks, in the order of `TRACKS`; then `PARTIAL`, without runs on every
    environment; `CONTROLS`, controls and references; and `EXTERNAL`. In a track, tiers come first,
    and methods without a tier last. A method is in one group only.
    """
    grouped: dict[str, list[MethodEntry]] = {name: [] for name in (*TRACKS, OTHER, *_LAST)}
    for kind, rows in _kinds(part).items():
        entries = [MethodEntry(row) for row in rows] if kind == EXTERNAL else by_method(rows)
        for entry in sorted(entries, key=lambda entry: standing(entry.row)):
            name = entry.row.track or OTHER if kind == OTHER else kind
            if kind != EXTERNAL and entry.row.result.partial:
                name = PARTIAL
            grouped[name].append(entry)
    return [(name, entries) for name, entries in grouped.items() if entries]


def _kinds(part: BoardSection) -> dict[str, list[BoardRow]]:
    kinds: dict[str, list[BoardRow]] = {OTHER: [], CONTROLS: [], EXTERNAL: []}
    for row in part.rows:
        is_method = row.kind in ("run", "missing") and row.result.role == "method"
        kinds[EXTERNAL if row.kind == "external" else OTHER if is_method else CONTROLS].append(row)
    return kinds


def standing(row: BoardRow) -> tuple[float, bool, int, float]:
    """Returns a key that sorts rows: by tier, then ranked and more complete ones, then by IQM."""
    iqm = row.result.iqm
    point = iqm.point if iqm is not None and math.isfinite(iqm.point) else -math.inf
    return row.tier or math.inf, row.rank is None, -len(row.result.covered), -point


def headline_first(parts: Sequence[BoardSection]) -> list[BoardSection]:
    """Returns the tables of a suite with that of its headline first, the others in their order.

    The headline is what a suite's card makes the usual case: the default budget, the
    demonstrations of the default regime, and the bundled source, with the newest references.
    Tables with ranked methods go before all others, and of equal ones that with most of them.
    Another regime comes before the default one where more methods have a tier.
    """
    if not parts:
        return []
    card = bundled_suite(parts[0].section.suite)
    regime = card.regime(card.default_regime) if card is not None else Regime()
    newest = list(dict.fromkeys(part.version for part in parts))

    def usual(part: BoardSection) -> tuple[float, ...]:
        given = part.section.conditions
        ranked = sum(row.rank is not None for row in part.rows)
        usual_conditions = Conditions.in_regime(given.suite, given.budget, given.source, regime)
        return (
            ranked > 0,
            given.budget == "default",
            given == usual_conditions,
            given.source == "bundled",
            -newest.index(part.version),
            ranked,
        )

    def told_apart(part: BoardSection) -> tuple[float, ...]:
        ranked, budget, *others = usual(part)
        return ranked, budget, sum(row.tier is not None for row in part.rows), *others

    of_regime: dict[Conditions, BoardSection] = {}
    for part in sorted(parts, key=usual, reverse=True):
        of_regime.setdefault(replace(part.section.conditions, budget=None, source=None), part)
    best = max(of_regime.values(), key=told_apart)
    return [best, *(part for part in parts if part is not best)]


def with_tiers(rows: Sequence[BoardRow], method: StatisticsSettings) -> Standings:
    """Returns the rows of a table with the tiers of ranked ones, and the outcomes of all pairs.

    A tier needs decisions that hold for both ways of acting.

    The chance that any row stands in a lower tier than another one which is not worse is at most
    1 - `method.level` in a table: all pairs within tracks are corrected for each other by Holm's
    method.
    """
    scored = {row.result.algorithm: row for row in rows if is_scored(row)}
    ranked = [name for name, row in scored.items() if row.rank is not None and not row.provisional]
    within = [pair for pair in combinations(ranked, 2)
              if scored[pair[0]].track == scored[pair[1]].track]  # fmt: skip
    pairs = pair_outcomes(scored, method, corrected=within)
    quiet = {name: row for name, row in scored.items() if row.result.iqm_likely is not None}
    inside = [pair for pair in within if quiet.keys() >= {*pair}]
    likely = pair_outcomes(quiet, method, "likely", inside)
    both = {
        pair: _agreed(pairs[pair], likely.get(pair, pairs[pair]))
        for pair in within
        if pair in pairs
    }
    decided = winners(both, significance_at(method.level))
    tiers: dict[str, int] = {}
    for track in {scored[name].track for name in ranked}:
        tiers |= tiers_of([name for name in ranked if scored[name].track == track], decided)
    placed = [replace(row, tier=tiers.get(row.result.algorithm)) for row in rows]
    return Standings(placed, pairs, likely, decided)


def _agreed(one: PairOutcome, other: PairOutcome) -> PairOutcome:
    """Returns the outcome that holds in two ways to count: undecided where they differ."""
    p_value = max(one.p_value, other.p_value)
    decision = one.decision if one.decision == other.decision else "undecided"
    return replace(one, decision=decision, p_value=p_value)


def tiers_of(names: Iterable[str], decided: Collection[Pair]) -> dict[str, int]:
    """Returns the tiers of names, from 1: each is one below the lowest tier that beats it.

    Args:
        names: Names to rank.
        decided: Pairs (better, worse).
    """
    tiers: dict[str, int] = {}
    left = list(names)
    while left:
        worse = {loser for winner, loser in decided if winner in left}
        # Rows that beat each other in a circle, over different environments, share a tier.
        best = [name for name in left if name not in worse] or left
        tiers |= dict.fromkeys(best, max(tiers.values(), default=0) + 1)
        left = [name for name in left if name not in tiers]
    return tiers


def is_scored(row: BoardRow) -> bool:
    """Whether a row can be compared: it has runs with finite scores, and defines no score."""
    iqm = row.result.iqm
    is_run = row.kind == "run" and row.result.role != "anchor"
    return is_run and iqm is not None and math.isfinite(iqm.point)


def pair_outcomes(
    rows: Mapping[str, BoardRow],
    method: StatisticsSettings,
    acting: Acting = "sampled",
    corrected: Collection[Pair] = (),
) -> dict[Pair, PairOutcome]:
    """Compares all pairs of rows by the rule of `imitbench compare` for one pair and way of acting.

    Where runs failed, a decision must hold whether these count as random or not at all. Two results
    of the same run say nothing about a difference, so a pair is not compared where both have it.

    Args:
        rows: Rows by name.
        method: Settings of the comparison.
        acting: Way of acting.
        corrected: Pairs that will be corrected for each other, see `compared_pairs`.
    """
    shared = {pair: frozenset(shared_runs(*(rows[name] for name in pair)))
              for pair in combinations(rows, 2)}  # fmt: skip

    def compared(policy: FailurePolicy) -> dict[Pair, PairOutcome]:
        return compared_pairs(
            {name: scores_of(row, policy, acting) for name, row in rows.items()},
            level=method.level,
            replicates=min(REPLICATES, method.replicates),
            seed=method.seed,
            excluded=shared,
            corrected=corrected,
        )

    found = compared(method.failed_runs)
    failing = {name for name, row in rows.items() if row.result.failures}
    if not failing:
        return found
    [other] = set(FailurePolicy) - {method.failed_runs}
    elsewhere = compared(other)
    for pair, outcome in found.items():
        if failing & {*pair}:
            nothing = replace(outcome, decision="undecided")
            found[pair] = _agreed(outcome, elsewhere.get(pair, nothing))
    return found


def shared_runs(first: BoardRow, second: BoardRow) -> dict[str, int]:
    """Returns the number of runs, by environment, of which both rows have a result."""
    ids = {run.run.spec.run_id for run in first.runs}
    return Counter(run.row.env for run in second.runs if run.run.spec.run_id in ids)


def shared_notes(rows: Sequence[BoardRow]) -> list[str]:
    """Returns what a reader must know of rows that have results of the same runs."""
    return [
        f"{one.result.algorithm} and {other.result.algorithm} have {count} runs of {environment} "
        "with the same ids, each with a result of its own, from another machine for example; the "
        "two are not compared there."
        for one, other in combinations(rows, 2)
        if "anchor" not in (one.result.role, other.result.role)
        for environment, count in sorted(shared_runs(one, other).items())
    ]


def scores_of(
    row: BoardRow, policy: FailurePolicy, acting: Acting = "sampled"
) -> dict[str, FloatArray]:
    """Returns the scores of a row's runs by environment, failed runs counted by a policy.

    Args:
        row: The row.
        policy: How failed runs count.
        acting: Way of acting. All scores of most likely actions are known if the row's result has
            an `iqm_likely`; unknown ones are NaN.
    """
    scores: dict[str, list[float]] = {}
    for run in row.runs:
        scores.setdefault(run.row.env, []).append(run.row.score_by(acting))
    failures = {cell.environment: cell.failures for cell in row.result.cells}
    return count_failures({env: np.array(own) for env, own in scores.items()}, failures, policy)
