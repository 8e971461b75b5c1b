"""Where runs to compare come from: a results folder, its database, or a table."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

from imitbench.cards.plugins import find_suite
from imitbench.errors import InputError
from imitbench.report.comparison_runs import (
    ComparableRun,
    imported_entries,
    own_entries,
    table_entries,
)
from imitbench.store import database
from imitbench.store.collector import collect
from imitbench.store.comparability import Conditions
from imitbench.store.importers.long_table import import_csv
from imitbench.store.importers.suite_references import with_references
from imitbench.util.hub_errors import Tell


def read_entries(
    path: Path,
    *,
    tell: Tell,
    suite: str | None = None,
    env: str | None = None,
    budget: str | None = None,
) -> list[ComparableRun]:
    """Runs of a results folder, a database or a table, as far as they are asked for.

    Args:
        path: A results folder, its database, or a CSV table.
        tell: Told about run directories that cannot be read.
        suite: Only this suite; gives its references to a table without scores.
        env: Only environments whose id matches this shell-style pattern.
        budget: Only this budget.

    Raises:
        InputError: Nothing readable there, or none of it is asked for.
    """
    asked = Conditions(suite, budget, None, None)
    found = [
        entry
        for entry in _all_entries(path, suite, tell)
        if asked.compatible(entry.conditions)
        if env is None or fnmatchcase(entry.env, env)
    ]
    if not found:
        raise InputError(f"{path}: no runs there that are asked for; see `imitbench status`")
    return found


def _all_entries(path: Path, suite: str | None, tell: Tell) -> list[ComparableRun]:
    if path.suffix.lower() == ".csv":
        return _table(path, suite)
    if path.is_file():
        opened = database.reader_of_file(path)
    else:
        for left_out in collect(path).quarantined:
            tell(f"left out: {left_out.path}: {left_out.reason}")
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
