"""Which of several runs count: the newest of each cell and seed, in the newest state of sources.

The views `latest` and `latest_failures` of the database say the same in SQL.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from imitbench.store.run_rows import identity_columns

if TYPE_CHECKING:
    from imitbench.store.results_folder import PublishedRun

_CELL = ("suite", "env", "algo", "seed", "budget", "n_demos", "source")


def newest(runs: Iterable[PublishedRun]) -> list[PublishedRun]:
    """Leaves out what newer runs have superseded.

    What a plug-in gave before its source was edited is superseded by any run since, be it a
    failed one; so are runs in an environment that came with a suite of the user's.

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
    cells: dict[tuple[object, ...], PublishedRun] = {}
    for run in ended:
        spec, columns = run.spec, identity_columns(run.spec)
        if (
            methods[spec.suite, spec.algo_label] == spec.implementation_digest
            and worlds[spec.suite, spec.environment.id] == spec.environment.module_digest
        ):
            cells[tuple(columns[name] for name in _CELL)] = run
    return list(cells.values())


def _ended(run: PublishedRun) -> str:
    if run.result is not None:
        return run.result.finished_at
    assert run.failure is not None
    return run.failure.failed_at
