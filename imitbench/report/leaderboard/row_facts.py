"""Says what stands behind the numbers of a row: checks by others, versions, the cost of tuning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from imitbench.published.disclosure import Disclosure, tuning_cost
from imitbench.published.results_sources import ResultsSource
from imitbench.published.verification import AGREEING
from imitbench.records.runs import RunSpec
from imitbench.report import text
from imitbench.report.leaderboard.model import BoardFailure, BoardRow, BoardRun, TrainedAgain

Level = Literal["verified", "validated", "not checked", "checks failed", "differs", "external", ""]


def trained_again(source: ResultsSource, run_ids: Iterable[str]) -> TrainedAgain:
    """Counts those completed runs of a submission that were trained again."""
    verdicts = source.verdicts
    own = list(run_ids)
    found = [verdicts[run_id] for run_id in own if run_id in verdicts]
    by = tuple(
        dict.fromkeys(
            record.verified_by
            for record in source.verifications
            if any(run.run_id in own for run in record.runs)
        )
    )
    return TrainedAgain(
        agreeing=sum(all(word in AGREEING for word in verdict) for verdict in found),
        differing=sum("different" in verdict for verdict in found),
        completed=len(own),
        by=by,
    )


def trained_again_of_row(
    runs: Sequence[BoardRun], sources: Sequence[ResultsSource]
) -> TrainedAgain:
    """Counts the runs of a row that others trained again, over all of its submitters."""
    parts = [
        trained_again(source, ids)
        for source in sources
        if (ids := [run.run.spec.run_id for run in runs if run.submitter == source.name])
    ]
    return TrainedAgain(
        agreeing=sum(part.agreeing for part in parts),
        differing=sum(part.differing for part in parts),
        completed=len(runs),
        by=tuple(dict.fromkeys(name for part in parts for name in part.by)),
    )


def level(row: BoardRow) -> Level:
    """Returns how far the numbers of a row have been checked; empty for references."""
    if row.kind == "external":
        return "external"
    if row.kind != "run":
        return ""
    if not row.checked:
        return "checks failed"
    if row.refuted:
        return "differs"
    if row.trained_again.agreeing:
        return "verified"
    return "not checked" if "" in row.submitters else "validated"


def level_text(row: BoardRow) -> str:
    """Returns the same in words."""
    found = level(row)
    if found == "verified":
        return f"verified ({row.trained_again.text})"
    if found == "differs":
        inside = row.trained_again.differing
        return row.trained_again.text if inside else "other runs of its submission differ"
    return found


def package_versions(runs: Iterable[BoardRun | BoardFailure]) -> tuple[str, ...]:
    """Returns the versions of this package that made the runs, sorted."""
    return tuple(sorted({run.run.provenance.imitbench for run in runs}))


def processors_text(runs: Sequence[BoardRun]) -> str:
    """Says which kinds of processors made the runs of a row; empty if it was one kind."""
    made = [run.run.provenance for run in runs]
    counts = Counter(one.gpu or one.cpu for one in made)
    if len(counts) < 2:
        return ""
    named = (f"{name} ({count} run{'s' * (count > 1)})" for name, count in sorted(counts.items()))
    return (
        f"Runs of {len(counts)} kinds of processors, which round differently: {', '.join(named)}."
    )


def values_text(row: BoardRow) -> str:
    """Says in a few words how hyper-parameters were chosen; empty for rows without a method."""
    if not row.is_method:
        return ""
    stated = dict.fromkeys(disclosure.short for disclosure in row.disclosures)
    if len(row.disclosures) < len(row.submitters):
        stated["not stated"] = None
    return ", ".join(stated)


def tuning_text(
    specs: Sequence[RunSpec], disclosures: Sequence[Disclosure] = ()
) -> tuple[str, float | None]:
    """Returns the cost in words, and a number to sort by: the trials."""
    cost = tuning_cost(specs, disclosures)
    if not cost.tuned:
        return text.NOTHING, None
    if cost.trials is None:
        return "tuned, cost not stated", None
    parts = [f"{cost.trials:,} trials"]
    if cost.env_steps is not None:
        parts.append(f"{cost.env_steps:,} steps")
    if cost.core_hours is not None:
        parts.append(f"{cost.core_hours:.1f} core-hours")
    if cost.stated < cost.tuned:
        parts.append(f"{cost.stated} of {cost.tuned} environments stated")
    return ", ".join(parts), float(cost.trials)
