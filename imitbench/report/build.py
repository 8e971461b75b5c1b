"""From a results folder to a report, and to the runs that a comparison needs."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeVar

from imitbench.cards.plugins import find_suite
from imitbench.errors import InputError
from imitbench.records.runs import ReferenceRow, RunRow
from imitbench.report.comparison_runs import (
    ComparableRun,
    imported_entries,
    own_entries,
    table_entries,
)
from imitbench.report.model import Report
from imitbench.report.tables import build_report
from imitbench.stats.coverage import FailurePolicy
from imitbench.store import database
from imitbench.store.collector import collect
from imitbench.store.comparability import Conditions
from imitbench.store.external_results import with_references
from imitbench.store.importers.long_table import import_csv
from imitbench.store.run_details import read_episodes
from imitbench.util.hub_errors import Notify

REPLICATES = 50_000

_Row = TypeVar("_Row", bound="RunRow | ReferenceRow")


def build(
    out: Path,
    *,
    notify: Notify,
    suite: str | None = None,
    replicates: int = REPLICATES,
    failed_runs: str = FailurePolicy.EXCLUDE.value,
    with_imported: bool = False,
) -> Report:
    """Collects what is new in a results folder, and builds the report on all of it.

    Args:
        out: Results folder.
        notify: Called with messages about run directories that cannot be read.
        suite: Only this suite.
        replicates: Bootstrap replicates.
        failed_runs: What failed runs count as, a `FailurePolicy`.
        with_imported: Whether results of other tools are shown.

    Raises:
        InputError: There are no results.
    """
    for left_out in collect(out).quarantined:
        notify(f"left out: {left_out.path}: {left_out.reason}")
    with database.reader(out) as connection:
        scores = _of_suite(database.read_scores(connection), suite)
        failures = _of_suite(database.read_failures(connection), suite)
        references = _of_suite(database.read_references(connection), suite)
        measures = _of_suite(database.read_measures(connection), suite)
        imported = database.read_external_scores(connection) if with_imported else []
        episodes = read_episodes(connection, suite)
        superseded = database.count_superseded(connection, suite)
    if superseded:
        notify(f"left out: {superseded} runs under settings that newer runs have superseded")
    return build_report(
        scores,
        failures,
        references,
        measures,
        imported=[row for row in imported if suite in (None, row.suite)],
        failed_runs=FailurePolicy(failed_runs),
        replicates=replicates,
        episodes=episodes,
    )


def _of_suite(rows: list[_Row], suite: str | None) -> list[_Row]:
    return [row for row in rows if suite in (None, row.suite)]


def read_entries(
    path: Path,
    *,
    notify: Notify,
    suite: str | None = None,
    env: str | None = None,
    budget: str | None = None,
) -> list[ComparableRun]:
    """Runs of a results folder, a database or a table, as far as they are asked for.

    Args:
        path: A results folder, its database, or a CSV table.
        notify: Called with messages about run directories that cannot be read.
        suite: Only this suite; gives its references to a table without scores.
        env: Only environments whose id matches this shell-style pattern.
        budget: Only this budget.

    Raises:
        InputError: Nothing readable there, or none of it is asked for.
    """
    asked = Conditions(suite, budget, None, None)
    found = [
        entry
        for entry in _all_entries(path, suite, notify)
        if asked.compatible(entry.conditions)
        if env is None or fnmatchcase(entry.env, env)
    ]
    if not found:
        raise InputError(f"{path}: no runs there that are asked for; see `imitbench status`")
    return found


def _all_entries(path: Path, suite: str | None, notify: Notify) -> list[ComparableRun]:
    if path.suffix.lower() == ".csv":
        return _table(path, suite)
    if path.is_file():
        opened = database.reader_of_file(path)
    else:
        for left_out in collect(path).quarantined:
            notify(f"left out: {left_out.path}: {left_out.reason}")
        opened = database.reader(path)
    with opened as connection:
        return [
            *own_entries(database.read_scores(connection), database.read_failures(connection)),
            *imported_entries(database.read_external_scores(connection)),
        ]


def _table(path: Path, suite: str | None) -> list[ComparableRun]:
    results = import_csv(path)
    if suite is not None:
        results = with_references(results, find_suite(suite))
    found = table_entries(results.runs)
    if not any(entry.score is not None for entry in found):
        raise InputError(
            f"{path}: has returns and no scores; --suite NAME gives them the references of a suite"
        )
    return found
