"""The best trials against the defaults on held-out seeds, and the file of the winner's values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import yaml
from pydantic import Field

from imitbench.cards.algorithm import AlgorithmCard, Scalar
from imitbench.cards.tuned import (
    HeldOutRuns,
    TunedCard,
    TunedValues,
    Tuning,
    read_tuned,
    resolve_tuned,
)
from imitbench.errors import InputError
from imitbench.records.runs import Record
from imitbench.stats.strata import FloatArray
from imitbench.stats.verdicts import Verdict, verdicts
from imitbench.tune.request import TuneRequest
from imitbench.tune.study import Trial
from imitbench.util.files import atomic_write_text
from imitbench.version import __version__

Decision = Literal["better", "undecided", "not better"]
DEFAULT = "default"


class Candidate(Record):
    """A setting in the held-out comparison.

    Attributes:
        trial: Number of its trial; 0 is the default setting.
        values: Values of the searched hyper-parameters.
    """

    trial: int
    values: dict[str, Scalar]

    @property
    def name(self) -> str:
        """Display name."""
        return f"trial {self.trial}" if self.trial else DEFAULT


class CandidateResult(Record):
    """Results of a candidate.

    Attributes:
        candidate: Setting of these runs.
        scores: The objective of each completed run.
        environments: Environment of each of these runs, if there are several.
        returns: True returns of these runs, for display.
        failed: Number of runs that failed.
        decision: Whether it is better than the default; `None` for the default itself.
        difference: Its mean minus that of the default.
        p_value: P-value of the permutation test, corrected for the number of candidates.
        more_seeds: Held-out seeds to add before the test can decide.
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
        """Returns scores by environment, each of shape (runs,)."""
        environments = self.environments or [""] * len(self.scores)
        found: dict[str, list[float]] = {}
        for environment, score in zip(environments, self.scores, strict=True):
            found.setdefault(environment, []).append(score)
        return {environment: np.array(scores) for environment, scores in found.items()}


class HeldOutComparison(Record):
    """Result of the held-out comparison.

    Attributes:
        standings: Results of the default, then of the others, best first.
        trials: Number of trials of which these are the best.
        env_steps: Environment steps of all completed runs of the study; `None` in files of
            earlier versions.
        core_hours: Hours of these runs, on one core each; `None` in files of earlier versions.
    """

    standings: list[CandidateResult]
    trials: int
    env_steps: int | None = None
    core_hours: float | None = None

    @property
    def default(self) -> CandidateResult:
        """Results of the default values."""
        return self.standings[0]

    @property
    def winner(self) -> CandidateResult | None:
        """The best of the others without a failed run; `None` if there is none."""
        whole = [result for result in self.standings[1:] if not result.failed and result.scores]
        return whole[0] if whole else None

    @property
    def decision(self) -> Decision:
        """Whether the winner is better than the default."""
        winner = self.winner
        return "not better" if winner is None or winner.decision is None else winner.decision


def candidates(trials: Sequence[Trial], defaults: dict[str, Scalar], best: int) -> list[Candidate]:
    """Selects the default and the best trials with other values.

    Args:
        trials: All trials of the study.
        defaults: Default values of the searched hyper-parameters.
        best: Number of trials to select.
    """
    chosen = [Candidate(trial=0, values=defaults)]
    complete = [trial for trial in trials if trial.state == "complete" and trial.value is not None]
    for trial in sorted(complete, key=lambda trial: (-(trial.value or 0.0), trial.number)):
        if len(chosen) <= best and all(trial.values != other.values for other in chosen):
            chosen.append(Candidate(trial=trial.number, values=trial.values))
    return chosen


