"""Queries and changes the scheduler's queue with SLURM's commands."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from imitbench.errors import InputError

_TIMEOUT_S = 60.0
_DEFAULT_MAX_ARRAY = 1001  # SLURM's own default


class SchedulerError(InputError):
    """A SLURM command failed; the message has its output."""


@dataclass(frozen=True)
class QueuedTask:
    """A task that is waiting or running.

    Attributes:
        array: Name of its job array.
        index: Index of the task in the array.
        job_id: Id in SLURM, for example `1234_5`.
        state: `PENDING`, `RUNNING` and so on.
        reason: Why it waits, if it does.
    """

    array: str
    index: int
    job_id: str
    state: str
    reason: str


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


def queued_tasks(arrays: Sequence[str]) -> list[QueuedTask]:
    """Returns the tasks of arrays that are in the queue.

    Args:
        arrays: Names of job arrays.

    Raises:
        SchedulerError: The scheduler does not answer.
    """
    if not arrays:
        return []
    answer = _run(
        *("squeue", "--noheader", "--array", f"--name={','.join(arrays)}"),
        "--format=%j|%F|%K|%T|%r",
    )
    tasks = []
    for line in answer.splitlines():
        name, job, index, state, reason = line.strip().split("|", 4)
        # A job that is not an array has no index.
        alone = not index.isdecimal()
        job_id = job if alone else f"{job}_{index}"
        tasks.append(QueuedTask(name, 0 if alone else int(index), job_id, state, reason))
    return tasks


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
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True
        )
    except subprocess.CalledProcessError as error:
        words = " ".join(error.stderr.split()) or f"exit code {error.returncode}"
        raise SchedulerError(f"{command[0]}: {words}") from error
    except subprocess.TimeoutExpired as error:
        raise SchedulerError(f"{command[0]}: no answer within {_TIMEOUT_S:.0f} s") from error
    except OSError as error:
        raise SchedulerError(f"{command[0]}: {error.strerror}") from error
    return done.stdout
