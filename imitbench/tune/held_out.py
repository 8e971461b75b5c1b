"""The contest: the best trials against the card's values, on seeds that no choice was made on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from imitbench.cards.algorithm import Scalar
from imitbench.stats.strata import FloatArray
from imitbench.stats.verdicts import Verdict, verdicts
from imitbench.store.records import Record
from imitbench.tune.study import Trial

Decision = Literal["better", "undecided", "not better"]
DEFAULT = "default"


class Candidate(Record):
    """A setting that takes part.

    Attributes:
        trial: Number of the trial that it comes from; 0 is the card's own setting.
        values: The hyper-parameters that are searched.
    """

    trial: int
    values: dict[str, Scalar]

    @property
    def label(self) -> str:
        """What it is called."""
        return f"trial {self.trial}" if self.trial else DEFAULT


class Standing(Record):
    """How a candidate did.

    Attributes:
        candidate: The candidate.
        scores: The objective of each run that completed.
        environments: Environment of each of these runs, where there are several.
        returns: Their true returns, for people to look at.
        failed: Number of runs that failed.
        decision: Whether it beats the default; `None` for the default itself.
        difference: Its mean less that of the default.
        p_value: Of the permutation test, corrected for the number of candidates.
        more_seeds: Held-out seeds to add before the test could decide at all.
    """

    candidate: Candidate
    scores: list[float]
    environments: list[str] = Field(default_factory=list)
    returns: list[float]
    failed: int = 0
    decision: Decision | None = None
    difference: float | None = None
    p_value: float | None = None
    more_seeds: int = 0

    @property
    def mean(self) -> float:
        """Mean of the objective; NaN if every run failed."""
        return float(np.mean(self.scores)) if self.scores else math.nan

    def by_environment(self) -> dict[str, FloatArray]:
        """Its scores, shape (runs,) for each environment."""
        places = self.environments or [""] * len(self.scores)
        found: dict[str, list[float]] = {}
        for place, score in zip(places, self.scores, strict=True):
            found.setdefault(place, []).append(score)
        return {place: np.array(scores) for place, scores in found.items()}


class Contest(Record):
    """What came of it.

    Attributes:
        standings: The default first, then the others, the best first.
        trials: Number of trials that they were chosen from.
    """

    standings: list[Standing]
    trials: int

    @property
    def default(self) -> Standing:
        """How the card's own values did."""
        return self.standings[0]

    @property
    def winner(self) -> Standing | None:
        """The best of the others; `None` where each had a run that failed, or there is none."""
        whole = [each for each in self.standings[1:] if not each.failed and each.scores]
        return whole[0] if whole else None

    @property
    def decision(self) -> Decision:
        """Whether the winner beats the default."""
        winner = self.winner
        return "not better" if winner is None or winner.decision is None else winner.decision


def candidates(trials: Sequence[Trial], defaults: dict[str, Scalar], best: int) -> list[Candidate]:
    """The default, and the best trials with other values.

    Args:
        trials: All trials.
        defaults: The card's values of what is searched.
        best: How many trials.
    """
    chosen = [Candidate(trial=0, values=defaults)]
    complete = [each for each in trials if each.state == "complete" and each.value is not None]
    for trial in sorted(complete, key=lambda each: (-(each.value or 0.0), each.number)):
        if len(chosen) <= best and all(trial.values != each.values for each in chosen):
            chosen.append(Candidate(trial=trial.number, values=trial.values))
    return chosen


def judge(standings: Sequence[Standing], *, trials: int) -> Contest:
    """Decides whether the others beat the default.

    Args:
        standings: The default first.
        trials: Number of trials that they were chosen from.

    Returns:
        The contest, the others ordered by their means.

    Source: `imitbench.stats.verdicts`: permutation tests, corrected by Holm's method.
    """
    default, *others = standings
    others.sort(key=lambda each: -each.mean if each.scores and not each.failed else math.inf)
    comparable = [each for each in others if each.scores and not each.failed]
    found: dict[int, Verdict] = {}
    if default.scores and not default.failed:
        against = {each.candidate.label: each.by_environment() for each in comparable}
        told = verdicts(DEFAULT, default.by_environment(), against)
        found = {
            each.candidate.trial: verdict for each, verdict in zip(comparable, told, strict=True)
        }
    judged = [_judged(each, found.get(each.candidate.trial)) for each in others]
    return Contest(standings=[default, *judged], trials=trials)


def _judged(standing: Standing, verdict: Verdict | None) -> Standing:
    """Turns a verdict about the default around."""
    if verdict is None:
        return standing.model_copy(update={"decision": "undecided"})
    difference = -verdict.difference.difference
    decision: Decision = "undecided"
    if verdict.decision == "worse":
        decision = "better"
    elif verdict.decision == "better" or difference <= 0:
        decision = "not better"
    adjusted = verdict.test.adjusted
    return standing.model_copy(
        update={
            "decision": decision,
            "difference": difference,
            "p_value": None if math.isnan(adjusted) else adjusted,
            "more_seeds": verdict.test.lacking,
        }
    )
