"""Sweeps on a real cluster: what is asked for is done once, and can be followed and stopped."""

import json
import signal
import subprocess
import sys

from support.command import refusal
from support.command_lines import with_options
from support.slurm import tell, wait_for, wait_for_checkpoint

SMALL = ("--algo", "bc", "--budget", "quick", "--set", "bc.hidden_size=8")
LONG = ("--algo", "bc", "--env", "Pendulum-v1", "--seeds", "1", "--budget", "full",
        "--checkpoint-minutes", "0.01")  # fmt: skip


def test_an_array_gives_the_numbers_of_a_local_sweep(cluster, submit, imitbench, scores):
    algos = [*SMALL, "--algo", "density", "--algo", "random"]
    sweep = [*algos, "--env", "seals/*", "--seeds", "3"]
    answer = submit(*sweep, "--wait", "--json")
    assert answer.code == 0, answer.err
    summary = json.loads(answer.out)
    assert (summary["done"], summary["queued"], summary["lost"]) == (18, 0, 0)
    assert imitbench("run", *sweep, "--out", "local", "--jobs", "2").code == 0
    assert scores("runs") == scores("local")
    assert not cluster.queue()


def test_detached_runs_are_followed_and_never_submitted_twice(cluster, submit, imitbench, tmp_path):
    answer = submit(*with_options(LONG, {"--seeds": "3"}), "--json")
    assert answer.code == 0, answer.err
    assert json.loads(answer.out)["queued"] == 3
    assert "imitbench status --watch" in answer.err
    assert len(cluster.queue()) == 3
    again = submit(*with_options(LONG, {"--seeds": "4"}), "--json")
    assert json.loads(again.out)["queued"] == 4
    assert len(cluster.queue()) == 4
    [cell] = json.loads(imitbench("status", "--json").out)
    assert cell["waiting"] + cell["running"] == 4


def test_rewards_are_measured_on_the_cluster(cluster, imitbench, profile, tmp_path):
    sweep = ("--algo", "random_reward", "--env", "Pendulum-v1", "--seeds", "2")
    assert imitbench("run", *sweep, "--budget", "quick", "--quiet").code == 0
    measure = ("rewards", "evaluate", "--json")
    there = imitbench(
        *measure, "--executor", "slurm", "--profile", profile, "--min-task-minutes", "0"
    )  # fmt: skip
    assert there.code == 0, there.err
    assert len(list(tmp_path.glob("runs/.measurements/.slurm/*/*/*_log.err"))) == 2
    here = imitbench(*measure, "--again")
    assert json.loads(there.out) == json.loads(here.out)
    assert not cluster.queue()


def test_cancelled_runs_keep_their_checkpoints(cluster, submit, imitbench, tmp_path, scores):
    submit(*LONG)
    wait_for_checkpoint(tmp_path / "runs")
    assert "1 task" in imitbench("cancel").err
    wait_for(lambda: not cluster.queue(), "the queue to become empty")
    [cell] = json.loads(imitbench("status", "--json").out)
    assert (cell["interrupted"], cell["running"]) == (1, 0)
    assert "no task of runs is in the queue" in imitbench("cancel").err
    finished = imitbench("run", *LONG)
    assert finished.code == 0
    [log] = tmp_path.glob("runs/*/*/*/*/log.txt")
    assert "resumed after" in log.read_text()
    assert imitbench("run", *LONG, "--out", "twin").code == 0
    assert scores("runs") == scores("twin")


def test_what_was_cancelled_is_resumed_on_the_cluster(cluster, submit, imitbench, profile):
    submit(*SMALL, "--env", "Pendulum-v1", "--seeds", "3")
    imitbench("cancel")
    wait_for(lambda: not cluster.queue(), "the queue to become empty")
    resumed = imitbench(
        "resume", "--executor", "slurm", "--profile", profile, "--wait", "--json"
    )  # fmt: skip
    assert resumed.code == 0, resumed.err
    summary = json.loads(resumed.out)
    assert summary["done"] + summary["already_done"] == 3
    assert [cell["done"] for cell in json.loads(imitbench("status", "--json").out)] == [3]


