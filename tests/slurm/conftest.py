"""A real cluster of one node, which the tests of this folder have for themselves."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from support.command import call_imitbench

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "slurm" / "dev-cluster.sh"
# A process that is gone for good is noticed soon, and no test waits for the scheduler.
SETTINGS = ["SlurmdTimeout=5", "KillWait=5", "SchedulerParameters=sched_interval=1"]
PATIENCE_S = 120.0


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slurm)


class Cluster:
    """Starts, stops and disturbs the cluster."""

    def start(self, *settings):
        names = {setting.partition("=")[0] for setting in settings}
        default = [each for each in SETTINGS if each.partition("=")[0] not in names]
        subprocess.run([SCRIPT, "start", *default, *settings], check=True, stdout=subprocess.PIPE)

    def stop(self):
        subprocess.run([SCRIPT, "stop"], check=True, stdout=subprocess.PIPE)

    def queue(self):
        """State and number of restarts of each job in the queue, by its id."""
        answer = subprocess.run(
            ["squeue", "--noheader", "--array", "--format=%i|%T"],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        return dict(line.split("|") for line in answer.splitlines())

    def release(self):
        """Lets jobs that were put back start at once: SLURM makes them wait for two minutes."""
        for job, state in self.queue().items():
            if state == "PENDING":
                subprocess.run(
                    ["scontrol", "update", f"JobId={job}", "StartTime=now"],
                    check=False, capture_output=True,
                )  # fmt: skip

    def wait_until_empty(self):
        wait_for(lambda: self.release() or not self.queue(), "the queue to become empty")


def wait_for(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {PATIENCE_S:.0f} s for {what}"
        time.sleep(0.2)


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
    subprocess.run(["scancel", "--user=root"], check=True)
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
