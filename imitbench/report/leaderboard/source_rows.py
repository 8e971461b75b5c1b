"""Makes report rows of published runs, and keeps separate what no table may mix.

Runs of a table share their suite, the version of its card, and the references of every environment;
runs of different submitters have rows of their own. The version of this package does not separate
runs: a run's specification has everything that determines its numbers, and whatever changes them (a
default, an implementation, demonstrations) changes the specification. Rows show the versions that
made them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from imitbench.published.results_sources import ResultsSource
from imitbench.records.bundled_cards import bundled_suite, role_of
from imitbench.records.published import PublishedRun
from imitbench.records.runs import FailureRow, ReferenceRow, ReferenceScores, RunSpec, ScoreRow
from imitbench.report.model import ANCHORS
from imitbench.store.comparability import current_run_ids, run_row

_MEASURED = {"raw_return", "termination_rate", "mean_length", "env_steps", "train_s", "wall_s",
             "finished_at"}  # fmt: skip
_Scale = tuple[str, str, int]
_Reference = tuple[str, float, float]


@dataclass(frozen=True)
class SubmittedRun:
    """A run and its source.

    Attributes:
        source: Index of its source in the list of sources.
        run: The published run.
    """

    source: int
    run: PublishedRun


@dataclass
class ReportRows:
    """Input of a report.

    Attributes:
        scores: The latest run of every cell and seed of each submitter, if it completed. Row ids
            start with the index of the source; names of algorithms have the submitter if needed.
        failures: The same for latest runs that failed.
        references: References of all runs.
        entries: The runs, by the id of their row.
        names: Name of the algorithm in its runs, by the name in rows.
    """

    scores: list[ScoreRow] = field(default_factory=list)
    failures: list[FailureRow] = field(default_factory=list)
    references: list[ReferenceRow] = field(default_factory=list)
    entries: dict[str, SubmittedRun] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    @property
    def episodes(self) -> int | None:
        """Number of evaluation episodes of each completed run; `None` if it differs."""
        shown = (self.entries[row.run_id].run.spec.protocol.episodes for row in self.scores)
        counts = set(shown)
        return counts.pop() if len(counts) == 1 else None


def make_rows(sources: Sequence[ResultsSource]) -> ReportRows:
    """Makes report rows of the runs of all submitters.

    An algorithm that several submitters ran on a suite has one entry per submitter. The reference
    policies `random` and `expert` have one entry for all submitters, if the runs used this
    package's implementation.
    """
    rows = ReportRows()
    keys = _keys(sources)
    references: set[ReferenceRow] = set()
    for index, source in enumerate(sources):
        current = current_run_ids((run.spec, run.ended_at) for run in source.runs)
        for run in source.runs:
            if run.spec.run_id not in current:
                continue
            spec, references_of_run = run.spec, run.outcome.references
            run_id = f"{index}-{spec.run_id}"
            key = keys[index, spec.suite, spec.algo_label, _is_anchor(spec)]
            columns = {
                **run_row(spec).model_dump(),
                "run_id": run_id,
                "algo": key,
                "source": spec.source or _source_of_scale(references_of_run.version),
            }
            rows.entries[run_id] = SubmittedRun(index, run)
            rows.names[key] = spec.algo_label
            references.add(
                ReferenceRow(suite=spec.suite, env=spec.environment.id, **dict(references_of_run))
            )
            if run.failure is not None:
                columns |= run.failure.model_dump(include={"phase", "error_type", "message"})
                rows.failures.append(FailureRow.model_validate(columns))
            else:
                rows.scores.append(_score_row(run, columns))
    rows.references = sorted(references, key=lambda row: (row.suite, row.env, row.version,
                                                          row.random, row.expert))  # fmt: skip
    return rows


def _score_row(run: PublishedRun, columns: dict[str, object]) -> ScoreRow:
    result = run.result
    assert result is not None
    return ScoreRow.model_validate(
        {
            **columns,
            **result.model_dump(include=_MEASURED),
            "score": result.references.score(result.raw_return),
            "score_deterministic": result.references.score(result.deterministic_return),
            "score_one": result.references.score_one,
        }
    )


def _source_of_scale(version: str) -> str | None:
    """Returns the source of the expert that scores refer to; `None` for the suite's expert.

    Runs without demonstrations, of a control for example, are shown with the runs that learned
    from that source.
    """
    _, foreign, expert = version.partition("+")
    return re.sub(r":[0-9a-f]{8}$", "", expert) if foreign else None


def _is_anchor(spec: RunSpec) -> bool:
    """Whether a run is of an anchor, and not of another algorithm with that name."""
    return role_of(spec) == "anchor" and spec.algo_label in ANCHORS


def _keys(sources: Sequence[ResultsSource]) -> dict[tuple[int, str, str, bool], str]:
    """Returns a unique name for each algorithm of each submitter on a suite."""
    wanted = sorted(
        {
            (index, run.spec.suite, run.spec.algo_label, _is_anchor(run.spec))
            for index, source in enumerate(sources)
            for run in source.runs
        }
    )
    shared = Counter((suite, label) for _, suite, label, _ in wanted)
    keys: dict[tuple[int, str, str, bool], str] = {}
    taken = {label for _, _, label, _ in wanted}
    for index, suite, label, anchor in wanted:
        if anchor or (shared[suite, label] == 1 and label not in ANCHORS):
            keys[index, suite, label, anchor] = label
            continue
        key = f"{label} ({sources[index].name or 'own runs'})"
        while key in taken:
            key += "*"
        keys[index, suite, label, anchor] = key
    return keys


def separate(rows: ReportRows) -> list[tuple[str, ReportRows]]:
    """Separates rows by suite and by the references that scored them.

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
    return [(_version_text(scale, grouped), own) for scale, own in grouped.items()]


def _references(rows: ReportRows, row: ScoreRow | FailureRow) -> _Reference:
    return _identity(row.suite, rows.entries[row.run_id].run.outcome.references)


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


def _version_text(scale: _Scale, grouped: Mapping[_Scale, ReportRows]) -> str:
    suite, version, number = scale
    alike = [other for other in grouped if other[0] == suite]
    if len(alike) == 1:
        return ""
    numbered = sum(other[1] == version for other in alike) > 1
    return f"version {version}" + f", scale {number + 1}" * numbered
