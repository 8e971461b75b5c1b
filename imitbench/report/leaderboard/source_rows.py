"""Makes report rows of published runs, and keeps the runs of different submitters separate."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from imitbench.published.results_sources import ResultsSource
from imitbench.records.bundled_cards import role_of
from imitbench.records.published import PublishedRun
from imitbench.records.runs import FailureRow, ReferenceRow, ReferenceScores, RunSpec, ScoreRow
from imitbench.report.model import ANCHORS
from imitbench.store.comparability import current_run_ids, run_row


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

    Args:
        sources: Results of each submitter.
    """
    rows = ReportRows()
    keys = _keys(sources)
    references: set[ReferenceRow] = set()
    for place, source in enumerate(sources):
        current = current_run_ids((run.spec, run.ended_at) for run in source.runs)
        for run in source.runs:
            if run.spec.run_id not in current:
                continue
            outcome = run.result or run.failure
            assert outcome is not None
            spec = run.spec
            run_id = f"{place}-{spec.run_id}"
            key = keys[place, spec.suite, spec.algo_label, _is_anchor(spec)]
            columns = {
                **run_row(spec).model_dump(),
                "run_id": run_id,
                "algo": key,
                "source": spec.source or _source_of_scale(outcome.references.version),
            }
            rows.entries[run_id] = SubmittedRun(place, run)
            rows.names[key] = spec.algo_label
            references.add(_reference(spec, outcome.references))
            failure = run.failure
            if failure is not None:
                rows.failures.append(
                    FailureRow(
                        **columns,
                        phase=failure.phase,
                        error_type=failure.error_type,
                        message=failure.message,
                    )
                )
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
            "raw_return": result.raw_return,
            "score": result.references.score(result.raw_return),
            "score_deterministic": result.references.score(result.deterministic_return),
            "termination_rate": result.termination_rate,
            "mean_length": result.mean_length,
            "env_steps": result.env_steps,
            "train_s": result.train_s,
            "wall_s": result.wall_s,
            "finished_at": result.finished_at,
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


def _reference(spec: RunSpec, references: ReferenceScores) -> ReferenceRow:
    return ReferenceRow(
        suite=spec.suite,
        env=spec.environment.id,
        version=references.version,
        random=references.random,
        expert=references.expert,
        score_one=references.score_one,
        demonstrations=references.demonstrations,
    )


def _is_anchor(spec: RunSpec) -> bool:
    """Whether a run is of an anchor, and not of another algorithm with that name."""
    return role_of(spec) == "anchor" and spec.algo_label in ANCHORS


def _keys(sources: Sequence[ResultsSource]) -> dict[tuple[int, str, str, bool], str]:
    """Returns a unique name for each algorithm of each submitter on a suite."""
    wanted = sorted(
        {
            (place, run.spec.suite, run.spec.algo_label, _is_anchor(run.spec))
            for place, source in enumerate(sources)
            for run in source.runs
        }
    )
    shared = Counter((suite, label) for _, suite, label, _ in wanted)
    keys: dict[tuple[int, str, str, bool], str] = {}
    taken = {label for _, _, label, _ in wanted}
    for place, suite, label, anchor in wanted:
        if anchor or (shared[suite, label] == 1 and label not in ANCHORS):
            keys[place, suite, label, anchor] = label
            continue
        key = f"{label} ({sources[place].name or 'own runs'})"
        while key in taken:
            key += "*"
        keys[place, suite, label, anchor] = key
    return keys
