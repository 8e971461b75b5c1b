"""Counts the runs of a results folder by state, directly from the file system."""

from __future__ import annotations

import difflib
import heapq
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from imitbench.errors import InputError
from imitbench.records.runs import RunTime
from imitbench.store.live_runs import LiveRun, finished_time, median_time, read_live_run
from imitbench.store.run_dir import RunDirectory
from imitbench.store.scan import run_directories
from imitbench.store.sweep_file import is_active, read_sweeps

STATES = ("done", "running", "failed", "interrupted", "waiting")
OPEN_STATES = ("running", "interrupted", "waiting")
_SAMPLES = 9

_Key = tuple[str, str, str]


@dataclass(frozen=True)
class CellStatus:
    """States of the runs of one algorithm on one environment.

    Attributes:
        suite: Name of the suite.
        algo: Name of the algorithm, with its variant.
        env: Environment id.
        counts: Number of runs by state; `interrupted` runs were begun, are not running, and
            resume when the same command is run again; `waiting` ones were requested and not begun.
        run_s: Median seconds of finished runs; while there is none, the expected seconds by the
            costs on the cards; `None` if these are unknown, too.
        eta_s: Seconds until its runs are finished if as many runs as now (at least one) run in
            parallel, all of this cell; `None` if unknown.
        ahead_s: Seconds of all its open runs together; `None` if unknown.
        live: How far its running runs are.
    """

    suite: str
    algo: str
    env: str
    counts: dict[str, int]
    run_s: float | None = None
    eta_s: float | None = None
    ahead_s: float | None = None
    live: tuple[LiveRun, ...] = ()

    @property
    def open(self) -> int:
        """Number of runs that have no outcome yet."""
        return sum(self.counts[state] for state in OPEN_STATES)

    def as_dict(self) -> dict[str, object]:
        """Flat form for JSON."""
        return {
            "suite": self.suite,
            "algo": self.algo,
            "env": self.env,
            **self.counts,
            "eta_s": self.eta_s,
            "live": [run.as_dict() for run in self.live],
        }


@dataclass(frozen=True)
class StatusTotal:
    """Totals over all cells.

    Attributes:
        counts: Number of runs by state.
        eta_s: Seconds until all runs are finished, as far as known.
        whole: Whether the time is known of every cell with open runs.
    """

    counts: dict[str, int]
    eta_s: float
    whole: bool

    @property
    def open(self) -> int:
        """Number of runs that have no outcome yet."""
        return sum(self.counts[state] for state in OPEN_STATES)


@dataclass(frozen=True)
class SurveyedRun:
    """A run that was requested or begun.

    Attributes:
        path: Path of its directory below the results folder.
        suite: Name of the suite.
        algo: Name of the algorithm, with its variant.
        env: Environment id.
        state: One of `STATES`, see `CellStatus`.
        done_at: When its result was written, in seconds since 1970; `None` if it is not done.
    """

    path: str
    suite: str
    algo: str
    env: str
    state: str
    done_at: float | None

    @property
    def cell(self) -> tuple[str, str, str]:
        """Suite, algorithm and environment."""
        return self.suite, self.algo, self.env


@dataclass
class _Cell:
    counts: Counter[str] = field(default_factory=Counter)
    finished: list[tuple[float, Path]] = field(default_factory=list)
    running: list[RunDirectory] = field(default_factory=list)


