"""Shows runs while they are running, for `imitbench status --watch` and `logs --follow`."""

from __future__ import annotations

import codecs
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import typer
from rich.text import Text

from imitbench.bench.live_display import (
    metric_text,
    share_text,
    shown_runs,
    step_text,
    success_text,
)
from imitbench.cli.output import TextColumn, command_for, duration, nonzero, note, on_terminal
from imitbench.store.live_runs import LiveRun, find_live_run
from imitbench.store.overview import STATES, CellStatus, StatusSurvey, total_status
from imitbench.store.run_dir import RunDirectory
from imitbench.store.sweep_file import is_active
from imitbench.untrusted.files import open_ordinary
from imitbench.util.quantities import about
from imitbench.util.text_line import printable_log, width_of
from imitbench.util.text_table import format_table

_EVERY_S, _IDLE_S = 0.5, 2.0  # a scheduler is asked only while no process works on the run
_SURE_S = 3.0  # without a process, in which a sweep may start one
FOLDER = TextColumn("folder", rank=1, above=True)
COLUMNS = (
    TextColumn("suite", rank=1, above=True),
    TextColumn("algorithm", above=True),
    TextColumn("environment"),
    TextColumn("done"),
    TextColumn("running"),
    TextColumn("failed", color=nonzero("red")),
    TextColumn("interrupted", rank=3, color=nonzero("yellow")),
    TextColumn("waiting"),
    TextColumn("ETA", rank=2),
)
LIVE_COLUMNS = (
    TextColumn("run", rank=4),
    TextColumn("algorithm", rank=1, above=True),
    TextColumn("environment"),
    TextColumn("seed"),
    TextColumn("step", rank=3),
    TextColumn("share"),
    TextColumn("metric", rank=2),
    TextColumn("ETA", rank=1),
)


def watch_runs(survey: StatusSurvey, every_s: float) -> list[CellStatus]:
    """Shows the states of all runs until nothing is left to wait for, or until Ctrl-C.

    Watching ends when no run is open. It also ends when two surveys in a row find no running run
    and no active process; the time between them is enough for a sweep to start.

    Args:
        survey: Survey of the results folder.
        every_s: Seconds between surveys.

    Returns:
        The last states, by cell.
    """
    cells: list[CellStatus] = []
    counts: object = None
    idle_before = False
    try:
        with shown_runs(
            lambda: live_runs(cells), lambda: _table(cells) if cells else None, messages=True
        ):
            while True:
                cells = survey.cells()
                if not on_terminal() and counts != (counts := total_status(cells).counts):
                    note(summary(cells))
                idle = is_idle(survey, cells)
                if not total_status(cells).open or (idle and idle_before):
                    break
                idle_before = idle
                time.sleep(every_s)
    except KeyboardInterrupt:
        pass
    return cells


def is_idle(survey: StatusSurvey, cells: Sequence[CellStatus]) -> bool:
    """Whether no run is active, and none will be without a new command."""
    running = total_status(cells).counts["running"]
    return not running and not survey.is_active() and queue_line(survey.out) is None


def queue_line(out: Path) -> str | None:
    """Returns a results folder's tasks in a scheduler's queue: `…: 5 pending, 3 running`."""
    from imitbench.executors.registry import executors_of

    return "; ".join(filter(None, (executor.status(out) for executor in executors_of(out)))) or None


def table_rows(cells: Sequence[CellStatus]) -> list[list[object]]:
    """Returns the rows of the table: cell, number of runs by state, expected time."""
    return [
        [
            *(cell.suite, cell.algo, cell.env),
            *(cell.counts[state] for state in STATES),
            duration(cell.eta_s) if cell.eta_s is not None else "?" if cell.open else "",
        ]
        for cell in cells
    ]


def live_runs(cells: Sequence[CellStatus]) -> list[LiveRun]:
    """Returns the running runs of all cells."""
    return [run for cell in cells for run in cell.live]


def live_rows(runs: Sequence[LiveRun]) -> list[list[object]]:
    """Returns the rows of the table of running runs."""
    return [
        [
            run.spec.run_id,
            run.spec.algo_label,
            run.spec.environment.id,
            run.spec.seed,
            step_text(run),
            share_text(run),
            metric_text(run),
            "?" if run.left_s is None else duration(run.left_s),
        ]
        for run in runs
    ]


def summary(cells: Sequence[CellStatus]) -> str:
    """Returns one line for all cells: `12 done, 3 running, 40 waiting; about 5 min left`."""
    whole = total_status(cells)
    counts = ", ".join(f"{whole.counts[state]} {state}" for state in STATES if whole.counts[state])
    if not whole.open:
        return counts
    if not whole.eta_s:
        return f"{counts}; no run has finished, so the time is unknown"
    left = about(whole.eta_s) if whole.whole else f"at least {duration(whole.eta_s)}"
    return f"{counts}; {left} left"


def _table(cells: Sequence[CellStatus]) -> Text:
    table = format_table(COLUMNS, table_rows(cells), width=width_of(sys.stderr))
    return Text(f"{table}{summary(cells)}\n")


def follow_run(out: Path, directory: RunDirectory, tail: int | None) -> None:
    """Prints the log of a run as it grows, until the run ends or nothing is working on it.

    Args:
        out: Root of the results folder.
        directory: Directory of the run.
        tail: Number of present lines to print first; all if `None`.
    """
    log = GrowingLog(directory.log)
    lines = log.new_lines()
    for line in lines if tail is None else lines[len(lines) - min(tail, len(lines)) :]:
        typer.echo(line)
    try:
        _wait(out, directory, log)
    except KeyboardInterrupt:
        return
    _tell_end(out, directory)


def _wait(out: Path, directory: RunDirectory, log: GrowingLog) -> None:
    live: LiveRun | None = None
    last_sign = time.monotonic()
    with shown_runs(lambda: [] if live is None else [live]):
        while True:
            ended = directory.has_outcome and not directory.is_claimed()
            for line in log.new_lines(whole=ended):
                typer.echo(line)
            if ended:
                return
            live = find_live_run(out, directory)
            if live is not None or is_active(out) or queue_line(out) is not None:
                last_sign = time.monotonic()
            elif time.monotonic() - last_sign > _SURE_S:
                return
            time.sleep(_IDLE_S if live is None else _EVERY_S)


def _tell_end(out: Path, directory: RunDirectory) -> None:
    if directory.is_done:
        note(f"done: {success_text(directory)}")
    elif directory.has_failed:
        failure = directory.read_failure()
        note(printable_log(f"failed ({failure.phase}): {failure.error_type}: {failure.message}"))
    else:
        note(f"no process is working on it: `{command_for(out, 'resume')}` continues")


class GrowingLog:
    """The lines of a log file that other processes append to, and may replace.

    Args:
        path: The file; it may not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode = self._position = 0
        self._rest = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def new_lines(self, *, whole: bool = False) -> list[str]:
        """Returns printable lines that were completed since the last call.

        Args:
            whole: Whether to return the last line even if it is not complete.
        """
        text = self._rest + self._decoder.decode(self._new_bytes())
        end = len(text) if whole else text.rfind("\n") + 1
        self._rest = text[end:]
        return printable_log(text[:end]).splitlines()

    def _new_bytes(self) -> bytes:
        try:
            with open_ordinary(self._path) as stream:
                inode = self._path.stat().st_ino
                if inode != self._inode:
                    self._inode, self._position = inode, 0
                stream.seek(self._position)
                data = stream.read()
        except OSError:
            return b""
        self._position += len(data)
        return data
