"""Short jobs share a task; long ones have their own."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from imitbench.executors.slurm.executor import pack_tasks

JOBS = [Path(f"{number}.json") for number in range(6)]


def sizes(expected_s, **limits):
    tasks = pack_tasks(JOBS[: len(expected_s)], expected_s, **{"limit_s": 1e6, **limits})
    return [len(task) for task in tasks]


def test_short_jobs_are_packed_until_the_task_is_long_enough():
    assert sizes([10.0] * 6, least_s=25.0) == [3, 3]
    assert sizes([10.0] * 5, least_s=20.0) == [2, 2, 1]


def test_long_jobs_get_their_own_task():
    assert sizes([100.0, 5.0, 5.0, 100.0, 5.0], least_s=20.0) == [1, 3, 1]


def test_without_a_least_time_each_job_is_a_task():
    assert sizes([10.0] * 4, least_s=0.0) == [1, 1, 1, 1]


def test_jobs_of_unknown_length_are_a_task_each():
    assert pack_tasks(JOBS, [], least_s=100.0, limit_s=1e6) == [[job] for job in JOBS]


def test_a_pack_stays_well_below_the_time_limit():
    assert sizes([10.0] * 6, least_s=3600.0, limit_s=60.0) == [3, 3]


def test_workers_of_a_task_all_get_something():
    assert sizes([10.0] * 6, least_s=20.0, workers=2) == [4, 2]
    assert sizes([500.0] * 6, least_s=20.0, workers=3) == [3, 3]


@given(
    st.lists(st.floats(0.1, 1000.0), max_size=40), st.floats(0.0, 2000.0), st.integers(1, 5)
)  # fmt: skip
def test_every_job_is_packed_once_and_in_order(expected_s, least_s, workers):
    jobs = [Path(f"{number}.json") for number in range(len(expected_s))]
    tasks = pack_tasks(jobs, expected_s, least_s=least_s, limit_s=1e6, workers=workers)
    assert [job for task in tasks for job in task] == jobs
    assert all(tasks)