def test_logs_show_what_the_task_of_a_run_wrote(cluster, submit, imitbench, tmp_path):
    submit(*LONG)
    wait_for_checkpoint(tmp_path / "runs")
    tell("scancel", "--signal=TERM", cluster.job())
    [log] = tmp_path.glob("runs/*/*/*/*/log.txt")
    wait_for(
        lambda: "requeueing" in imitbench("logs", log.parent.name).out, "the task's last words"
    )


def test_arrays_are_no_larger_than_the_cluster_allows(whole_cluster, submit, tmp_path):
    whole_cluster.stop()
    whole_cluster.start("MaxArraySize=5")
    try:
        answer = submit(*SMALL, "--env", "Pendulum-v1", "--seeds", "12", "--wait", "--json")
    finally:
        whole_cluster.stop()
        whole_cluster.start()
    assert json.loads(answer.out)["done"] == 12
    [path] = tmp_path.glob("runs/.slurm/*/submission.json")
    assert [len(array["tasks"]) for array in json.loads(path.read_text())["arrays"]] == [5, 5, 2]


def test_short_runs_share_a_task(cluster, imitbench, profile, tmp_path):
    answer = imitbench(
        "run", *SMALL, "--env", "Pendulum-v1", "--seeds", "4", "--wait", "--json",
        "--executor", "slurm", "--profile", profile,
    )  # fmt: skip
    assert json.loads(answer.out)["done"] == 4
    [path] = tmp_path.glob("runs/.slurm/*/submission.json")
    [array] = json.loads(path.read_text())["arrays"]
    assert [len(task) for task in array["tasks"]] == [4]


def test_whoever_waits_may_go_and_come_back(cluster, submit, imitbench, profile, tmp_path, scores):
    submit(*SMALL, "--env", "Pendulum-v1", "--seeds", "2")
    back = submit(*SMALL, "--env", "Pendulum-v1", "--seeds", "2", "--wait", "--json")
    assert back.code == 0, back.err
    summary = json.loads(back.out)
    assert summary["done"] + summary["already_done"] == 2
    assert len([*tmp_path.glob("runs/.slurm/*/submission.json")]) == 1


def test_who_stops_waiting_leaves_the_tasks_and_is_told_so(cluster, profile, tmp_path):
    waiting = subprocess.Popen(
        [
            sys.executable, "-m", "imitbench", "run", *LONG, "--wait",
            "--executor", "slurm", "--profile", profile,
        ],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    wait_for_checkpoint(tmp_path / "runs")
    waiting.send_signal(signal.SIGINT)
    _, said = waiting.communicate(timeout=60)
    assert waiting.returncode == 130, said
    assert len(cluster.queue()) == 1


def test_tasks_taken_out_of_the_queue_by_hand_are_told(cluster, submit, tmp_path):
    submit(*LONG)
    wait_for_checkpoint(tmp_path / "runs")
    tell("scancel", "--user=root")
    waited = submit(*LONG, "--wait", "--json")
    assert waited.code in (0, 1)
    if waited.code == 1:  # it was still in the queue when it was asked for again
        assert json.loads(waited.out)["lost"] == 1


def test_what_the_scheduler_refuses_is_told_in_one_line(cluster, submit, profile, tmp_path):
    profile.write_text("partition: nowhere\n")
    line = refusal(submit(*SMALL, "--seeds", "1", "--quiet"))
    assert "Invalid partition" in line
    assert "nowhere" not in "".join(cluster.queue())
    assert not [*tmp_path.glob("runs/.jobs/*.json")]


def test_dry_run_prints_what_sbatch_would_be_asked_for(cluster, submit, imitbench):
    plan = json.loads(submit(*SMALL, "--seeds", "2", "--dry-run", "--json").out)["slurm"]
    assert (plan["tasks"], plan["arrays"]) == (6, 1)
    assert plan["sbatch"]["--mem"] == "1500M"
    assert "--mem" in submit(*SMALL, "--dry-run").out
    assert not cluster.queue()
