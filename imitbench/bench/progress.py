"""Shows the progress of a sweep: a live area on terminals, lines of text in logs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from imitbench.bench.live_display import RunWatch, shown_runs, success_text
from imitbench.bench.sweep import SweepObserver, SweepStart
from imitbench.records.runs import RunFailure, RunSpec, RunTime
from imitbench.store.live_runs import LiveRun, finished_time, median_time
from imitbench.store.run_dir import RunDirectory
from imitbench.util.quantities import about, rough_duration
from imitbench.util.text_line import note

_STOPPING = "stopping: running runs save checkpoints; Ctrl-C again stops immediately"
_SAMPLES = 9  # latest runs of a cell from which the time of the next one is expected


class _ShownSweep(SweepObserver):
    """Prints a line for each run that ends, and knows what is in progress.

    Before a run of a cell has finished, the time that its runs take is expected from the costs on
    the cards; afterwards, from the runs that this sweep has finished.
    """

    def __init__(self) -> None:
        self._watch = RunWatch()
        self._out = Path()
        self._total = self._ended = self._at_once = 0
        self._cells: dict[_Key, _OpenCell] = {}
        self._begun = time.monotonic()
        self._left_s = 0.0

    def planned(self, start: SweepStart) -> None:
        self._out = start.out
        self._total, self._ended = start.total, start.already_done
        self._cells = {}
        for run, expected in start.ahead:
            self._cells.setdefault(_key(run), _OpenCell(expected)).open.add(run.run_id)
        self._left_s = sum(expected.total_s for _, expected in start.ahead)
        note(f"{start.total} runs, {start.already_done} already there{self._cost()}")

    def started(self, runs: list[RunSpec]) -> None:
        cells = [self._cells.get(_key(run)) for run in runs]
        self._watch.add(runs, self._out, [cell.expected if cell else None for cell in cells])

    def finished(self, run: RunSpec, failure: RunFailure | None) -> None:
        self._watch.remove(run, self._out)
        self._ended += 1
        directory = RunDirectory.of(self._out, run)
        if (cell := self._cells.get(_key(run))) is not None:
            cell.open.discard(run.run_id)
            taken = finished_time(directory) if failure is None else None
            cell.taken += [] if taken is None else [taken]
        how = success_text(directory) if failure is None else f"FAILED ({failure.error_type})"
        note(f"[{self._ended}/{self._total}] {run.label}: {how}")

    def stopping(self) -> None:
        note(_STOPPING)

    def read_progress(self) -> list[LiveRun]:
        """Reads how far the running runs are."""
        running = self._watch.read_progress()
        self._at_once = max(self._at_once, len(running), 1)
        waiting = {key: len(cell.open) for key, cell in self._cells.items()}
        left = []
        for run in running:
            cell = self._cells.get(_key(run.spec))
            waiting[_key(run.spec)] = waiting.get(_key(run.spec), 1) - 1
            usual_s = cell.expected.total_s / 2 if cell else 0.0  # half done on average
            left.append(usual_s if run.left_s is None else run.left_s)
        ahead = [(waiting[key], cell.expected.total_s) for key, cell in self._cells.items()]
        whole = sum(left) + sum(count * run_s for count, run_s in ahead)
        longest = max([0.0, *left, *(run_s for count, run_s in ahead if count > 0)])
        self._left_s = max(longest, whole / self._at_once)
        return running

    def head(self) -> RenderableType | None:
        """Returns the line above the running runs: runs that ended, and the time left."""
        if not self._total:  # nothing is planned yet
            return None
        table = Table.grid(padding=(0, 2))
        spent = rough_duration(time.monotonic() - self._begun)
        table.add_row(
            ProgressBar(total=max(1, self._total), completed=self._ended, width=20),
            Text(f"{self._ended}/{self._total}"),
            Text(f"{spent}, {about(self._left_s)} left"),
        )
        return table

    def _cost(self) -> str:
        if not self._cells:
            return ""
        return f"; {about(self._left_s)} of one core ahead, by the costs on the cards"


_Key = tuple[str, ...]


def _key(run: RunSpec) -> _Key:
    """Identifies runs that take about as long."""
    budget = run.budget
    return run.suite, run.algo_label, run.environment.id, budget.unit, str(budget.amount)


@dataclass
class _OpenCell:
    """Runs that take about as long.

    Attributes:
        on_cards: Expected time of a run by the costs on the cards.
        open: Ids of those that have not ended.
        taken: Times of those that have finished.
    """

    on_cards: RunTime
    open: set[str] = field(default_factory=set)
    taken: list[RunTime] = field(default_factory=list)

    @property
    def expected(self) -> RunTime:
        """Expected time of the next run."""
        return median_time(self.taken[-_SAMPLES:]) or self.on_cards


@contextmanager
def make_observer(*, quiet: bool) -> Iterator[SweepObserver]:
    """Yields the observer that shows progress in the way that fits the output."""
    if quiet:
        yield SweepObserver()
        return
    observer = _ShownSweep()
    with shown_runs(observer.read_progress, observer.head):
        yield observer
