"""The job of a trial: runs of one setting, and how they are measured."""

from __future__ import annotations

from pydantic import Field

from imitbench.bench.job import Job
from imitbench.bench.worker_death import JobWorker
from imitbench.records.runs import Record
from imitbench.tune.objectives import ObjectiveName
from imitbench.tune.storage import StudyLocation


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
