"""A disk that fails: nothing is half true, one line says what happened, and going on is enough."""

import json
import shutil

import pytest
from support.disk_works import WORKS, check, expected_results, trial
from support.failing_disk import run_with_library
from support.small_disk import room, small_disk

from imitbench.util.torch_startup import use_one_thread


@pytest.fixture
def trials(failing_disk, tmp_path):
    """What happens when a disk fails at some calls of a work."""

    def run(work, *failures, first, step):
        arguments = (work, tmp_path / "trials", first, step, *failures)
        printed = run_with_library(failing_disk, "support.disk_trials", *arguments)
        return [json.loads(line) for line in printed.splitlines()]

    return run


# More calls than these a work does not have to put things on the disk.
CALLS = {"worker": 90, "sweep": 180, "collection": 20}


def check_all(records, least):
    assert len(records) >= least
    for record in records:
        check(record)
    # Most of the time something was lost, and said so.
    assert any(record["code"] == 2 or record["failures"] for record in records)


@pytest.mark.parametrize(
    ("work", "step", "failures"),
    [
        pytest.param("worker", 5, ["EIO-once"], marks=pytest.mark.slow),
        pytest.param("sweep", 15, ["ENOSPC-stays"], marks=pytest.mark.slow),
        ("collection", 10, ["EIO-once", "ENOSPC-stays"]),
    ],
)
def test_whichever_call_fails_going_on_gives_the_same(trials, work, step, failures):
    records = trials(work, *failures, first=1, step=step)
    for failure in failures:
        tried = [record for record in records if record["failure"] == failure]
        check_all(tried, CALLS[work] // step)


@pytest.fixture
def disk(tmp_path):
    use_one_thread()
    with small_disk(tmp_path / "disk", "64m"):
        yield tmp_path / "disk"


def fill(disk, name, sizes):
    """Does a work with ever more room; returns what happened by the room there was."""
    work = WORKS[name]()
    expected = expected_results(work, disk / name / "whole")
    records = []
    for size in sizes:
        out = disk / name / str(size)
        records.append(trial(work, out, room(disk, size), expected))
        shutil.rmtree(out)
    return records


def check_until_it_fits(records):
    for record in records:
        check(record)
    assert records[0]["code"] == 2
    assert records[-1]["code"] == 0


def test_a_disk_that_is_full_sooner_or_later_is_enough_once_there_is_room(disk):
    records = fill(disk, "sweep", range(0, 200_000, 38_000))
    check_until_it_fits(records)
    # Somewhere between, there was room for the failure but not for the result.
    assert any(record["code"] == 1 and record["failures"] for record in records)


def test_a_database_that_does_not_fit_leaves_the_old_one(disk):
    check_until_it_fits(fill(disk, "collection", range(0, 8_000_000, 3_500_000)))
