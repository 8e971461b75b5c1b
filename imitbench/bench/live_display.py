"""Shows running runs on stderr: a live area on terminals, now and then a line elsewhere."""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from imitbench.errors import InputError
from imitbench.records.runs import RunSpec, RunTime
from imitbench.store.live_runs import LiveRun, TrainingProgress, read_live_run
from imitbench.store.run_dir import RunDirectory
from imitbench.util.quantities import rough_duration
from imitbench.util.text_line import on_terminal, one_line, printable

ReadProgress = Callable[[], Sequence[TrainingProgress]]
"""Returns how far the running runs are."""
Head = Callable[[], RenderableType | None]

_EVERY_S = 1.0
_NARROW, _WIDE, _WIDEST = 50, 80, 120  # columns of terminals that show metric, step, message
_LABEL, _METRIC = 44, 28


def share_text(run: TrainingProgress) -> str:
    """Returns the share of the budget: `31 %`; the phase when a run does not train."""
    if run.phase == "evaluate" and run.episodes is not None:
        return "evaluating, episode {} of {}".format(*run.episodes)
    if run.phase != "train" and run.phase in _PHASES:
        return _PHASES[run.phase]
    return "training" if run.share is None else f"{100 * run.share:.0f} %"


_PHASES = {
    "start": "starting",
    "load": "loading",
    "setup": "setting up",
    "evaluate": "evaluating",
    "save": "saving",
}


def step_text(run: TrainingProgress) -> str:
    """Returns steps and budget: `61,440 of 200,000`; empty before and after training."""
    trains = run.phase == "train" and run.share is not None
    return f"{run.step:,} of {run.amount:,}" if trains else ""


def metric_text(run: TrainingProgress) -> str:
    """Returns the main metric without the prefix of its name: `return_mean 153.2`."""
    if run.metric is None:
        return ""
    name, value = run.metric
    return one_line(f"{name.rpartition('/')[2]} {value:.4g}")


def left_text(run: TrainingProgress) -> str:
    """Returns the expected time: `2 min left`; empty if it is unknown."""
    return "" if run.left_s is None else f"{rough_duration(run.left_s)} left"


def describe(run: TrainingProgress) -> str:
    """Returns a line: `step 61,440 of 200,000 (31 %), return_mean 153.2, 2 min left`."""
    share, step = share_text(run), step_text(run)
    if step:
        share = f"step {step} ({share})"
    return ", ".join(filter(None, (share, metric_text(run), left_text(run))))


def success_text(directory: RunDirectory) -> str:
    """Returns score and time of a run: `score 0.982, 12 s`."""
    try:
        result = directory.read_result()
    except InputError:  # replaced in the meantime
        return "done"
    score = result.score()
    shown = f"return {result.raw_return:.4g}" if math.isnan(score) else f"score {score:.3f}"
    return f"{shown}, {rough_duration(result.wall_s)}"


class LineRate:
    """Decides when another line about a run is worth printing.

    That is when it has spent another tenth of its budget, and at least ten seconds after its last
    line; and after ten minutes in any case. A run of some seconds gets none but its last.
    """

    _TENTHS, _LEAST_S, _MOST_S = 10, 10.0, 600.0

    def __init__(self) -> None:
        self._told: dict[str, tuple[float, int]] = {}

    def is_due(self, run: TrainingProgress) -> bool:
        """Whether to print a line now; the caller then does."""
        now, tenth = time.monotonic(), int(self._TENTHS * (run.share or 0.0))
        then, before = self._told.setdefault(run.key, (now, 0))
        silent_s = now - then
        if silent_s < self._LEAST_S or (tenth == before and silent_s < self._MOST_S):
            return False
        self._told[run.key] = now, tenth
        return True


def run_table(runs: Sequence[TrainingProgress], width: int) -> Table:
    """Returns a row for each run, without wrapped cells.

    Where there is little room, messages are left out first, then steps, then metrics; labels are
    shortened.

    Args:
        runs: Runs to show.
        width: Columns of the terminal.
    """
    table = Table.grid(padding=(0, 2))
    table.add_column(overflow="ellipsis", max_width=_LABEL)  # made narrower if necessary
    columns = [[one_line(run.label, None) for run in runs]]

    def add(text: Callable[[TrainingProgress], str], least: int, **style: Any) -> None:
        if width >= least:
            table.add_column(**style)
            columns.append([text(run) for run in runs])

    add(share_text, 0, justify="right", no_wrap=True)
    add(step_text, _WIDE, justify="right", no_wrap=True)
    add(lambda run: one_line(metric_text(run), _METRIC), _NARROW, no_wrap=True)
    add(left_text, 0, no_wrap=True)
    add(lambda run: run.message, _WIDEST, overflow="ellipsis")
    for cells in zip(*columns, strict=True):
        table.add_row(*(Text(cell, no_wrap=True) for cell in cells))
    return table


