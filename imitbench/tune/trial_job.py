"""The job of a trial: runs of one setting, how they are measured, and when they are pruned."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pydantic import Field

from imitbench.bench.job import Job
from imitbench.bench.worker_death import JobWorker
from imitbench.records.runs import Record
from imitbench.tune.objectives import ObjectiveName
from imitbench.tune.storage import STUDY_NAME, StudyLocation, open_storage

if TYPE_CHECKING:
    from optuna.storages import BaseStorage


class TrialLocation(Record):
    """A trial of a study.

    Attributes:
        study: Location of the study.
        id: Number of the trial in the storage.
        prune: Whether to prune it if it is worse than the median of earlier trials.
    """

    study: StudyLocation
    id: int
    prune: bool = True


class TrackingSettings(Record):
    """How runs are measured during training.

    Attributes:
        objective: Name of the objective.
        points: Number of equal parts of the budget, after each of which it is measured.
        episodes: Episodes of a measurement, if it needs any.
        trial: Trial to report to; `None` if only the end counts.
        before: The objective of the trial's runs on earlier environments.
    """

    objective: ObjectiveName
    points: int = Field(ge=1)
    episodes: int = Field(ge=1)
    trial: TrialLocation | None = None
    before: list[float] = Field(default_factory=list)


class TrialJob(Job):
    """The job of a tuning worker; its runs are sequential.

    Attributes:
        watch: How runs are measured; not at all if `None`.
    """

    watch: TrackingSettings | None = None


TRIAL_WORKER = JobWorker("imitbench.tune.worker", TrialJob)

PRUNED = "pruned"
"""Attribute of a pruned trial, which has the step at which it was pruned."""

STARTUP_TRIALS = 5
"""Number of complete trials before any is pruned."""


class TrialPrunedError(Exception):
    """Ends a run whose trial is pruned."""


class TrialReporter:
    """Reports the values of one running trial.

    Args:
        storage: Storage of the study.
        trial: Location of the trial.
    """

    def __init__(self, storage: BaseStorage, trial: TrialLocation) -> None:
        self._storage = storage
        self._trial = trial

    @property
    def is_pruned(self) -> bool:
        """Whether the trial was pruned."""
        return PRUNED in self._storage.get_trial_user_attrs(self._trial.id)

    def report(self, step: int, value: float) -> None:
        """Reports a value, unless an earlier attempt reported that step.

        Raises:
            TrialPrunedError: The trial is pruned.
        """
        if step not in self._storage.get_trial(self._trial.id).intermediate_values:
            self._storage.set_trial_intermediate_value(self._trial.id, step, value)
        if self._trial.prune and self._is_worse():
            self._storage.set_trial_user_attr(self._trial.id, PRUNED, step)
            raise TrialPrunedError(f"worse than the median of earlier trials at step {step}")

    def _is_worse(self) -> bool:
        import optuna

        study = optuna.load_study(
            study_name=STUDY_NAME, storage=self._storage, sampler=optuna.samplers.RandomSampler()
        )
        pruner = optuna.pruners.MedianPruner(n_startup_trials=STARTUP_TRIALS)
        # Optuna takes the best value so far, and a mean falls with every hard seed or environment.
        now = copy.copy(self._storage.get_trial(self._trial.id))
        assert now.last_step is not None, "a value was reported"
        now.intermediate_values = {now.last_step: now.intermediate_values[now.last_step]}
        return pruner.prune(study, now)


@contextmanager
def trial_reporter(trial: TrialLocation | None) -> Iterator[TrialReporter | None]:
    """Yields a reporter of a trial; `None` without a trial."""
    if trial is None:
        yield None
        return
    with open_storage(trial.study) as storage:
        yield TrialReporter(storage, trial)
