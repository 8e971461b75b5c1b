"""Runs with their outcomes, as reports, leaderboards and checks read them."""

from __future__ import annotations

from dataclasses import dataclass, field

from imitbench.records.episodes import EpisodeTable
from imitbench.records.runs import Provenance, RunFailure, RunResult, RunSpec


@dataclass(frozen=True)
class PublishedRun:
    """A run with its outcome: of result and failure, one is `None`.

    Attributes:
        episodes: Its evaluation episodes; `None` for a failed run.
    """

    spec: RunSpec
    result: RunResult | None = None
    failure: RunFailure | None = None
    episodes: EpisodeTable | None = None

    @property
    def provenance(self) -> Provenance:
        """How it came about."""
        outcome = self.result or self.failure
        assert outcome is not None
        return outcome.provenance

    @property
    def ended_at(self) -> str:
        """When it completed or failed: ISO 8601 time in UTC."""
        if self.result is not None:
            return self.result.finished_at
        assert self.failure is not None
        return self.failure.failed_at


@dataclass(frozen=True)
class PublishedRuns:
    """Runs of a results folder.

    Attributes:
        runs: The newest of every cell and seed, by suite, environment, algorithm, seed and id.
        superseded: Number of runs that newer ones have superseded, which are left out.
        unfinished: Number of runs without an outcome, which are left out.
        unreadable: A message for each directory that is left out because it is damaged.
    """

    runs: list[PublishedRun] = field(default_factory=list)
    superseded: int = 0
    unfinished: int = 0
    unreadable: list[str] = field(default_factory=list)

    @property
    def left_out(self) -> list[str]:
        """A sentence on each kind of run that is left out."""
        notes = [f"left out: {message}" for message in self.unreadable]
        if self.superseded:
            notes.append(f"left out: {self.superseded} runs that newer ones have superseded")
        if self.unfinished:
            notes.append(f"left out: {self.unfinished} unfinished runs")
        return notes
