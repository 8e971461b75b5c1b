"""The runs of a leaderboard's JSON document, for comparisons with them."""

from __future__ import annotations

from pathlib import Path

from imitbench.published.board_file import BoardTable, read_board
from imitbench.report.comparison_runs import ComparableRun, role_by_name
from imitbench.store.comparability import Conditions


def leaderboard_entries(path: Path) -> list[ComparableRun]:
    """Reads the runs of `leaderboard.json`; runs that other tools imported are left out.

    Args:
        path: File that `imitbench leaderboard build` wrote.

    Returns:
        The runs. An algorithm that several submitters ran has the name `ALGO (SUBMITTER)`.

    Raises:
        InputError: The file cannot be read, or is not a leaderboard.
    """
    return [run for table in read_board(path) for run in _of_table(table)]


def _of_table(table: BoardTable) -> list[ComparableRun]:
    conditions = Conditions(table.suite, table.budget, table.n_demos, table.source)
    found = []
    for name, row in table.methods():
        role = role_by_name(row.algorithm)
        found += [
            ComparableRun(conditions, each.env, name, each.score, each.raw_return, role=role)
            for each in row.runs
            if each.score is not None
        ]
        found += [
            ComparableRun(conditions, each.env, name, None, role=role) for each in row.failures
        ]
    return found
