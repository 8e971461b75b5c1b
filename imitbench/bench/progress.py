"""Shows the progress of a sweep: a live bar on terminals, lines of text in logs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from imitbench.bench.sweep import SweepObserver
from imitbench.records.runs import RunFailure, RunSpec
from imitbench.util.text_line import note, on_terminal

_STOPPING = "stopping: running runs save checkpoints; Ctrl-C again stops immediately"


class _SilentObserver:
    def planned(self, total: int, already_done: int) -> None:
        pass

    def started(self, runs: list[RunSpec]) -> None:
        pass

    def finished(self, run: RunSpec, failure: RunFailure | None) -> None:
        pass

    def stopping(self) -> None:
        pass


class _LineObserver(_SilentObserver):
    """Prints one line for each run that ends."""

    def planned(self, total: int, already_done: int) -> None:
        self._total, self._count = total, already_done
        note(f"{total} runs, {already_done} already there")

    def finished(self, run: RunSpec, failure: RunFailure | None) -> None:
        self._count += 1
        word = "done" if failure is None else f"FAILED ({failure.error_type})"
        note(f"[{self._count}/{self._total}] {run.label}: {word}")

    def stopping(self) -> None:
        note(_STOPPING)


class _BarObserver(_SilentObserver):
    """A bar, followed by the running runs."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("planning", total=None)
        self._flying: list[RunSpec] = []

    def planned(self, total: int, already_done: int) -> None:
        self._progress.update(self._task, total=total, completed=already_done)

    def started(self, runs: list[RunSpec]) -> None:
        self._flying += runs
        self._show()

    def finished(self, run: RunSpec, failure: RunFailure | None) -> None:
        self._flying = [other for other in self._flying if other.run_id != run.run_id]
        if failure is not None:
            self._progress.console.print(
                f"failed: {run.label}: {failure.error_type}", markup=False, highlight=False
            )
        self._progress.advance(self._task)
        self._show()

    def stopping(self) -> None:
        self._progress.console.print(_STOPPING, markup=False, highlight=False)

    def _show(self) -> None:
        text = "; ".join(run.label for run in self._flying)
        self._progress.update(self._task, description=text or "waiting")


@contextmanager
def make_observer(*, quiet: bool) -> Iterator[SweepObserver]:
    """Yields the observer that shows progress in the way that fits the output.

    Args:
        quiet: Whether to show nothing.
    """
    if quiet:
        yield _SilentObserver()
    elif not on_terminal():
        yield _LineObserver()
    else:
        console = Console(stderr=True, no_color="NO_COLOR" in os.environ)
        columns = (
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False),
        )
        with Progress(*columns, console=console, transient=True) as progress:
            yield _BarObserver(progress)
