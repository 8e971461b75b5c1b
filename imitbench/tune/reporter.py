"""Reports intermediate values of a trial, and prunes it if it is worse than others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from imitbench.tune.storage import STUDY_NAME, open_storage
from imitbench.tune.trial_job import TrialLocation

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

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
        return pruner.prune(study, self._storage.get_trial(self._trial.id))


@contextmanager
def trial_reporter(trial: TrialLocation | None) -> Iterator[TrialReporter | None]:
    """Yields a reporter of a trial; `None` without a trial."""
    if trial is None:
        yield None
        return
    with open_storage(trial.study) as storage:
        yield TrialReporter(storage, trial)
