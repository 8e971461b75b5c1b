"""Ranks the rows of tables in tiers, and chooses what the first page shows of each method."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from imitbench.records.selection import Acting
from imitbench.report import text
from imitbench.report.leaderboard.model import BoardRow, BoardSection, OnBoard, SuiteColumn
from imitbench.report.model import StatisticsSettings
from imitbench.stats.coverage import FailurePolicy, count_failures
from imitbench.stats.decided_pairs import Pair, PairOutcome, compared_pairs, winners
from imitbench.stats.strata import FloatArray

REPLICATES = 2_000
"""Most replicates of the intervals of comparisons."""


def entry_name(row: BoardRow) -> str:
    """Returns what identifies a row of the first page: its method, or an import with its method.

    A method with other hyper-parameters, or trained in packs, is the same method.
    """
    if row.imported is not None:
        return f"{row.imported.label}: {row.name}"
    return row.specs[0].algo if row.specs else row.name


def make_columns(parts: Sequence[BoardSection]) -> tuple[SuiteColumn, ...]:
    """Chooses the row of each method on each suite: a tier counts first, then the default budget.

    Runs that were scored with other references, or with experts of another source, are another
    column.
    """
    grouped: dict[tuple[str, str, str], list[OnBoard]] = {}
    for part in parts:
        versions = ", ".join(sorted({row.version for row in part.section.references}))
        key = (part.section.suite, part.section.conditions.source or "", versions)
        grouped.setdefault(key, []).extend(OnBoard(part, row) for row in part.rows)
    columns = []
    for (suite, source, version), rows in grouped.items():
        alike = [other for other in grouped if other[0] == suite]
        several = len({other[1] for other in alike}) > 1, len({other[2] for other in alike}) > 1
        details = [source or "no source"] * several[0] + [f"version {version}"] * several[1]
        details += [flag] if (flag := text.score_one_flag(rows[0].part.section.score_one)) else []
        title = f"{suite} ({', '.join(details)})" if details else suite
        best: dict[str, OnBoard] = {}
        for found in rows:
            name = entry_name(found.row)
            if name not in best or _quality(found) > _quality(best[name]):
                best[name] = found
        columns.append(SuiteColumn(title, best))
    return tuple(columns)


def _quality(found: OnBoard) -> tuple[bool, bool, int, bool, float]:
    row, iqm = found.row, found.row.result.iqm
    is_default = found.part.section.conditions.budget == "default"
    point = -np.inf if iqm is None else iqm.point
    return row.tier is not None, row.rank is not None, len(row.result.covered), is_default, point


def with_tiers(
    rows: Sequence[BoardRow], method: StatisticsSettings
) -> tuple[list[BoardRow], dict[Pair, PairOutcome], dict[Pair, PairOutcome]]:
    """Returns the rows of a table with the tiers of ranked ones, and the outcomes of all pairs.

    The first outcomes are by sampled actions, the second ones by most likely actions, of rows that
    have their scores. A tier needs decisions that hold for both ways of acting.

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
    decided = winners(both, 1 - method.level)
    tiers: dict[str, int] = {}
    for track in {scored[name].track for name in ranked}:
        tiers |= tiers_of([name for name in ranked if scored[name].track == track], decided)
    return [replace(row, tier=tiers.get(row.result.algorithm)) for row in rows], pairs, likely


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
