"""Reads results, builds their report, and selects the runs for a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from imitbench.cards.plugins import find_suite
from imitbench.errors import InputError
from imitbench.published.board_file import board_runs
from imitbench.published.findings import StrictFindings
from imitbench.published.opening import ResultsLocation, is_board, open_results
from imitbench.published.results_folder import RACES
from imitbench.published.submission import read_submission
from imitbench.records.published import PublishedRun
from imitbench.records.race_design import RaceDesign
from imitbench.records.runs import ReferenceRow, RunRow
from imitbench.records.selection import ActingChoice, Selection
from imitbench.report.comparison_runs import (
    ComparableRun,
    imported_entries,
    own_entries,
    table_entries,
)
from imitbench.report.model import ANCHORS, Report, ReportedRace
from imitbench.report.pairwise import PairwiseComparison, PairwiseOptions, compare_pairwise
from imitbench.report.race_tables import race_tables
from imitbench.report.regimes import with_regimes
from imitbench.report.tables import build_report
from imitbench.stats.coverage import FailurePolicy
from imitbench.store import database
from imitbench.store.comparability import Conditions
from imitbench.store.external_results import with_references
from imitbench.store.importers.long_table import import_csv
from imitbench.store.races import read_outcomes, read_races
from imitbench.store.run_details import read_episodes
from imitbench.untrusted import gate
from imitbench.util.hub_errors import Notify

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

REPLICATES = 50_000
_ALL = Selection()

_Row = TypeVar("_Row", bound="RunRow | ReferenceRow")


def build(
    paths: Sequence[Path],
    *,
    notify: Notify,
    selection: Selection = _ALL,
    replicates: int = REPLICATES,
    failed_runs: str = FailurePolicy.EXCLUDE.value,
    with_imported: bool = False,
    acting: ActingChoice | None = None,
) -> Report:
    """Collects new runs, and builds the report on all runs of some folders.

    Args:
        paths: Results folders, folders of published results, and `leaderboard.json` of sites,
            whose runs are always shown, as imported results.
        notify: Called with messages about runs that are excluded.
        selection: Runs to report on. The reference policies `random` and `expert` are always among
            the algorithms.
        replicates: Number of bootstrap replicates of each interval.
        failed_runs: How failed runs count, a `FailurePolicy`.
        with_imported: Whether to show imported results of other tools.
        acting: Ways of acting to show; `None` for both where the scores of both are known.

    Raises:
        InputError: There are no results, the selection names something without runs, or scores of
            most likely actions are required and not known.
    """
    with open_results(paths, notify=notify) as connection:
        every = database.read_scores(connection), database.read_failures(connection)
        selection.check({(row.suite, row.env, row.algo) for rows in every for row in rows})
        scores, failures = _chosen(every[0], selection), _chosen(every[1], selection)
        references = _chosen(database.read_references(connection), selection)
        measures = _chosen(database.read_measures(connection), selection)
        rewards = _chosen(database.read_reward_scores(connection), selection)
        shown = with_imported or any(is_board(path) for path in paths)
        imported = database.read_external_scores(connection) if shown else []
        episodes = read_episodes(connection, [row.run_id for row in scores])
        superseded = _chosen(database.read_superseded(connection), selection)
    if superseded:
        notify(f"skipped: {len(superseded)} runs under settings that newer runs have superseded")
    built = build_report(
        scores,
        failures,
        references,
        measures,
        imported=[row for row in imported if selection.selects(row.suite or "", row.env, row.algo)],
        failed_runs=FailurePolicy(failed_runs),
        replicates=replicates,
        episodes=episodes,
        acting=acting,
        rewards=rewards,
    )
    report = with_regimes(built)
    races = tuple(read_reported_races(paths, selection, notify))
    tables = [table for race in races for table in race_tables(race.design, race.found)]
    return replace(report, races=races, extra=(*report.extra, *tables))


def _chosen(rows: Sequence[_Row], selection: Selection) -> list[_Row]:
    def algorithm(row: _Row) -> str | None:
        name = row.algo if isinstance(row, RunRow) else None
        return None if name in ANCHORS else name

    return [row for row in rows if selection.selects(row.suite, row.env, algorithm(row))]


def read_entries(
    paths: Sequence[Path],
    *,
    notify: Notify,
    selection: Selection = _ALL,
    budget: str | None = None,
) -> list[ComparableRun]:
    """Reads the selected runs of results folders, databases or tables.

    Args:
        paths: Results folders, folders of published results, databases, CSV tables, and JSON files
            of leaderboards.
        notify: Called with messages about runs that are excluded.
        selection: Runs to select. If it names one suite, the references of this suite also give a
            table without scores its scores.
        budget: Name of the budget to select; `None` for all.

    Raises:
        InputError: Nothing can be read, or no run matches the selection.
    """
    files = [path for path in paths if path.is_file() or path.suffix.lower() == ".csv"]
    folders = [path for path in paths if path not in files]
    found = [
        entry
        for path in files
        for entry in gate.checked(partial(_file_entries, path, selection), path)
    ]
    if folders:
        with open_results(folders, notify=notify) as connection:
            found += _database_entries(connection)
    chosen = [
        entry
        for entry in found
        if selection.selects(entry.conditions.suite, entry.env, entry.algo)
        if Conditions(None, budget, None, None).compatible(entry.conditions)
    ]
    if not chosen:
        named = ", ".join(str(path) for path in paths)
        raise InputError(f"{named}: no runs match the selection; see `imitbench status`")
    return chosen


def compare_results(
    algorithm: str,
    baselines: Sequence[str],
    paths: Sequence[Path],
    against: Sequence[Path],
    options: PairwiseOptions,
    *,
    notify: Notify,
    selection: Selection = _ALL,
    budget: str | None = None,
    own_optional: bool = False,
) -> list[PairwiseComparison]:
    """Compares an algorithm with others.

    Args:
        algorithm: Name of the algorithm.
        baselines: Names of algorithms to compare it with. If empty: `algorithm` itself if
            `against` has runs of it, else all other methods.
        paths: Results that include those of the algorithm, as for `read_entries`.
        against: Separate results of the baselines; if empty, `paths`.
        options: Settings of the comparison.
        notify: Called with messages about runs that are excluded.
        selection: Runs to compare; its algorithms are those to compare with.
        budget: Name of the budget to select; `None` for all.
        own_optional: Whether the algorithm may also be among `against`, compared with the others
            there, if there is nothing at `paths`.

    Raises:
        InputError: As for `read_entries` and `compare_pairwise`.
    """
    for path in against:
        if not path.exists():
            raise InputError(
                f"--against {path}: no such file or folder; check the path, or name 'published'"
            )
    if own_optional and against and not any(path.exists() for path in paths):
        notify(f"no results in {paths[0]}: {algorithm} is the one of --against")
        paths, against = against, []
    any_algorithm = replace(selection, algos=())
    ours = read_entries(paths, notify=notify, selection=any_algorithm, budget=budget)
    theirs = ours
    if against:
        theirs = read_entries(against, notify=notify, selection=any_algorithm, budget=budget)
    theirs = [entry for entry in theirs if selection.selects_algorithm(entry.algo)]
    if not theirs:
        raise InputError(
            f"--algo {','.join(selection.algos)}: there is no such algorithm to compare with"
        )
    names = list(baselines)
    if against and not names and any(entry.algo == algorithm for entry in theirs):
        names = [algorithm]
    return compare_pairwise(algorithm, ours, theirs, names, options)


def _file_entries(path: Path, selection: Selection) -> list[ComparableRun]:
    kind = path.suffix.lower()
    if kind == ".csv":
        return _table(path, selection)
    if kind == ".json":
        return table_entries(board_runs(path))
    with database.reader_of_file(path) as connection:
        return _database_entries(connection)


def _database_entries(connection: DuckDBPyConnection) -> list[ComparableRun]:
    return [
        *own_entries(
            database.read_scores(connection),
            database.read_failures(connection),
            database.read_run_references(connection),
        ),
        *imported_entries(database.read_external_scores(connection)),
    ]


def _table(path: Path, selection: Selection) -> list[ComparableRun]:
    results = import_csv(path)
    if len(selection.suites) == 1:
        results = with_references(results, find_suite(selection.suites[0]))
    found = table_entries(results.runs)
    if not any(entry.score is not None for entry in found):
        raise InputError(
            f"{path}: has returns but no scores; add --suite NAME for the references of a suite"
        )
    return found


def read_reported_races(
    paths: Sequence[Path], selection: Selection, notify: Notify
) -> list[ReportedRace]:
    """Reads the races of results folders and of published results, and looks at their runs.

    Args:
        paths: The folders.
        selection: What is reported; a race with a cell that is selected is read.
        notify: Called with messages about races that cannot be read.
    """
    found: dict[str, ReportedRace] = {}
    for path in dict.fromkeys(paths):
        try:
            for design, runs in _designs(ResultsLocation.of(path)):
                cells = product(design.environments, design.methods)
                if design.digest not in found and any(
                    selection.selects(design.suite, *cell) for cell in cells
                ):
                    race = design.replay(runs)
                    found[design.digest] = ReportedRace(design, race)
        except InputError as error:
            notify(f"skipped: races of {path}: {error}")
    return list(found.values())


def _designs(location: ResultsLocation) -> Iterator[tuple[RaceDesign, Sequence[PublishedRun]]]:
    if location.has_runs:
        for race in read_races(location.path):
            yield race.design, read_outcomes(location.path, race.design)
    for folder in location.submissions:
        if not (folder / RACES).is_dir():
            continue
        submission = read_submission(folder, StrictFindings(folder))
        for race in submission.races:
            yield race.design, submission.published
