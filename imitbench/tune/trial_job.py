"""The job of a trial: runs of one setting, and how they are watched."""

from __future__ import annotations

from pydantic import Field

from imitbench.bench.job import Job, JobWorker
from imitbench.store.records import Record
from imitbench.tune.objectives import ObjectiveName
from imitbench.tune.storage import StudyAddress


class TrialAddress(Record):
    """A trial of a study.

    Attributes:
        study: Where the study is.
        id: Number of the trial among all trials of the storage, as Optuna counts them.
        prune: Whether it is given up where it does worse than the median of those before.
    """

    study: StudyAddress
    id: int
    prune: bool = True


class Watch(Record):
    """How runs are watched.

    Attributes:
        objective: What is measured.
        points: Where in the course of the budget: at each of so many equal parts.
        episodes: How many episodes a measurement takes, where it takes any.
        trial: Who is told; `None` where only the end counts.
        before: The objective of the trial's runs on environments that came before.
    """

    objective: ObjectiveName
    points: int = Field(ge=1)
    episodes: int = Field(ge=1)
    trial: TrialAddress | None = None
    before: list[float] = Field(default_factory=list)


class TrialJob(Job):
    """What a worker of tuning is told: its runs are done one after the other.

    Attributes:
        watch: How they are watched; not at all if `None`.
    """

    watch: Watch | None = None


TRIAL_WORKER = JobWorker("imitbench.tune.worker", TrialJob)
