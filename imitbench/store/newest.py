"""Which of several runs count: those of the newest setting of each cell, and of newest sources.

The view `newest` of the database says the same in SQL.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from imitbench.store.run_rows import identity_columns

if TYPE_CHECKING:
    from imitbench.store.results_folder import PublishedRun

_CELL = ("suite", "env", "algo", "budget", "n_demos", "source")


def newest(runs: Iterable[PublishedRun]) -> list[PublishedRun]:
    """Leaves out what newer runs have superseded.

    Any run, a failed one too, supersedes those of its algorithm before the source of a plug-in was
    edited, those in its environment before the source of a suite was, and those of its cell under
    other settings: values on a card, say, or demonstrations that were collected anew.

    Args:
        runs: Completed and failed runs of one submitter.

    Returns:
        One run at most of every cell and seed, in the order in which they ended.
    """
    ended = sorted(runs, key=lambda run: (_ended(run), [-ord(c) for c in run.spec.run_id]))
    methods, worlds = {}, {}
    for run in ended:  # the newest last
        spec = run.spec
        methods[spec.suite, spec.algo_label] = spec.implementation_digest
        worlds[spec.suite, spec.environment.id] = spec.environment.module_digest
    current = [
        run
        for run in ended
        if methods[run.spec.suite, run.spec.algo_label] == run.spec.implementation_digest
        and worlds[run.spec.suite, run.spec.environment.id] == run.spec.environment.module_digest
    ]
    states = [(run, _cell(run), run.spec.setting) for run in current]
    settings = {cell: setting for _, cell, setting in states}
    return [run for run, cell, setting in states if settings[cell] == setting]


def _cell(run: PublishedRun) -> tuple[object, ...]:
    columns = identity_columns(run.spec)
    return tuple(columns[name] for name in _CELL)


def _ended(run: PublishedRun) -> str:
    if run.result is not None:
        return run.result.finished_at
    assert run.failure is not None
    return run.failure.failed_at