def message_table(runs: Sequence[TrainingProgress], width: int) -> Table:
    """Returns the last message of each run, where `run_table` has no room for them."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=width // 2)
    table.add_column(no_wrap=True, overflow="ellipsis")
    for run in runs:
        if run.message and width < _WIDEST:
            table.add_row(Text(f"{run.label}:"), Text(run.message))
    return table


def make_console() -> Console:
    """Returns the console of stderr as it is now; workers in this process redirect it later."""
    return Console(file=sys.stderr, no_color="NO_COLOR" in os.environ)


@contextmanager
def shown_runs(
    read: ReadProgress, head: Head = lambda: None, *, messages: bool = False
) -> Iterator[None]:
    """Context in which running runs are shown on stderr.

    Args:
        read: Returns them; called about once a second, from another thread.
        head: Returns what stands above them on a terminal.
        messages: Whether their last messages are shown even where that takes more lines.
    """
    if not on_terminal():
        with _Lines(read):
            yield
        return
    console = make_console()
    runs: Sequence[TrainingProgress] = ()
    read_at = -_EVERY_S

    def content() -> RenderableType:
        nonlocal runs, read_at
        if time.monotonic() - read_at >= _EVERY_S:  # reads files
            runs, read_at = read(), time.monotonic()
        above, width = head(), console.width
        below = [message_table(runs, width)] if messages else []
        return Group(*([] if above is None else [above]), run_table(runs, width), *below)

    # What is printed on stdout is data: it stays there if that is a file.
    redirect = sys.stdout.isatty()
    with Live(
        get_renderable=content, console=console, transient=True, refresh_per_second=2,
        redirect_stdout=redirect,
    ):  # fmt: skip
        yield


class _Lines:
    """A thread that prints lines about running runs."""

    def __init__(self, read: ReadProgress) -> None:
        self._read = read
        # A worker in this process redirects stderr to the log of its run.
        self._stream = sys.stderr
        self._rate = LineRate()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._print_often, name="progress", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _print_often(self) -> None:
        while not self._ended.wait(_EVERY_S):
            for run in self._read():
                if self._rate.is_due(run):
                    line = printable(f"{run.label}: {describe(run)}")
                    print(line, file=self._stream, flush=True)


@dataclass(frozen=True)
class _Given:
    job: int
    spec: RunSpec
    directory: RunDirectory
    expected: RunTime | None


class RunWatch:
    """The runs that workers have and that have not ended; for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs = 0
        self._given: dict[Path, _Given] = {}

    def add(self, runs: Sequence[RunSpec], out: Path, expected: Sequence[RunTime | None]) -> None:
        """Adds the runs of a job that a worker started.

        Args:
            runs: Its runs.
            out: Results folder of the runs.
            expected: Expected time of each run; `None` if it is unknown.
        """
        with self._lock:
            self._jobs += 1
            for spec, time in zip(runs, expected, strict=True):
                directory = RunDirectory.of(out, spec)
                self._given[directory.path] = _Given(self._jobs, spec, directory, time)

    def remove(self, run: RunSpec, out: Path) -> None:
        """Removes a run that ended."""
        with self._lock:
            self._given.pop(RunDirectory.of(out, run).path, None)

    def read_progress(self) -> list[LiveRun]:
        """Reads how far the runs are; of a job, those in progress, or else the next one."""
        with self._lock:
            given = list(self._given.values())
        jobs: dict[int, list[LiveRun]] = {}
        for entry in given:
            with suppress(OSError):  # the display must not end the sweep
                if not entry.directory.has_outcome:
                    run = read_live_run(entry.directory, entry.spec, entry.expected)
                    jobs.setdefault(entry.job, []).append(run)
        begun = (
            [run for run in runs if run.phase != "start"] or runs[:1] for runs in jobs.values()
        )
        return [run for runs in begun for run in runs]
