"""Reads the registered races of the places that a report is about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from imitbench.errors import InputError
from imitbench.published.findings import StrictFindings
from imitbench.published.opening import ResultsPlace
from imitbench.published.results_folder import RACES
from imitbench.published.submission import read_submission
from imitbench.records.published import PublishedRun
from imitbench.records.race_design import RaceDesign
from imitbench.records.selection import Selection
from imitbench.report.model import Report, ReportedRace
from imitbench.report.race_tables import race_tables
from imitbench.store.races import read_outcomes, read_races
from imitbench.util.hub_errors import Notify


def read_reported_races(
    places: Sequence[Path], selection: Selection, notify: Notify
) -> list[ReportedRace]:
    """Reads the races of results folders and of published results, and looks at their runs.

    Args:
        places: The folders.
        selection: What is reported; a race with a cell that is selected is read.
        notify: Called with messages about races that cannot be read.
    """
    found: dict[str, ReportedRace] = {}
    for path in dict.fromkeys(places):
        try:
            for design, runs in _designs(ResultsPlace.of(path)):
                if design.digest not in found and _takes(selection, design):
                    race = design.replay(design.outcomes(runs))
                    found[design.digest] = ReportedRace(design, race)
        except InputError as error:
            notify(f"skipped: races of {path}: {error}")
    return list(found.values())


def _designs(place: ResultsPlace) -> Iterator[tuple[RaceDesign, Sequence[PublishedRun]]]:
    if place.has_runs:
        for race in read_races(place.path):
            yield race.design, read_outcomes(place.path, race.design)
    for folder in place.submissions:
        if not (folder / RACES).is_dir():
            continue
        submission = read_submission(folder, StrictFindings(folder))
        for race in submission.races:
            yield race.design, [each.run for each in submission.runs]


def _takes(selection: Selection, design: RaceDesign) -> bool:
    return any(
        selection.selects(design.suite, env, method)
        for method in design.methods
        for env in design.environments
    )


def with_races(report: Report, races: Sequence[ReportedRace]) -> Report:
    """Returns a report with races and their tables."""
    tables = [table for race in races for table in race_tables(race.design, race.found)]
    return replace(report, races=tuple(races), extra=(*report.extra, *tables))
