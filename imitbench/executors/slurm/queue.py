"""The scheduler's queue, by SLURM's commands, and the submissions to it.

Each submission has a file, which is written before the scheduler is called. Arrays are found by
their names, so that even an interrupted submission can be followed and cancelled.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from imitbench.errors import InputError
from imitbench.executors.slurm import SLURM_FOLDER
from imitbench.records.runs import Record
from imitbench.untrusted.files import read_content
from imitbench.util.files import atomic_write_text

_TIMEOUT_S = 60.0
_DEFAULT_MAX_ARRAY = 1001  # SLURM's own default


class SchedulerError(InputError):
    """A SLURM command failed; the message has its output."""


def is_available() -> bool:
    """Whether SLURM's commands are on the path."""
    return all(shutil.which(command) for command in ("sbatch", "squeue", "scancel", "scontrol"))


def require_slurm() -> None:
    """Checks that this machine can access a cluster.

    Raises:
        InputError: A SLURM command is missing.
    """
    if not is_available():
        raise InputError(
            "SLURM: sbatch, squeue, scancel and scontrol are not on the path; do this "
            "on a login node of the cluster, or try `slurm/dev-cluster.sh start`"
        )


def task_states(arrays: Sequence[str]) -> dict[tuple[str, int], str]:
    """Returns the states of the tasks of arrays that are in the queue: `PENDING`, `RUNNING` etc.

    Args:
        arrays: Names of job arrays.

    Returns:
        States by name of the array and index of the task.

    Raises:
        SchedulerError: The scheduler does not answer.
    """
    if not arrays:
        return {}
    answer = _run(
        "squeue", "--noheader", "--array", f"--name={','.join(arrays)}", "--format=%j|%K|%T"
    )
    states = {}
    for line in answer.splitlines():
        name, index, state = line.strip().split("|")
        # A job that is not an array has no index.
        states[name, int(index) if index.isdecimal() else 0] = state
    return states


def cancel_arrays(arrays: Sequence[str]) -> None:
    """Removes arrays from the queue; running tasks receive SIGTERM and are killed later.

    Raises:
        SchedulerError: The scheduler does not answer.
    """
    if arrays:
        _run("scancel", f"--name={','.join(arrays)}")


def requeue(job_id: str) -> None:
    """Requeues a running job, but not a job that was cancelled or preempted.

    Raises:
        SchedulerError: The job is not running, or the scheduler does not answer or refuses.
    """
    state = _run("squeue", "--noheader", f"--jobs={job_id}", "--format=%T").strip()
    if state == "RUNNING":
        _run("scontrol", "requeue", job_id)
    else:
        raise SchedulerError(f"job {job_id} is {state.lower() or 'gone'}")


def max_array_size() -> int:
    """Returns the maximum number of tasks in an array.

    Raises:
        SchedulerError: The scheduler does not answer.
    """
    match = re.search(r"^MaxArraySize\s*=\s*(\d+)", _run("scontrol", "show", "config"), re.M)
    return int(match[1]) if match else _DEFAULT_MAX_ARRAY


def _run(*command: str) -> str:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",  # a cluster's settings may be in another encoding
            timeout=_TIMEOUT_S,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        words = " ".join(error.stderr.split()) or f"exit code {error.returncode}"
        raise SchedulerError(f"{command[0]}: {words}") from error
    except subprocess.TimeoutExpired as error:
        raise SchedulerError(f"{command[0]}: no answer within {_TIMEOUT_S:.0f} s") from error
    except OSError as error:
        raise SchedulerError(f"{command[0]}: {error.strerror}") from error
    return done.stdout


_FILE = "submission.json"
_UNNAMED = re.compile(r"[0-9a-f]{32}\.pkl")
"""A task's content as submitit writes it, before it gets the job's id."""


class TaskArray(Record):
    """A job array.

    Attributes:
        name: Unique name of the job.
        tasks: Job files of each task, in the order of the array's indices.
    """

    name: str = Field(pattern=r"^imitbench-[0-9a-f]{10}-\d+$")
    tasks: list[list[str]]


