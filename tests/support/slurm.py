"""A real SLURM cluster of one node, and functions that wait for its events."""

import json
import subprocess
import time
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "slurm" / "dev-cluster.sh"
# A lost node is detected soon, and no test waits for the scheduler.
SETTINGS = ["SlurmdTimeout=5", "KillWait=5", "SchedulerParameters=sched_interval=1"]
PATIENCE_S = 400.0


class Cluster:
    """Starts, stops and monitors the cluster."""

    def start(self, *settings):
        subprocess.run([SCRIPT, "start", *SETTINGS, *settings], check=True, stdout=subprocess.PIPE)

    def stop(self):
        subprocess.run([SCRIPT, "stop"], check=True, stdout=subprocess.PIPE)

    def queue(self):
        """Returns the state of each job in the queue by id."""
        answer = tell("squeue", "--noheader", "--array", "--format=%i|%T")
        return dict(line.split("|") for line in answer.splitlines())

    def job(self):
        """Returns the id of the only job."""
        [job] = self.queue()
        return job

    def release(self):
        """Lets requeued jobs start soon; SLURM delays them by two minutes.

        It waits until the node has finished them, and a while longer: slurmctld 22.05 crashes if a
        job is started that is still completing.
        """
        if "idle" not in tell("sinfo", "--noheader", "--format=%T"):
            return
        time.sleep(3)
        for job, state in self.queue().items():
            if state == "PENDING":
                subprocess.run(
                    ["scontrol", "update", f"JobId={job}", "StartTime=now"], capture_output=True
                )

    def wait_until_empty(self):
        wait_for(lambda: self.release() or not self.queue(), "the queue to become empty")


def tell(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def wait_for(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {PATIENCE_S:.0f} s for {what}"
        time.sleep(0.2)


def wait_for_checkpoint(out):
    """Waits until a run has saved a checkpoint."""
    wait_for(lambda: [*Path(out).glob("*/*/*/*/checkpoint/*.state")], "a checkpoint")
    [status] = statuses(out)
    assert (status["state"], status["phase"]) == ("running", "train")


def statuses(out):
    return [json.loads(path.read_text()) for path in Path(out).glob("*/*/*/*/status.json")]


def logs(out):
    """Returns the output of a results folder's tasks on stderr."""
    return "".join(path.read_text() for path in sorted(Path(out).glob(".slurm/*/*/*.err")))
