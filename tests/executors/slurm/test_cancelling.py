"""Cancelled tasks lose their job files, unless the scheduler refuses, in whatever words."""

import os

import pytest

from imitbench.executors.slurm.queue import (
    SchedulerError,
    SlurmSubmission,
    cancel_submissions,
    max_array_size,
)


@pytest.fixture
def submission(tmp_path):
    jobs = [tmp_path / f"{number}.json" for number in range(2)]
    for job in jobs:
        job.write_text("{}")
    return SlurmSubmission.of([jobs], 10)


@pytest.fixture
def scheduler(tmp_path, monkeypatch, submission):
    """Returns a function that puts a scheduler onto the path, whose `scancel` ends with a code."""
    commands = tmp_path / "bin"
    commands.mkdir()
    monkeypatch.setenv("PATH", str(commands), prepend=os.pathsep)

    def install(code):
        for name, script in (
            ("squeue", f"echo '{submission.names[0]}|0|PENDING'"),
            ("scancel", f"echo refused >&2; exit {code}"),
        ):
            (commands / name).write_text(f"#!/bin/sh\n{script}\n")
            (commands / name).chmod(0o755)

    return install


def test_cancelled_tasks_do_not_find_their_jobs(scheduler, submission):
    scheduler(0)
    assert cancel_submissions([submission]) == 1
    assert not [job for job in submission.jobs_from(0) if job.exists()]
    assert cancel_submissions([submission]) == 0


def test_jobs_stay_if_the_scheduler_refuses(scheduler, submission, tmp_path):
    scheduler(1)
    with pytest.raises(SchedulerError, match="scancel: refused"):
        cancel_submissions([submission])
    assert all(job.read_text() == "{}" for job in submission.jobs_from(0))
    assert len(list(tmp_path.iterdir())) == 3  # two jobs and the commands


def test_the_scheduler_may_write_in_another_encoding(tmp_path, monkeypatch):
    command = tmp_path / "scontrol"
    command.write_bytes(b"#!/bin/sh\nprintf 'Comment = caf\\351\\nMaxArraySize = 77\\n'\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert max_array_size() == 77
    command.write_bytes(b"#!/bin/sh\nprintf 'refus\\351' >&2; exit 1\n")
    with pytest.raises(SchedulerError, match="scontrol: refus"):
        max_array_size()