class SlurmSubmission(Record):
    """Arrays that were submitted together.

    Attributes:
        id: Random id, which is also the name of its folder.
        arrays: Arrays that were submitted, or were about to be.
    """

    schema_version: Literal[1] = 1
    id: str = Field(pattern=r"^[0-9a-f]{10}$")
    arrays: list[TaskArray]

    @classmethod
    def of(cls, tasks: Sequence[Sequence[Path]], array_size: int) -> SlurmSubmission:
        """Divides tasks into arrays.

        Args:
            tasks: Job files of each task.
            array_size: Maximum number of tasks in an array.
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
        """Returns the folder of its file and of the scheduler's logs."""
        return out / SLURM_FOLDER / self.id

    def logs(self, out: Path, number: int) -> Path:
        """Returns the folder of the scheduler's logs of one of its arrays."""
        return self.folder(out) / str(number)

    def unserved(self, out: Path) -> SlurmSubmission:
        """Returns the part whose tasks have nothing to run.

        submitit names the content of tasks by the job's id, so only after `sbatch` has answered.
        Tasks of a submitter that died in between wait for it, then fail.

        Args:
            out: Results folder.

        Returns:
            The submission with these arrays only; often none.
        """
        arrays = [
            array
            for number, array in enumerate(self.arrays)
            if any(_UNNAMED.fullmatch(file.name) for file in self.logs(out, number).glob("*.pkl"))
        ]
        return self.model_copy(update={"arrays": arrays})

    def write(self, out: Path) -> None:
        """Writes the submission's file.

        Raises:
            OSError: The file cannot be written.
        """
        atomic_write_text(self.folder(out) / _FILE, self.model_dump_json(indent=1) + "\n")

    def jobs_from(self, number: int) -> list[Path]:
        """Returns the job files of array `number` and all later arrays."""
        return [Path(job) for array in self.arrays[number:] for task in array.tasks for job in task]


@dataclass(frozen=True)
class OpenTask:
    """A task with unfinished jobs.

    Attributes:
        array: Name of its array.
        jobs: Paths of the unfinished job files.
        state: State in the queue; `None` if the scheduler no longer knows the task.
    """

    array: str
    jobs: list[Path]
    state: str | None


def read_submissions(out: Path) -> Iterator[SlurmSubmission]:
    """Reads every submission of a results folder; skips malformed files."""
    for path in sorted((out / SLURM_FOLDER).glob(f"*/{_FILE}")):
        try:
            yield SlurmSubmission.model_validate_json(read_content(path))
        except (InputError, OSError, ValidationError):
            continue


def open_tasks(submissions: Iterable[SlurmSubmission]) -> list[OpenTask]:
    """Returns unfinished tasks with their states in the queue.

    Raises:
        SchedulerError: The scheduler does not answer.
    """
    arrays = [array for submission in submissions for array in submission.arrays]
    left = existing(Path(job) for array in arrays for task in array.tasks for job in task)
    waiting = {
        (array.name, index): jobs
        for array in arrays
        for index, task in enumerate(array.tasks)
        if (jobs := [path for path in map(Path, task) if path in left])
    }
    names = list(dict.fromkeys(name for name, _ in waiting))
    states = task_states(names)
    return [
        OpenTask(name, jobs, states.get((name, index))) for (name, index), jobs in waiting.items()
    ]


def existing(jobs: Iterable[Path]) -> set[Path]:
    """Returns the job files that exist because they are unfinished; lists each folder once."""
    found: set[Path] = set()
    by_folder: dict[Path, set[Path]] = {}
    for job in jobs:
        by_folder.setdefault(job.parent, set()).add(job)
    for folder, members in by_folder.items():
        with suppress(FileNotFoundError):
            found |= members & set(folder.iterdir())
    return found


def task_logs(out: Path, run_id: str) -> list[Path]:
    """Returns the scheduler's logs of tasks with a job for a run, oldest first."""
    found: list[Path] = []
    for submission in read_submissions(out):
        for number, array in enumerate(submission.arrays):
            for index, task in enumerate(array.tasks):
                if any(Path(job).name.startswith(f"{run_id}-") for job in task):
                    part = "" if len(array.tasks) == 1 else f"_{index}"
                    found += submission.logs(out, number).glob(f"*{part}_0_log.err")
    return sorted(found, key=lambda path: path.stat().st_mtime)


def queue_states(out: Path) -> Counter[str]:
    """Counts a results folder's tasks in the queue by state; empty without a scheduler.

    Raises:
        SchedulerError: The scheduler does not answer.
    """
    if not (out / SLURM_FOLDER).is_dir() or not is_available():
        return Counter()
    tasks = open_tasks(read_submissions(out))
    return Counter(task.state for task in tasks if task.state is not None)


def cancel_submissions(submissions: Iterable[SlurmSubmission]) -> int:
    """Removes submissions from the queue; their runs keep their checkpoints.

    Returns:
        Number of tasks that were waiting or running.

    Raises:
        SchedulerError: The scheduler does not answer; nothing was cancelled.
    """
    queued = [task for task in open_tasks(submissions) if task.state is not None]
    # A task that still finds its jobs would requeue itself.
    hidden = {job: job.with_name(f".{job.name}.cancelled") for task in queued for job in task.jobs}
    for job, away in hidden.items():
        with suppress(FileNotFoundError):
            job.rename(away)
    try:
        cancel_arrays(list(dict.fromkeys(task.array for task in queued)))
    except SchedulerError:
        for job, away in hidden.items():
            with suppress(FileNotFoundError):
                away.rename(job)
        raise
    for away in hidden.values():
        away.unlink(missing_ok=True)
    return len(queued)
