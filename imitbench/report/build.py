"""Reads a results folder, builds its report, and selects the runs for a comparison."""

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
    """Collects the new runs of a results folder, and builds the report on all its runs.

    Args:
        out: Results folder.
        notify: Called with messages about run directories that cannot be read.
        suite: Suite to report on; `None` for all.
        replicates: Number of bootstrap replicates of each interval.
        failed_runs: How failed runs count, a `FailurePolicy`.
        with_imported: Whether to show imported results of other tools.

    Raises:
        InputError: There are no results.
    """
    for left_out in collect(out).quarantined:
        notify(f"skipped: {left_out.path}: {left_out.reason}")
    with database.reader(out) as connection:
        scores = _of_suite(database.read_scores(connection), suite)
        failures = _of_suite(database.read_failures(connection), suite)
        references = _of_suite(database.read_references(connection), suite)
        measures = _of_suite(database.read_measures(connection), suite)
        imported = database.read_external_scores(connection) if with_imported else []
        episodes = read_episodes(connection, suite)
        superseded = database.count_superseded(connection, suite)
    if superseded:
        notify(f"skipped: {superseded} runs under settings that newer runs have superseded")
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
    """Reads the selected runs of a results folder, a database or a table.

    Args:
        path: A results folder, its database, or a CSV table.
        notify: Called with messages about run directories that cannot be read.
        suite: Suite to select, `None` for all; its references also give a table without scores
        env: Selects environments whose id matches this shell-style pattern.
        budget: Name of the budget to select; `None` for all.

    Raises:
        InputError: Nothing can be read from `path`, or no run matches the selection.
    """
    asked = Conditions(suite, budget, None, None)
    found = [
        entry
        for entry in _all_entries(path, suite, notify)
        if asked.compatible(entry.conditions)
        if env is None or fnmatchcase(entry.env, env)
    ]
    if not found:
        raise InputError(f"{path}: no runs match the selection; see `imitbench status`")
    return found


def _all_entries(path: Path, suite: str | None, notify: Notify) -> list[ComparableRun]:
    if path.suffix.lower() == ".csv":
        return _table(path, suite)
    if path.is_file():
        opened = database.reader_of_file(path)
    else:
        for left_out in collect(path).quarantined:
            notify(f"skipped: {left_out.path}: {left_out.reason}")
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
            f"{path}: has returns but no scores; add --suite NAME for the references of a suite"
        )
    return found
