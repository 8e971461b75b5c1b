"""Tells a study how a trial does, and asks it whether to go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from imitbench.tune.storage import STUDY_NAME, opened
from imitbench.tune.trial_job import TrialAddress

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

PRUNED = "pruned"
"""Attribute of a trial that was given up: the step."""

STARTUP_TRIALS = 5
"""Complete trials without which none is given up."""


class TrialPrunedError(Exception):
    """Ends a run whose trial is given up."""


class Reporter:
    """Speaks for one trial that is running.

    Args:
        storage: The storage of its study.
        trial: The trial.
    """

    def __init__(self, storage: BaseStorage, trial: TrialAddress) -> None:
        self._storage = storage
        self._trial = trial

    @property
    def is_pruned(self) -> bool:
        """Whether the trial was given up."""
        return PRUNED in self._storage.get_trial_user_attrs(self._trial.id)

    def report(self, step: int, value: float) -> None:
        """Tells a value, unless an earlier attempt has told it.

        Raises:
            TrialPrunedError: The trial is given up.
        """
        if step not in self._storage.get_trial(self._trial.id).intermediate_values:
            self._storage.set_trial_intermediate_value(self._trial.id, step, value)
        if self._trial.prune and self._is_worse():
            self._storage.set_trial_user_attr(self._trial.id, PRUNED, step)
            raise TrialPrunedError(f"worse than the median of the trials before at step {step}")

    def _is_worse(self) -> bool:
        import optuna

        study = optuna.load_study(
            study_name=STUDY_NAME, storage=self._storage, sampler=optuna.samplers.RandomSampler()
        )
        pruner = optuna.pruners.MedianPruner(n_startup_trials=STARTUP_TRIALS)
        return pruner.prune(study, self._storage.get_trial(self._trial.id))


@contextmanager
def reporting(trial: TrialAddress | None) -> Iterator[Reporter | None]:
    """Within it, a trial can be reported on; nothing is there to report on without one."""
    if trial is None:
        yield None
        return
    with opened(trial.study) as storage:
        yield Reporter(storage, trial)
