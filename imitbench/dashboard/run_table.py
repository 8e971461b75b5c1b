"""The rows of all runs, kept up to date; a page asks only for rows that have changed."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from imitbench.dashboard.curves import CurveReader
from imitbench.dashboard.files import file_stamp
from imitbench.errors import InputError
from imitbench.published.opening import ResultsLocation, read_sources
from imitbench.records.published import PublishedRun
from imitbench.records.runs import RunFailure, RunResult, RunSpec
from imitbench.report.comparison_runs import role_by_name
from imitbench.report.model import method_colors
from imitbench.store.comparability import Conditions
from imitbench.store.failure_groups import normalized
from imitbench.store.overview import StatusSurvey, SurveyedRun, total_status
from imitbench.store.run_dir import RunDirectory
from imitbench.util.hub_errors import Notify
from imitbench.util.text_line import encodable, one_line

READING_S = 0.25
"""Seconds for which one answer reads files; a page asks again for the rest."""
FRESH_S = 1.0
OUTLOOK_S = 10.0
"""Seconds after which the time to come is estimated anew, even if no run has changed."""
RESTS = 4  # a survey is repeated after this many times its own duration
_LONGEST_MESSAGE = 300
_LONGEST_NAME = 200
_URGENCY = {"running": 0, "failed": 1, "interrupted": 2, "done": 3, "waiting": 4}


@dataclass(frozen=True)
class ListedRun:
    """What the list shows of a run; `None` for what is not known yet.

    Attributes:
        key: Path of its directory below the results folder, which identifies it.
        run_id: Id of the run.
        suite: Name of the suite.
        algo: Name of the algorithm, with its variant.
        env: Environment id.
        state: One of `imitbench.store.overview.STATES`.
        seed: Seed of the run.
        conditions: What runs share that may be averaged, such as its budget, in words.
        n_demos: Number of demonstrations used.
        unit: What the budget counts.
        total: Budget in units.
        step: Units spent, of a run that is not finished.
        phase: What a running run does, or where it failed.
        score: Score of the mean raw return.
        raw: Mean raw return.
        wall: Seconds of the run.
        at: When it was finished, failed, or last reported: ISO 8601 time.
        error: Class of the error and its message, shortened.
        kind: The same with placeholders for what differs between similar failures.
    """

    key: str
    run_id: str
    suite: str
    algo: str
    env: str
    state: str
    seed: int | None = None
    conditions: str | None = None
    n_demos: int | None = None
    unit: str | None = None
    total: int | None = None
    step: float | None = None
    phase: str | None = None
    score: float | None = None
    raw: float | None = None
    wall: float | None = None
    at: str | None = None
    error: str | None = None
    kind: str | None = None

    def with_spec(self, spec: RunSpec) -> ListedRun:
        """Returns the row with what a specification says."""
        return replace(
            self,
            suite=one_line(spec.suite, _LONGEST_NAME),
            algo=one_line(spec.algo_label, _LONGEST_NAME),
            env=one_line(spec.environment.id, _LONGEST_NAME),
            seed=spec.seed,
            conditions=one_line(Conditions.of_spec(spec).within, _LONGEST_NAME),
            n_demos=spec.demos.count if spec.demos else None,
            unit=spec.budget.unit,
            total=spec.budget.amount,
        )

    def with_result(self, result: RunResult) -> ListedRun:
        """Returns the row of a completed run."""
        return replace(
            self,
            score=result.score(),
            raw=result.raw_return,
            wall=result.wall_s,
            at=result.finished_at,
        )

    def with_failure(self, failure: RunFailure) -> ListedRun:
        """Returns the row of a failed run."""
        message = f"{failure.error_type}: {failure.message}"[: 8 * _LONGEST_MESSAGE]
        return replace(
            self,
            phase=failure.phase,
            at=failure.failed_at,
            error=one_line(message, _LONGEST_MESSAGE),
            kind=one_line(f"{normalized(message)} ({failure.phase})", _LONGEST_MESSAGE),
        )


@dataclass
class _Known:
    """What is known of a run.

    Attributes:
        found: The run as last surveyed; `None` for published runs.
        row: What the list shows of it.
        version: Version of the table in which the row changed.
        stamp: Text of what the row was read from; empty if files must be read first.
        spec: Specification of the run.
    """

    found: SurveyedRun | None
    row: ListedRun
    version: int
    stamp: str = ""
    spec: RunSpec | None = None


@dataclass(frozen=True)
class Outlook:
    """What is known about the time to come.

    Attributes:
        eta_s: Seconds until all runs are finished; `None` if unknown or if none is open.
        exact: Whether every cell with open runs contributes to it; otherwise it is a lower bound.
        active: Whether a process works on the folder.
    """

    eta_s: float | None = None
    exact: bool = True
    active: bool = False


@dataclass(frozen=True)
class Changes:
    """What has changed in a table since an earlier answer.

    Attributes:
        session: Identifies the table; for the next call, as is `version`.
        version: Counts the answers.
        whole: Whether `rows` are all rows, and replace those that the asker has.
        complete: Whether all files were read; otherwise, ask again.
        missing: Whether the results folder is no longer there.
        rows: Rows that have changed.
        gone: Keys of runs that are no longer there; they come before `rows`.
        outlook: What is known about the time to come.
        colors: Number of each method, see `imitbench.report.model.method_colors`.
    """

    session: str
    version: int
    whole: bool
    complete: bool
    missing: bool
    rows: list[ListedRun]
    gone: list[str]
    outlook: Outlook
    colors: dict[str, int]


class RunTable:
    """Rows of a results folder, with a version that counts changes.

    Several threads may use it. It surveys the folder only when it is asked, and never writes.

    Args:
        out: Results folder; `None` if there are published results only.
        published: Rows of published results, which do not change.
        curves: Reads the progress of running runs.
    """

    def __init__(
        self, out: Path | None, published: Iterable[ListedRun], curves: CurveReader
    ) -> None:
        self._survey = StatusSurvey(out, may_write=False) if out is not None else None
        self._curves = curves
        self._lock = threading.Lock()
        self._session = secrets.token_hex(8)
        self._version = 0
        self._fixed = [_Known(None, row, 1) for row in published]
        self._runs: dict[str, _Known] = {}
        self._gone: list[tuple[int, str]] = []
        self._pending: dict[str, str] = {}
        self._outlook, self._outlook_at = Outlook(), float("-inf")
        self._refreshed_at, self._refresh_s = float("-inf"), 0.0

    @property
    def keys(self) -> set[str]:
        """Keys of the runs in the results folder."""
        with self._lock:
            return set(self._runs)

    def directory(self, key: str) -> RunDirectory | None:
        """Returns the directory of a run in the results folder; `None` if no run has this key."""
        known = self._runs.get(key)
        if known is None or known.found is None or self._survey is None:
            return None
        return RunDirectory(self._survey.out / known.found.path)

    def changes(self, session: str, version: int, *, reading_s: float = READING_S) -> Changes:
        """Surveys the folder and returns what has changed.

        Args:
            session: That of an earlier answer; all rows are returned to other askers.
            version: That of the same answer.
            reading_s: Seconds after which no further file is read.
        """
        with self._lock:
            self._version += 1
            self._refresh()
            self._read(time.monotonic() + reading_s)
            since = version if session == self._session else 0
            known = [*self._fixed, *self._runs.values()]
            return Changes(
                session=self._session,
                version=self._version,
                whole=since == 0,
                complete=not self._pending,
                missing=self._survey is not None and not self._survey.out.is_dir(),
                rows=[run.row for run in known if run.version > since],
                gone=[key for at, key in self._gone if at > since > 0],
                outlook=self._outlook,
                colors=method_colors(
                    name
                    for name in {run.row.algo for run in known}
                    if role_by_name(name) == "method"
                ),
            )

    def _refresh(self) -> None:
        """Finds runs and their states, unless that was done just now."""
        pause = max(FRESH_S, RESTS * self._refresh_s)
        if self._survey is None or time.monotonic() - self._refreshed_at < pause:
            return
        started = time.monotonic()
        found = {encodable(run.path): run for run in self._survey.runs(read_specs=False)}
        for key in self._runs.keys() - found.keys():
            del self._runs[key]
            self._pending.pop(key, None)
            self._gone.append((self._version, key))
        for key, run in found.items():
            known = self._runs.get(key)
            if known is None or known.row.state != run.state:
                self._runs[key] = known = self._begun(key, run, known)
            known.found = run
            stamp = self._stamp(run)
            if known.stamp != stamp:
                self._pending[key] = stamp
        self._refreshed_at = time.monotonic()
        self._refresh_s = self._refreshed_at - started

    def _begun(self, key: str, run: SurveyedRun, known: _Known | None) -> _Known:
        """Makes a row of what is known without reading files."""
        suite, algo, env = (one_line(encodable(name), _LONGEST_NAME) for name in run.cell)
        row = ListedRun(key, key.rpartition("/")[2], suite, algo, env, run.state)
        spec = known.spec if known else None
        return _Known(run, row.with_spec(spec) if spec else row, self._version, spec=spec)

    def _stamp(self, run: SurveyedRun) -> str:
        """Returns a text that changes when files that the row of a run shows change."""
        if run.done_at is not None or run.state == "waiting" or self._survey is None:
            return f"{run.state} {run.done_at}"
        directory = RunDirectory(self._survey.out / run.path)
        if run.state == "failed":
            return f"failed {file_stamp(directory.path / 'error.json')}"
        status = file_stamp(directory.path / "status.json")
        return f"{run.state} {status} {self._curves.stamp(directory)}"

    def _read(self, until: float) -> None:
        """Reads the files of changed runs, of running and failed ones first."""
        changed = bool(self._pending)
        for key in sorted(self._pending, key=lambda key: _URGENCY[self._runs[key].row.state]):
            if time.monotonic() > until:
                return
            known = self._runs[key]
            row = self._read_row(key, known)
            if row != known.row:
                known.row, known.version = row, self._version
            known.stamp = self._pending.pop(key)
        if changed or time.monotonic() - self._outlook_at > OUTLOOK_S:
            self._outlook, self._outlook_at = self._estimate(), time.monotonic()

    def _read_row(self, key: str, known: _Known) -> ListedRun:
        """Returns the row of a run from its files; with what can be read if some are damaged."""
        directory, row = self.directory(key), known.row
        if directory is None or row.state == "waiting":
            return row
        try:
            if known.spec is None:
                known.spec = directory.read_spec()
                row = row.with_spec(known.spec)
            if row.state == "done":
                return row.with_result(directory.read_result())
            if row.state == "failed":
                return row.with_failure(directory.read_failure())
        except InputError as error:
            return replace(row, error=one_line(error, _LONGEST_MESSAGE), kind="unreadable files")
        status = directory.last_status()
        step = self._curves.last_point(directory).get("step")
        if status is None:
            return replace(row, step=step)
        return replace(row, step=step, phase=status.phase, at=status.updated_at)

    def _estimate(self) -> Outlook:
        """Estimates the time to come, once all rows are known."""
        if self._survey is None:
            return Outlook()
        runs = [
            replace(known.found, suite=known.row.suite, algo=known.row.algo, env=known.row.env)
            for known in self._runs.values()
            if known.found is not None
        ]
        total = total_status(self._survey.count(runs))
        eta_s = total.eta_s if total.open and total.eta_s else None
        return Outlook(eta_s, total.whole, bool(total.open) and self._survey.is_active())


def read_published_runs(location: ResultsLocation, notify: Notify) -> dict[str, PublishedRun]:
    """Reads the published results of a folder.

    Args:
        location: The folder; it may have none.
        notify: Called with messages about results that do not pass their checks.

    Returns:
        Runs by `ListedRun.key`.

    Raises:
        InputError: The results contradict themselves.
    """
    if not location.submissions:
        return {}
    return {
        f"{source.name}:{run.spec.run_id}": run
        for _, source in read_sources(location, notify)
        for run in source.runs
    }


def published_row(key: str, run: PublishedRun) -> ListedRun:
    """Returns the row of a published run."""
    spec = run.spec
    state = "done" if run.failure is None else "failed"
    row = ListedRun(key, spec.run_id, spec.suite, spec.algo, spec.environment.id, state)
    row = row.with_spec(spec)
    if run.result is not None:
        return row.with_result(run.result)
    return row if run.failure is None else row.with_failure(run.failure)
