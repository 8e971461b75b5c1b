"""What was handed to the scheduler: a file per submission, written before the scheduler knows.

Arrays are found again by their names, so that even a submission that was cut short can be
followed and cancelled.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from imitbench.executors.slurm.queue import QueuedTask, cancel_arrays, queued_tasks
from imitbench.util.files import atomic_write_text

SLURM_FOLDER = ".slurm"
_FILE = "submission.json"


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class TaskArray(_Document):
    """A job array.

    Attributes:
        name: Name of the job, unlike any other.
        tasks: Job files of each task, in the order of the array's indices.
    """

    name: str = Field(pattern=r"^imitbench-[0-9a-f]{10}-\d+$")
    tasks: list[list[str]]


class Submission(_Document):
    """Arrays that were submitted together.

    Attributes:
        id: Name of its folder.
        arrays: What was submitted, or was about to be.
    """

    schema_version: Literal[1] = 1
    id: str = Field(pattern=r"^[0-9a-f]{10}$")
    arrays: list[TaskArray]

    @classmethod
    def of(cls, tasks: Sequence[Sequence[Path]], array_size: int) -> Submission:
        """Divides tasks into arrays.

        Args:
            tasks: Job files of each task.
            array_size: Most tasks of an array.
        """
        own_id = uuid.uuid4().hex[:10]
        named = [[str(job) for job in task] for task in tasks]
        starts = range(0, len(named), array_size)
        return cls(
            id=own_id,
            arrays=[
                TaskArray(
                    name=f"imitbench-{own_id}-{number}", tasks=named[start : start + array_size]
                )
                for number, start in enumerate(starts)
            ],
        )

    @property
    def names(self) -> list[str]:
        """Names of the arrays."""
        return [array.name for array in self.arrays]

    def folder(self, out: Path) -> Path:
        """Where its file and the scheduler's logs are, below the results folder."""
        return out / SLURM_FOLDER / self.id

    def write(self, out: Path) -> None:
        """Writes it down.

        Raises:
            OSError: It cannot be written.
        """
        atomic_write_text(self.folder(out) / _FILE, self.model_dump_json(indent=1) + "\n")

    def jobs_from(self, number: int) -> list[Path]:
        """Job files of the arrays from this one on."""
        return [Path(job) for array in self.arrays[number:] for task in array.tasks for job in task]

    def open_jobs(self) -> dict[tuple[str, int], list[Path]]:
        """Job files that are still there, for these are not done, by array and index."""
        found = {}
        for array in self.arrays:
            for index, task in enumerate(array.tasks):
                if jobs := [path for path in map(Path, task) if path.exists()]:
                    found[array.name, index] = jobs
        return found


@dataclass(frozen=True)
class OpenTask:
    """A task with jobs that are not done.

    Attributes:
        array: Name of its array.
        index: Its index there.
        jobs: Those jobs.
        queued: What the scheduler says; `None` if it has forgotten the task.
    """

    array: str
    index: int
    jobs: list[Path]
    queued: QueuedTask | None


def read_submissions(out: Path) -> Iterator[Submission]:
    """Reads every submission of a results folder; files that are none are passed over."""
    for path in sorted((out / SLURM_FOLDER).glob(f"*/{_FILE}")):
        try:
            yield Submission.model_validate_json(path.read_bytes())
        except (OSError, ValidationError):
            continue


def open_tasks(submissions: Iterable[Submission]) -> list[OpenTask]:
    """Tasks that are not done, and what the scheduler says of them.

    Raises:
        SchedulerError: The scheduler does not answer.
    """
    waiting = {
        (name, index): jobs
        for submission in submissions
        for (name, index), jobs in submission.open_jobs().items()
    }
    names = list(dict.fromkeys(name for name, _ in waiting))
    queued = {(task.array, task.index): task for task in queued_tasks(names)}
    return [
        OpenTask(name, index, jobs, queued.get((name, index)))
        for (name, index), jobs in waiting.items()
    ]


def cancel_submissions(submissions: Iterable[Submission]) -> int:
    """Takes submissions out of the queue; their runs keep their checkpoints.

    Returns:
        Number of tasks that were waiting or running.

    Raises:
        SchedulerError: The scheduler does not answer; nothing was cancelled.
    """
    queued = [task for task in open_tasks(submissions) if task.queued is not None]
    for task in queued:
        for job in task.jobs:
            job.unlink(missing_ok=True)  # else the task would put itself into the queue again
    cancel_arrays(list(dict.fromkeys(task.array for task in queued)))
    return len(queued)