def compare_candidates(
    standings: Sequence[CandidateResult],
    *,
    trials: int,
    env_steps: int | None = None,
    core_hours: float | None = None,
) -> HeldOutComparison:
    """Decides which candidates are better than the default.

    Args:
        standings: Results of all candidates, the default first.
        trials: Number of trials of which these are the best.
        env_steps: Environment steps of all runs so far.
        core_hours: Hours of these runs, on one core each.

    Returns:
        The result, with the others ordered by their means.

    Source: `imitbench.stats.verdicts`: permutation tests, corrected by Holm's method.
    """
    default, *others = standings
    others.sort(
        key=lambda result: -result.mean if result.scores and not result.failed else math.inf
    )
    comparable = [result for result in others if result.scores and not result.failed]
    found: dict[int, Verdict] = {}
    if default.scores and not default.failed:
        against = {result.candidate.name: result.by_environment() for result in comparable}
        found_verdicts = verdicts(DEFAULT, default.by_environment(), against)
        found = {
            result.candidate.trial: verdict
            for result, verdict in zip(comparable, found_verdicts, strict=True)
        }
    judged = [_judged(result, found.get(result.candidate.trial)) for result in others]
    return HeldOutComparison(
        standings=[default, *judged], trials=trials, env_steps=env_steps, core_hours=core_hours
    )


def _judged(standing: CandidateResult, verdict: Verdict | None) -> CandidateResult:
    """Converts a verdict about the default to one about the candidate."""
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


def tuned_values(request: TuneRequest, comparison: HeldOutComparison) -> TunedValues | None:
    """Returns the winner of a held-out comparison, with its provenance; `None` without a winner."""
    winner = comparison.winner
    if winner is None or not comparison.default.scores:
        return None
    card, settings = request.algorithm, request.plan.request
    values = {**card.changed(request.base), **winner.candidate.values}  # the former by --set
    basis = f"chosen by {request.objective}, without the true reward"
    if request.goal.uses_reward:
        basis = "uses reward: chosen by the true return"
    return TunedValues(
        source=f"{request.command} ({basis})",
        values={name: values[name] for name in card.hyperparameters if name in values},
        tuning=Tuning(
            imitbench=__version__,
            suite=request.plan.suite.name,
            per=request.per,
            **request.recorded_environments(),
            objective=request.objective,
            uses_reward=request.goal.uses_reward,
            budget=settings.budget,
            **settings.regime.recorded,
            trials=comparison.trials,
            **request.recorded_training,
            env_steps=comparison.env_steps,
            core_hours=comparison.core_hours,
            search_seeds=list(request.search_seeds),
            held_out_seeds=list(request.held_out_seeds),
            sampler_seed=request.seed,
            verdict=comparison.decision,
            p_value=winner.p_value,
            default=_runs(comparison.default),
            tuned=_runs(winner),
        ),
    )


def _runs(standing: CandidateResult) -> HeldOutRuns:
    return HeldOutRuns(mean=standing.mean, runs=standing.scores)


def check_target(path: Path, card: AlgorithmCard) -> None:
    """Checks, before the search, that values can be added to a file.

    Raises:
        InputError: The file has other content, or values of another algorithm.
    """
    _existing(path, card)
    folder = next(parent for parent in path.resolve().parents if parent.exists())
    if path.is_dir() or not folder.is_dir():
        raise InputError(f"--to {path}: must be a file in a folder; name another one")


def _existing(path: Path, card: AlgorithmCard) -> dict[str, TunedValues]:
    if not path.exists():
        return {}
    if path.is_dir():
        raise InputError(f"--to {path}: is a folder; name a file in it")
    found = read_tuned(path)
    if found.algorithm != card.name:
        raise InputError(
            f"--to {path}: contains values of {found.algorithm}, not of {card.name}; name another "
            "file"
        )
    resolve_tuned(path, found, card)
    return found.environments


def add_tuned(path: Path, card: AlgorithmCard, found: dict[str, TunedValues]) -> None:
    """Writes tuned values; those of other environments in the file stay.

    Args:
        path: The file, created if missing and written atomically.
        card: Card of the algorithm, which checks all values.
        found: Tuned values by environment id.

    Raises:
        InputError: The file has other content, or cannot be written.
    """
    environments = {**_existing(path, card), **found}
    document = TunedCard(schema_version=1, algorithm=card.name, environments=environments)
    resolve_tuned(path, document, card)
    try:
        atomic_write_text(path, _as_yaml(document))
    except OSError as error:
        raise InputError(f"--to {path}: cannot be written ({error.strerror})") from error


def _as_yaml(document: TunedCard) -> str:
    plain: dict[str, Any] = document.model_dump(mode="json", exclude_unset=True)
    for values in plain["environments"].values():
        if values.get("tuning") is None:
            values.pop("tuning", None)
    text: str = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100)
    return text
