"""A tuning on a real cluster: trials are tasks, which outlive the command and are taken over."""

import json
import subprocess
import sys

from support.command import call_imitbench
from support.slurm import wait_for

TUNING = (
    "tune", "--algo", "bc", "--env", "Pendulum-v1", "--budget", "quick", "--set", "hidden_layers=1",
    "--trials", "3", "--search-seeds", "100", "--held-out-seeds", "200", "--best", "1",
    "--executor", "slurm", "--jobs", "2",
)  # fmt: skip


def test_a_tuning_whose_command_is_killed_takes_its_tasks_over(cluster, profile, tmp_path):
    command = [*TUNING, "--profile", str(profile)]
    killed = subprocess.Popen(
        [sys.executable, "-m", "imitbench", *command],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    wait_for(lambda: len(cluster.queue()) == 2, "two tasks in the queue")
    killed.kill()
    killed.communicate()
    answer = call_imitbench(*command, "--json", cwd=tmp_path)
    assert answer.code == 0, answer.err
    [study] = json.loads(answer.out)["studies"]
    assert [each["state"] for each in study["trials"]] == ["complete"] * 3
    assert len(study["held_out"]["candidates"]) == 2
    folder = tmp_path / "runs" / ".tuning" / "bc-classic-quick"
    assert (folder / "Pendulum-v1" / "study.journal").is_file()
    assert len(list(folder.glob(".slurm/*/submission.json"))) == 3 + 2
    wait_for(lambda: not cluster.queue(), "the queue to become empty")