class StatusSurvey:
    """Inspects a results folder repeatedly; remembers what cannot change.

    Args:
        out: Root of the results folder.
        may_write: See `imitbench.store.lease.is_held`.

    Raises:
        InputError: The folder does not exist.
    """

    def __init__(self, out: Path, *, may_write: bool = True) -> None:
        if not out.is_dir():
            raise InputError(f"--out {out}: no such folder; run `imitbench run --out {out}` first")
        self.out = out
        self._may_write = may_write
        self._cells: dict[str, _Key] = {}
        self._expected: dict[_Key, RunTime] = {}
        self._seconds: dict[tuple[Path, float], RunTime | None] = {}

    def cells(self) -> list[CellStatus]:
        """Counts the runs of each cell by state.

        Returns:
            One entry per suite, algorithm and environment, sorted.
        """
        return self.count(self.runs())

    def runs(self, *, read_specs: bool = True) -> Iterator[SurveyedRun]:
        """Yields every run that was requested or begun, with its state.

        Args:
            read_specs: Whether to read specifications of runs that no sweep file names, and to
                leave out runs where that is impossible. Otherwise their names are those of their
                folders, which lack variants, and have `-` for `/`.
        """
        for path, key in self._runs(read_specs=read_specs):
            directory = RunDirectory(self.out / path)
            done_at = _done_at(directory)
            state = "done" if done_at is not None else self._state(directory)
            yield SurveyedRun(path, *key, state, done_at)

    def count(self, runs: Iterable[SurveyedRun]) -> list[CellStatus]:
        """Counts runs that `runs` returned; one entry per cell, sorted."""
        cells: dict[_Key, _Cell] = {}
        for run in runs:
            cell = cells.setdefault(run.cell, _Cell())
            cell.counts[run.state] += 1
            if run.done_at is not None:
                cell.finished.append((run.done_at, self.out / run.path))
            elif run.state == "running":
                cell.running.append(RunDirectory(self.out / run.path))
        at_work = max(1, sum(cell.counts["running"] for cell in cells.values()))
        return [self._status(key, cell, at_work) for key, cell in sorted(cells.items())]

    def is_active(self) -> bool:
        """Whether a process runs a sweep here; otherwise, open runs stay open."""
        return is_active(self.out, may_write=self._may_write)

    def _state(self, directory: RunDirectory) -> str:
        if directory.is_claimed(may_write=self._may_write):
            return "running"
        if directory.has_failed:
            return "failed"
        # A worker writes the specification first.
        return "interrupted" if (directory.path / "spec.json").exists() else "waiting"

    def _runs(self, *, read_specs: bool) -> Iterator[tuple[str, _Key]]:
        """Yields paths and cells of all runs that were requested or begun."""
        cells = [cell for sweep in read_sweeps(self.out) for cell in sweep.cells]
        self._expected = {
            (cell.suite, cell.algo, cell.env): cell.expected
            for cell in cells
            if cell.expected is not None
        }
        planned = {
            f"{cell.folder}/{run_id}": (cell.suite, cell.algo, cell.env)
            for cell in cells
            for run_id in cell.run_ids
        }
        yield from planned.items()
        for path in run_directories(self.out):
            if path in planned:
                continue
            if not read_specs:
                suite, algo, env, _ = path.split("/")
                yield path, (suite, algo, env)
            elif (key := self._key(path)) is not None:
                yield path, key

    def _key(self, path: str) -> _Key | None:
        if path not in self._cells:
            try:
                spec = RunDirectory(self.out / path).read_spec()
            except InputError:
                return None
            self._cells[path] = (spec.suite, spec.algo_label, spec.environment.id)
        return self._cells[path]

    def _status(self, key: _Key, cell: _Cell, at_work: int) -> CellStatus:
        counts = {state: cell.counts[state] for state in STATES}
        status = CellStatus(*key, counts=counts)
        if not status.open:
            return status
        time = self._median_time(cell) or self._expected.get(key)
        live = tuple(self._live(cell, time))
        if time is None or not (run_s := time.total_s):
            return replace(status, live=live)
        # A running run that has not said how far it is is half done on average.
        left = [run_s / 2 if run.left_s is None else run.left_s for run in live]
        left += [run_s / 2] * (counts["running"] - len(live))
        unbegun = counts["waiting"] + counts["interrupted"]
        ahead_s = run_s * unbegun + sum(left)
        least = max([run_s if unbegun else 0.0, *left])  # because a run cannot be split
        return replace(
            status, run_s=run_s, eta_s=max(least, ahead_s / at_work), ahead_s=ahead_s, live=live
        )

    def _live(self, cell: _Cell, time: RunTime | None) -> Iterator[LiveRun]:
        for directory in cell.running:
            with suppress(InputError):  # the worker is about to write the specification
                yield read_live_run(directory, directory.read_spec(), time)

    def _median_time(self, cell: _Cell) -> RunTime | None:
        """Returns the median time of the latest runs that finished."""
        times = []
        for done_at, path in heapq.nlargest(_SAMPLES, cell.finished):
            if (path, done_at) not in self._seconds:
                self._seconds[path, done_at] = finished_time(RunDirectory(path))
            value = self._seconds[path, done_at]
            times += [] if value is None else [value]
        return median_time(times)


def total_status(cells: Sequence[CellStatus]) -> StatusTotal:
    """Sums the counts of cells and estimates the remaining time of all."""
    counts = {state: sum(cell.counts[state] for cell in cells) for state in STATES}
    at_work = max(1, counts["running"])
    known = [cell for cell in cells if cell.eta_s is not None]
    ahead = sum(cell.ahead_s or 0.0 for cell in known)
    least = max((cell.eta_s or 0.0 for cell in known), default=0.0)
    whole = len(known) == sum(cell.open > 0 for cell in cells)
    return StatusTotal(counts, eta_s=max(least, ahead / at_work), whole=whole)


def _done_at(directory: RunDirectory) -> float | None:
    try:
        return (directory.path / "result.json").stat().st_mtime
    except OSError:
        return None


_SHOWN = 5


def find_run(out: Path, start: str) -> RunDirectory:
    """Finds a run directory by the start of its id.

    Args:
        out: Root of the results folder.
        start: Id of a run, or its first characters.

    Raises:
        InputError: No run or several runs have such an id, or the run has not been begun.
    """
    if not out.is_dir():
        raise InputError(f"--out {out}: no such folder; run `imitbench run --out {out}` first")
    paths = [Path(path) for path in run_directories(out)]
    found = [path for path in paths if start and path.name.startswith(start)]
    if len(found) == 1:
        return RunDirectory(out / found[0])
    if found:
        shown = ", ".join(_label(path) for path in found[:_SHOWN])
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise InputError(f"run {start}: {len(found)} runs of {out} start with it: {shown}{more}")
    for sweep in read_sweeps(out):
        if any(start and run_id.startswith(start) for run_id in sweep.paths):
            raise InputError(f"run {start}: was requested, but has not been begun")
    if not paths:
        raise InputError(f"run {start}: {out} has no runs; run `imitbench run --out {out}` first")
    near = difflib.get_close_matches(start, [path.name for path in paths], n=1, cutoff=0.3)
    hint = [f"; the nearest is {_label(path)}" for path in paths if path.name in near]
    query = "select run_id, algo, env, seed from runs"
    raise InputError(
        f"run {start}: no run of {out} starts with it{''.join(hint[:1])}; "
        f"`{shlex.join(['imitbench', 'sql', query, '--out', str(out)])}` lists them"
    )


def _label(path: Path) -> str:
    algo, env, run_id = path.parts[-3:]
    return f"{run_id} ({algo} on {env})"
