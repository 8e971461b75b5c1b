"""Runs with their outcomes, which reports, leaderboards and checks read."""

from __future__ import annotations

from dataclasses import dataclass, field

from imitbench.records.bundled_cards import is_isolated
from imitbench.records.curves import LearningCurve
from imitbench.records.episodes import EpisodeTable
from imitbench.records.reward_scores import RewardScores
from imitbench.records.runs import Provenance, RunFailure, RunResult, RunSpec


@dataclass(frozen=True)
class PublishedRun:
    """A run with its outcome: either `result` or `failure` is `None`.

    Attributes:
        episodes: Evaluation episodes of the run; `None` for a failed run.
        curve: Learning curve; `None` for a failed run, and if there is none.
        rewards: Numbers about its learned reward; `None` if it was not measured.
    """

    spec: RunSpec
    result: RunResult | None = None
    failure: RunFailure | None = None
    episodes: EpisodeTable | None = None
    curve: LearningCurve | None = None
    rewards: RewardScores | None = None

    @property
    def outcome(self) -> RunResult | RunFailure:
        """Its result or its failure."""
        outcome = self.result or self.failure
        assert outcome is not None
        return outcome

    @property
    def provenance(self) -> Provenance:
        """Provenance of the outcome."""
        return self.outcome.provenance

    @property
    def isolated(self) -> bool | None:
        """Whether its method was kept from true rewards; `None` if the record does not say."""
        return is_isolated(self.spec, self.provenance.isolation)

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
        runs: The latest run of every cell and seed, sorted by suite, environment, algorithm, seed
            and id.
        superseded: Number of excluded runs that newer ones supersede.
        unfinished: Number of excluded runs without an outcome.
        unreadable: A message for each directory that is excluded because it is damaged.
    """

    runs: list[PublishedRun] = field(default_factory=list)
    superseded: int = 0
    unfinished: int = 0
    unreadable: list[str] = field(default_factory=list)

    @property
    def left_out(self) -> list[str]:
        """A sentence on each kind of excluded runs."""
        notes = [f"left out: {message}" for message in self.unreadable]
        if self.superseded:
            notes.append(f"left out: {self.superseded} runs that newer ones have superseded")
        if self.unfinished:
            notes.append(f"left out: {self.unfinished} unfinished runs")
        return notes
