"""Says what stands behind the numbers of a row: checks by others, versions, the cost of tuning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from imitbench.cards.catalog import algorithm_directory
from imitbench.cards.tuned import TUNED_FILE, TunedValues, read_tuned
from imitbench.published.results_sources import ResultsSource
from imitbench.published.verification import AGREEING
from imitbench.records.bundled_cards import bundled_algorithm
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
        agreeing=sum(all(each in AGREEING for each in verdict) for verdict in found),
        differing=sum("different" in verdict for verdict in found),
        completed=len(own),
        by=by,
    )


def trained_again_of_row(
    runs: Sequence[BoardRun], sources: Sequence[ResultsSource]
) -> TrainedAgain:
    """Counts the runs of a row that others trained again, over all of its submitters."""
    each = [
        trained_again(source, ids)
        for source in sources
        if (ids := [run.run.spec.run_id for run in runs if run.submitter == source.name])
    ]
    return TrainedAgain(
        agreeing=sum(part.agreeing for part in each),
        differing=sum(part.differing for part in each),
        completed=len(runs),
        by=tuple(dict.fromkeys(name for part in each for name in part.by)),
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


@dataclass(frozen=True)
class TuningCost:
    """Cost of tuning for the environments of a row.

    Attributes:
        tuned: Number of environments with tuned values.
        stated: Number of those whose cost is on record.
        trials: Trials of these searches; `None` if no cost is on record.
        env_steps: Environment steps of their runs; `None` if no search recorded them.
    """

    tuned: int = 0
    stated: int = 0
    trials: int | None = None
    env_steps: int | None = None


@cache
def _bundled(name: str) -> Mapping[str, TunedValues]:
    path = algorithm_directory(name) / TUNED_FILE
    return read_tuned(path).environments if path.is_file() else {}


def tuning_cost(specs: Sequence[RunSpec]) -> TuningCost:
    """Adds up the cost of the searches behind a row.

    The cost is that on the method's tuned values, if these are the values of the runs. Searches of
    a whole suite count once.
    """
    tuned = {spec.environment.id: spec for spec in specs if spec.variant.split(",")[0] == "tuned"}
    found = [_found(spec) for spec in tuned.values()]
    known = [values.tuning for values in found if values is not None and values.tuning is not None]
    searches = {
        (each.suite, each.sampler_seed, tuple(each.held_out_seeds), each.trials)
        if each.per == "suite"
        else ("", index): each
        for index, each in enumerate(known)
    }
    steps = [search.env_steps for search in searches.values() if search.env_steps is not None]
    return TuningCost(
        tuned=len(tuned),
        stated=len(known),
        trials=sum(search.trials for search in searches.values()) if searches else None,
        env_steps=sum(steps) if steps else None,
    )


def _found(spec: RunSpec) -> TunedValues | None:
    """Returns the tuned values of a run's method, if the run has these values."""
    card = bundled_algorithm(spec.algo) if spec.implementation_digest is None else None
    values = _bundled(spec.algo).get(spec.environment.id) if card is not None else None
    if card is None or values is None:
        return None
    own = card.completed(spec.hyperparameters)
    return values if all(own.get(name) == value for name, value in values.values.items()) else None


def tuning_text(specs: Sequence[RunSpec]) -> tuple[str, float | None]:
    """Returns the cost in words, and a number to sort by: the trials."""
    cost = tuning_cost(specs)
    if not cost.tuned:
        return text.NOTHING, None
    if cost.trials is None:
        return "tuned, cost not stated", None
    parts = [f"{cost.trials:,} trials"]
    if cost.env_steps is not None:
        parts.append(f"{cost.env_steps:,} steps")
    if cost.stated < cost.tuned:
        parts.append(f"{cost.stated} of {cost.tuned} environments stated")
    return ", ".join(parts), float(cost.trials)
