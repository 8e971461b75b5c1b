"""A study: its trials on disk, each proposed once and completed once.

A proposal depends only on the seed, the trial's number and the trials known by then. So an
interrupted search with one job at a time continues as if uninterrupted.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import optuna
from optuna.distributions import BaseDistribution
from optuna.storages import BaseStorage
from optuna.trial import TrialState

from imitbench.bench.seeding import derive_seed
from imitbench.cards.algorithm import Scalar
from imitbench.tune.storage import STUDY_NAME, StudyLocation, open_storage
from imitbench.tune.trial_job import PRUNED

State = Literal["running", "complete", "pruned", "failed"]
_STATES: dict[TrialState, State] = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
}
_WITH_VALUE = (TrialState.COMPLETE, TrialState.PRUNED)
_VALUES, _FAILURE = "values", "failure"


@dataclass(frozen=True)
class Trial:
    """One setting of the search.

    Attributes:
        number: Number of the trial; 0 is the default setting.
        id: Number in the storage.
        state: Its state or outcome.
        values: Values of the searched hyper-parameters.
        value: The objective of a complete trial; the last reported value of a pruned one.
        pruned_at: Step at which it was pruned.
        failure: Error message of a failed trial.
    """

    number: int
    id: int
    state: State
    values: dict[str, Scalar]
    value: float | None = None
    pruned_at: int | None = None
    failure: str | None = None


class TrialStudy:
    """The trials of one algorithm on one environment.

    Args:
        storage: Storage of the study.
        space: Distributions of the values.
        defaults: Values of the first trial.
        seed: Seed of the sampler.
    """

    def __init__(
        self,
        storage: BaseStorage,
        space: Mapping[str, BaseDistribution],
        defaults: Mapping[str, Scalar],
        seed: int,
    ) -> None:
        self._storage = storage
        self._space = dict(space)
        self._defaults = dict(defaults)
        self._seed = seed
        self._study = _study(storage)

    @property
    def trials(self) -> list[Trial]:
        """All trials, by number."""
        return _trials(self._study)

    def propose(self) -> Trial:
        """Starts a trial, and writes it atomically."""
        number = len(self._study.get_trials(deepcopy=False))
        params = self._defaults if number == 0 else self._draw(number)
        with _without_warnings():
            self._study.add_trial(
                optuna.trial.create_trial(
                    state=TrialState.RUNNING,
                    params=params,
                    distributions=self._space,
                    user_attrs={_VALUES: params},
                )
            )
        return self.trials[number]

    def complete(self, trial: Trial, value: float) -> None:
        """Records the objective of a trial whose runs are completed."""
        if math.isfinite(value):
            self._study.tell(trial.number, value)
        else:
            self.fail(trial, "the objective is not finite")

    def prune(self, trial: Trial) -> None:
        """Records that a trial was pruned, with its last reported value."""
        self._study.tell(trial.number, state=TrialState.PRUNED)

    def fail(self, trial: Trial, why: str) -> None:
        """Records that a run of a trial failed."""
        self._storage.set_trial_user_attr(trial.id, _FAILURE, why)
        self._study.tell(trial.number, state=TrialState.FAIL)

    def _draw(self, number: int) -> dict[str, Any]:
        """Draws values, in memory, given the trials on disk."""
        seed = derive_seed(self._seed, f"trial {number}")
        with _without_warnings():
            study = optuna.create_study(
                direction="maximize",
                sampler=optuna.samplers.TPESampler(seed=seed, constant_liar=True),
            )
            study.add_trials(self._study.get_trials(deepcopy=False))
            return study.ask(self._space).params


def _study(storage: BaseStorage) -> optuna.Study:
    # This sampler is never used; `_draw` proposes trials.
    return optuna.create_study(
        storage=storage,
        study_name=STUDY_NAME,
        direction="maximize",
        sampler=optuna.samplers.RandomSampler(),
        load_if_exists=True,
    )


def _trials(study: optuna.Study) -> list[Trial]:
    return [
        Trial(
            number=found.number,
            id=found._trial_id,
            state=_STATES.get(found.state, "running"),
            values=dict(found.user_attrs[_VALUES]),
            value=found.value if found.state in _WITH_VALUE else None,
            pruned_at=found.user_attrs.get(PRUNED),
            failure=found.user_attrs.get(_FAILURE),
        )
        for found in study.get_trials(deepcopy=False)
    ]


@contextmanager
def _without_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def read_trials(address: StudyLocation) -> Sequence[Trial]:
    """Reads the trials of a study from disk."""
    with open_storage(address) as storage:
        return _trials(_study(storage))
