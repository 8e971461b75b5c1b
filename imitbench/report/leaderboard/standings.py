"""Chooses what the first page shows: the best table of each method on each suite, with places."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from imitbench.records.selection import Acting
from imitbench.report import text
from imitbench.report.leaderboard.model import BoardRow, BoardSection, OnBoard, Standing, Track
from imitbench.report.model import StatisticsSettings
from imitbench.stats.coverage import FailurePolicy, count_failures
from imitbench.stats.decided_pairs import Pair, PairOutcome, compared_pairs, winners
from imitbench.stats.strata import FloatArray

REPLICATES = 2_000
"""Most replicates of the decisions behind places."""


def entry_name(row: BoardRow) -> str:
    """Returns what identifies a row of the first page: its method, or an import with its method."""
    return f"{row.imported.label}: {row.name}" if row.imported is not None else row.name


def make_tracks(parts: Sequence[BoardSection], method: StatisticsSettings) -> tuple[Track, ...]:
    """Chooses the best row of each method on each suite, and ranks these.

    Ranked rows come before others, then the higher IQM counts. Runs that were scored with other
    references, or with experts of another source, are another column.
    """
    grouped: dict[tuple[str, str, str], list[OnBoard]] = {}
    for part in parts:
        versions = ", ".join(sorted({row.version for row in part.section.references}))
        key = (part.section.suite, part.section.conditions.source or "", versions)
        grouped.setdefault(key, []).extend(OnBoard(part, row) for row in part.rows)
    tracks = []
    for (suite, source, version), shown in grouped.items():
        alike = [other for other in grouped if other[0] == suite]
        several = len({other[1] for other in alike}) > 1, len({other[2] for other in alike}) > 1
        details = [source or "no source"] * several[0] + [f"version {version}"] * several[1]
        details += [flag] if (flag := text.score_one_flag(shown[0].part.section.score_one)) else []
        title = f"{suite} ({', '.join(details)})" if details else suite
        tracks.append(Track(title, _standings(shown, method)))
    return tuple(tracks)


def _standings(shown: Iterable[OnBoard], method: StatisticsSettings) -> dict[str, Standing]:
    best: dict[str, OnBoard] = {}
    for each in shown:
        name = entry_name(each.row)
        if name not in best or _quality(each.row) > _quality(best[name].row):
            best[name] = each
    ranked = {name: each for name, each in best.items() if each.row.rank is not None}
    places = _places(ranked, method)
    held = list(places.values())
    return {
        name: Standing(each, places.get(name), held.count(places.get(name, 0)) > 1)
        for name, each in best.items()
    }


def _places(ranked: Mapping[str, OnBoard], method: StatisticsSettings) -> dict[str, int]:
    tables = {id(each.part): each.part for each in ranked.values()}
    if len(tables) != 1:
        rows = {name: each.row for name, each in ranked.items()}
        return tied_places(rows, pair_outcomes(rows, method))
    [pairs] = [table.pairs for table in tables.values()]
    keys = {name: each.row.result.algorithm for name, each in ranked.items()}
    places = tied_places(keys.values(), pairs)  # the table has decided all of them
    return {name: places[key] for name, key in keys.items()}


def _quality(row: BoardRow) -> tuple[bool, int, float]:
    iqm = row.result.iqm
    return row.rank is not None, len(row.result.covered), -np.inf if iqm is None else iqm.point


def is_scored(row: BoardRow) -> bool:
    """Whether a row can be compared: it has runs with finite scores, and defines no score."""
    iqm = row.result.iqm
    is_run = row.kind == "run" and row.result.role != "anchor"
    return is_run and iqm is not None and math.isfinite(iqm.point)


def pair_outcomes(
    rows: Mapping[str, BoardRow], method: StatisticsSettings, acting: Acting = "sampled"
) -> dict[Pair, PairOutcome]:
    """Compares all pairs of rows by the rule of `imitbench compare` for one pair and way of acting.

    Where runs failed, a decision must hold whether these count as random or not at all. Two results
    of the same run say nothing about a difference, so a pair is not compared where both have it.
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
        )

    found = compared(method.failed_runs)
    failing = {name for name, row in rows.items() if row.result.failures}
    if not failing:
        return found
    [other] = set(FailurePolicy) - {method.failed_runs}
    elsewhere = compared(other)
    for pair, outcome in found.items():
        again = elsewhere.get(pair)
        if failing & {*pair} and (again is None or again.decision != outcome.decision):
            found[pair] = replace(outcome, decision="undecided")
    return found


def shared_runs(first: BoardRow, second: BoardRow) -> dict[str, int]:
    """Returns the number of runs, by environment, of which both rows have a result."""
    ids = {run.run.spec.run_id for run in first.runs}
    return Counter(run.row.env for run in second.runs if run.run.spec.run_id in ids)


def tied_places(names: Iterable[str], outcomes: Mapping[Pair, PairOutcome]) -> dict[str, int]:
    """Returns the places of ranked rows: 1 + the number of these that are decided to be better.

    Args:
        names: Names of the ranked rows.
        outcomes: What `pair_outcomes` returned for these rows, and maybe for others.
    """
    places = dict.fromkeys(names, 1)
    for better, worse in winners(outcomes):
        if better in places and worse in places:
            places[worse] += 1
    return places


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
