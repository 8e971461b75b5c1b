"""The sentences by which this project is known, at full size."""

import csv
import io
import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.slow

COMMAND = [
    sys.executable, "-m", "imitbench", "run", "--algo", "bc", "--suite", "classic",
    "--seeds", "3", "--jobs", "2", "--json", "--quiet",
]  # fmt: skip


def run(folder):
    done = subprocess.run(COMMAND, cwd=folder, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def numbers(document):
    names = ("run_id", "raw_return", "score", "score_deterministic", "mean_length")
    return sorted(tuple(row[name] for name in names) for row in document["scores"])


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninterrupted")
    return folder, run(folder)


def test_behavioral_cloning_reaches_the_expert_on_classic(uninterrupted):
    folder, document = uninterrupted
    assert document["done"] == 9
    table = subprocess.run(
        [sys.executable, "-m", "imitbench", "report", "--format", "csv"],
        cwd=folder, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    [row] = [
        row
        for row in csv.DictReader(io.StringIO(table))
        if (row["row"], row["algorithm"]) == ("aggregate", "bc")
    ]
    assert float(row["score_iqm"]) >= 0.9


def test_doing_it_again_does_nothing(uninterrupted):
    folder, document = uninterrupted
    again = run(folder)
    assert (again["done"], again["already_done"]) == (0, 9)
    assert numbers(again) == numbers(document)


@pytest.mark.parametrize("seed", range(4))
def test_killed_at_a_random_moment_it_completes_with_the_same_numbers(
    tmp_path, uninterrupted, seed
):
    moment = random.Random(seed).uniform(0.5, 15)
    victim = subprocess.Popen(
        COMMAND, cwd=tmp_path, stdout=subprocess.DEVNULL, start_new_session=True
    )
    time.sleep(moment)
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    document = run(tmp_path)
    assert document["done"] + document["already_done"] == 9
    assert numbers(document) == numbers(uninterrupted[1])
    assert len(list(tmp_path.glob("runs/*/*/*/*/result.json"))) == 9
