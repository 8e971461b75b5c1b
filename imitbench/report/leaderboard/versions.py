"""Separates runs that were scored on different scales, so that no table mixes them.

Runs of a table share their suite, the version of its card, and the references of every environment.
The version of this package does not separate runs: a run's specification has everything that
determines its numbers, and whatever changes them (a default, an implementation, demonstrations)
changes the specification. Rows show the versions that made them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from imitbench.records.bundled_cards import bundled_suite
from imitbench.records.runs import FailureRow, ReferenceRow, ReferenceScores, ScoreRow
from imitbench.report.leaderboard.source_rows import ReportRows

_Scale = tuple[str, str, int]
_Reference = tuple[str, float, float]


def separate(rows: ReportRows) -> list[tuple[str, ReportRows]]:
    """Separates rows by suite and by the references that scored them.

    Args:
        rows: Rows of all submitters.

    Returns:
        Text that tells apart the groups of a suite, empty if it has one group; and the rows of
        each group. Groups are sorted by suite, those of the newest version first.
    """
    scales = _scales(rows)
    grouped: dict[_Scale, ReportRows] = {}
    for scale in sorted(set(scales.values()), key=_order):
        grouped[scale] = replace(rows, scores=[], failures=[], references=[])
    known: dict[_Scale, set[tuple[str, _Reference]]] = defaultdict(set)
    shown: list[ScoreRow | FailureRow] = [*rows.scores, *rows.failures]
    for row in shown:
        scale = scales[row.run_id]
        known[scale].add((row.env, _references(rows, row)))
        if isinstance(row, ScoreRow):
            grouped[scale].scores.append(row)
        else:
            grouped[scale].failures.append(row)
    for scale, found in known.items():
        grouped[scale].references = [
            reference
            for reference in rows.references
            if reference.suite == scale[0]
            and (reference.env, _identity(reference.suite, reference)) in found
        ]
    return [(_told(scale, grouped), own) for scale, own in grouped.items()]


def _references(rows: ReportRows, row: ScoreRow | FailureRow) -> _Reference:
    run = rows.entries[row.run_id].run
    outcome = run.result or run.failure
    assert outcome is not None
    return _identity(row.suite, outcome.references)


def _identity(suite: str, references: ReferenceScores | ReferenceRow) -> _Reference:
    """Returns what identifies references: of a suite of this package, their version alone.

    Other values of such a version fail the check `references`, and have no rank.
    """
    if bundled_suite(suite) is not None:
        return references.version, 0.0, 1.0
    return references.version, references.random, references.expert


def _scales(rows: ReportRows) -> dict[str, _Scale]:
    """Returns suite, version of its card, and number of the scale, by the id of the row.

    Two experts of one source have the same version of the card. Where an environment has several,
    the scales of that environment are numbered.
    """
    shown: list[ScoreRow | FailureRow] = [*rows.scores, *rows.failures]
    several: dict[tuple[str, str, str, str], dict[_Reference, None]] = defaultdict(dict)
    keys = {}
    for row in sorted(shown, key=lambda each: each.run_id):
        own = _references(rows, row)
        base, _, expert = own[0].partition("+")
        keys[row.run_id] = (row.suite, base, row.source or expert, row.env), own
        several[keys[row.run_id][0]].setdefault(own)
    ordered: Mapping[tuple[str, str, str, str], list[_Reference]] = {
        key: sorted(found) for key, found in several.items()
    }
    return {
        run_id: (key[0], key[1], ordered[key].index(own)) for run_id, (key, own) in keys.items()
    }


def _order(scale: _Scale) -> tuple[str, int, str, int]:
    suite, version, number = scale
    return suite, -int(version) if version.isdecimal() and len(version) < 10 else 0, version, number


def _told(scale: _Scale, grouped: Mapping[_Scale, ReportRows]) -> str:
    suite, version, number = scale
    alike = [other for other in grouped if other[0] == suite]
    if len(alike) == 1:
        return ""
    numbered = sum(other[1] == version for other in alike) > 1
    return f"version {version}" + f", scale {number + 1}" * numbered
