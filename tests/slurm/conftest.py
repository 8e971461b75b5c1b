"""A real cluster of one node, which the tests of this folder have for themselves."""

import json
import os
import shutil
from pathlib import Path

import pytest
from support.command import call_imitbench
from support.slurm import Cluster, tell, wait_for

FOLDER = f"{Path(__file__).parent}/"


def pytest_collection_modifyitems(items):
    for item in items:
        if str(item.path).startswith(FOLDER):
            item.add_marker(pytest.mark.slurm)


@pytest.fixture(scope="session")
def whole_cluster():
    packaged = all(map(shutil.which, ("slurmctld", "slurmd", "sbatch", "munged")))
    if os.geteuid() != 0 or not (packaged or shutil.which("apt-get")):
        pytest.skip("SLURM is not installed here, and cannot be: see slurm/README.md")
    cluster = Cluster()
    cluster.stop()
    cluster.start()
    yield cluster
    cluster.stop()


@pytest.fixture
def cluster(whole_cluster):
    yield whole_cluster
    tell("scancel", "--user=root")
    wait_for(lambda: not whole_cluster.queue(), "the queue to become empty")


@pytest.fixture
def profile(tmp_path):
    path = tmp_path / "profile.yaml"
    path.write_text("time: '1:00:00'\nmem: 1500M\nenvironment: {OMP_NUM_THREADS: '1'}\n")
    return path


@pytest.fixture
def imitbench(tmp_path):
    def call(*arguments):
        return call_imitbench(*arguments, cwd=tmp_path)

    return call


@pytest.fixture
def submit(imitbench, profile):
    """`imitbench run` on the cluster, one run a task."""

    def call(*arguments):
        return imitbench(
            "run", *arguments, "--executor", "slurm", "--profile", profile,
            "--min-task-minutes", "0",
        )  # fmt: skip

    return call


@pytest.fixture
def scores(imitbench):
    """What must not depend on how a run came about, by algorithm, environment and seed."""

    def ask(out):
        query = (
            "select algo, env, seed, raw_return, score_deterministic, mean_length, env_steps "
            "from scores order by all"
        )
        answer = imitbench("sql", "--out", out, "--format", "json", query)
        return [tuple(row.values()) for row in json.loads(answer.out)]

    return ask
