"""Shows the progress of `imitbench train`: a live line on a terminal, lines of text elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from imitbench.bench.live_display import describe, shown_runs
from imitbench.bench.monitor import Monitor, Phase
from imitbench.bench.single_run import TrainingSetup
from imitbench.cli.output import note, on_terminal
from imitbench.records.curves import main_metric
from imitbench.records.runs import RunTime
from imitbench.store.live_runs import TrainingProgress, seconds_left, training_seconds

_MAX_LINES = 20  # where there is no terminal


@contextmanager
def shown_training(training: TrainingSetup, *, quiet: bool) -> Iterator[Monitor]:
    """Context in which the progress of a training is shown on stderr.

    Args:
        training: Description of the training.
        quiet: Whether to show nothing.

    Yields:
        The monitor to pass to the training.
    """
    if quiet:
        yield Monitor()
    elif not on_terminal():
        yield _TrainingLines(training)
    else:
        watch = _TrainingWatch(training)
        with shown_runs(lambda: [watch.progress]):
            yield watch


class _TrainingWatch(Monitor):
    """Knows how far a training is."""

    def __init__(self, training: TrainingSetup) -> None:
        budget = training.budget
        self._label = f"{training.card.name} on {training.environment.id}, seed {training.seed}"
        self._amount = budget.amount
        expected = training_seconds(budget, training.card, training.hyperparameters)
        self._expected = RunTime(train_s=expected, other_s=0.0)
        self._phase: Phase = "load"
        self._latest: dict[str, float] = {}
        self._measured = 0, 0.0
        self._begun: tuple[float, float] | None = None
        self._since = time.monotonic()

    def enter(self, phase: Phase) -> None:
        self._phase, self._since = phase, time.monotonic()

    def point(self, step: int, metrics: Mapping[str, float]) -> None:
        now = time.monotonic()
        if self._begun is not None:
            earlier_s, begun = self._begun
            self._measured, self._since = (step, earlier_s + now - begun), now
        self._latest = {**self._latest, **metrics}  # replaced, as another thread reads it

    def flushed(self, step: int, train_s: float) -> None:
        if self._begun is None:
            self._begun = train_s, time.monotonic()
            self._measured = step, train_s

    @property
    def progress(self) -> TrainingProgress:
        """How far the training is now."""
        step, train_s = self._measured
        known = TrainingProgress(
            label=self._label,
            amount=self._amount,
            phase=self._phase,
            step=step if self._begun else None,
            metric=main_metric([self._latest]),
        )
        since_s = time.monotonic() - self._since
        return replace(known, left_s=seconds_left(known, train_s, since_s, self._expected))


class _TrainingLines(_TrainingWatch):
    """Prints a line whenever another part of the budget is spent."""

    _told = 0

    def point(self, step: int, metrics: Mapping[str, float]) -> None:
        super().point(step, metrics)
        part = _MAX_LINES * step // max(self._amount, 1)
        if part > self._told:
            self._told = part
            note(f"  {describe(self.progress)}")
