"""Published results as rows of the list; they do not change while the page is open."""

from __future__ import annotations

from imitbench.dashboard.run_table import RunRow
from imitbench.published.opening import ResultsPlace, read_sources
from imitbench.records.published import PublishedRun
from imitbench.util.hub_errors import Notify


def read_published_runs(place: ResultsPlace, notify: Notify) -> dict[str, PublishedRun]:
    """Reads the published results of a folder.

    Args:
        place: The folder; it may have none.
        notify: Called with messages about results that do not pass their checks.

    Returns:
        Runs by `RunRow.key`.

    Raises:
        InputError: The results contradict themselves.
    """
    if not place.submissions:
        return {}
    return {
        f"{source.name}:{run.spec.run_id}": run
        for _, source in read_sources(place, notify)
        for run in source.runs
    }


def published_row(key: str, run: PublishedRun) -> RunRow:
    """Returns the row of a published run."""
    spec = run.spec
    state = "done" if run.failure is None else "failed"
    row = RunRow(key, spec.run_id, spec.suite, spec.algo, spec.environment.id, state)
    row = row.with_spec(spec)
    if run.result is not None:
        return row.with_result(run.result)
    return row if run.failure is None else row.with_failure(run.failure)
