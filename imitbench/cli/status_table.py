"""Prints the table of `imitbench status`, and updates it for `--watch`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from imitbench.bench.live_display import (
    LineRate,
    describe,
    make_console,
    message_table,
    metric_text,
    run_table,
    share_text,
    step_text,
)
from imitbench.cli.output import Column, duration, nonzero, note, on_terminal
from imitbench.store.live_runs import LiveRun
from imitbench.store.overview import STATES, CellStatus, StatusSurvey, total_status

FOLDER = Column("folder", rank=1, above=True)
COLUMNS = (
    Column("suite", rank=1, above=True),
    Column("algorithm", above=True),
    Column("environment"),
    Column("done"),
    Column("running"),
    Column("failed", color=nonzero("red")),
    Column("interrupted", rank=3, color=nonzero("yellow")),
    Column("waiting"),
    Column("ETA", rank=2),
)
HEADER = tuple(column.name for column in COLUMNS)
LIVE_COLUMNS = (
    Column("run", rank=4),
    Column("algorithm", rank=1, above=True),
    Column("environment"),
    Column("seed"),
    Column("step", rank=3),
    Column("share"),
    Column("metric", rank=2),
    Column("ETA", rank=1),
)
_Show = Callable[[Sequence[CellStatus]], None]


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
    idle_before = False
    try:
        with _shown() as show:
            while True:
                cells = survey.cells()
                show(cells)
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

    return "; ".join(filter(None, (each.status(out) for each in executors_of(out)))) or None


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
    return f"{counts}; {'about' if whole.whole else 'at least'} {duration(whole.eta_s)} left"


@contextmanager
def _shown() -> Iterator[_Show]:
    """Shows cells on stderr: a live table on a terminal, else a line after each change."""
    if not on_terminal():
        yield _StatusLines()
        return
    console = make_console()
    with Live(
        console=console,
        transient=True,
        auto_refresh=False,
        redirect_stdout=sys.stdout.isatty(),
    ) as live:
        yield lambda cells: live.update(_shown_content(cells, console), refresh=True)


class _StatusLines:
    def __init__(self) -> None:
        self._counts: object = None
        self._rate = LineRate()

    def __call__(self, cells: Sequence[CellStatus]) -> None:
        counts = total_status(cells).counts
        if counts != self._counts:
            note(summary(cells))
        self._counts = counts
        for run in live_runs(cells):
            if self._rate.is_due(run):
                note(f"{run.label}: {describe(run)}")


def _shown_content(cells: Sequence[CellStatus], console: Console) -> Group:
    runs = live_runs(cells)
    return Group(_table(cells), run_table(runs, console.width), message_table(runs, console.width))


def _table(cells: Sequence[CellStatus]) -> Table:
    table = Table(caption=Text(summary(cells)))
    for name in HEADER:
        table.add_column(name, justify="right" if name in (*STATES, "ETA") else "left")
    for row in table_rows(cells):
        table.add_row(*(Text(str(value)) for value in row))
    return table
