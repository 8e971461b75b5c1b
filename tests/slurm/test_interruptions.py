"""Nodes are taken away, time runs out, processes die: runs go on, to the same numbers."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from support.command_lines import with_options
from support.slurm import logs, tell, wait_for, wait_for_checkpoint

LONG = ("--algo", "bc", "--env", "Pendulum-v1", "--seeds", "1", "--budget", "full",
        "--checkpoint-minutes", "0.01")  # fmt: skip


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Results folder of a run that nothing happened to."""
    folder = tmp_path_factory.mktemp("undisturbed")
    subprocess.run([sys.executable, "-m", "imitbench", "run", *LONG], cwd=folder, check=True)
    return folder / "runs"


def assert_resumed(out):
    [log] = Path(out).glob("*/*/*/*/log.txt")
    assert "resumed after" in log.read_text()


@pytest.mark.parametrize("number", ["TERM", "USR1", "USR2"])
def test_a_task_that_is_asked_to_stop_saves_its_run_and_goes_back(
    cluster, submit, scores, undisturbed, tmp_path, number
):
    submit(*LONG)
    out = tmp_path / "runs"
    wait_for_checkpoint(out)
    tell("scancel", f"--signal={number}", cluster.job())
    wait_for(lambda: "PENDING" in cluster.queue().values(), "the job to go back")
    wait_for(lambda: "requeueing the task" in logs(out), "the task's last words")
    [status] = out.glob("*/*/*/*/status.json")
    assert json.loads(status.read_text())["state"] == "interrupted"
    cluster.wait_until_empty()
    assert_resumed(out)
    assert scores(out) == scores(undisturbed)


def task_processes(module=""):
    """Processes of the cluster's tasks, and nobody else's; those of one module."""
    for process in psutil.process_iter():
        try:
            if "SLURM_JOB_ID" in process.environ() and module in " ".join(process.cmdline()):
                yield process
        except psutil.Error:  # it has ended, or belongs to somebody else
            pass


def kill_tasks(module=""):
    """Kills them and returns how many."""
    processes = list(task_processes(module))
    for process in processes:
        with suppress(psutil.Error):
            process.kill()
    return len(processes)


def test_a_lost_node_costs_only_what_came_after_the_last_checkpoint(
    cluster, submit, scores, undisturbed, tmp_path
):
    submit(*LONG)
    out = tmp_path / "runs"
    wait_for_checkpoint(out)
    for daemon in ("slurmd", "slurmstepd"):
        subprocess.run(["pkill", "-9", "-f", daemon])
    kill_tasks()
    wait_for(lambda: "down" in tell("sinfo", "--noheader", "--format=%T"), "the node to be missed")
    assert list(cluster.queue().values()) == ["PENDING"]
    tell("slurmd", "-N", "devnode")
    cluster.wait_until_empty()
    assert_resumed(out)
    assert scores(out) == scores(undisturbed)


def test_a_time_limit_that_is_hit_costs_nothing(
    cluster, submit, profile, scores, undisturbed, tmp_path
):
    # The scheduler sends the signal up to a minute before it is due: here half a minute after the
    # start at the earliest.
    profile.write_text("time: '2'\nsignal_before_s: 30\n")
    submit(*LONG)
    out = tmp_path / "runs"
    wait_for_checkpoint(out)
    # The run must not end before the signal comes. SLURM sends SIGCONT along with it.
    [worker] = task_processes("imitbench.bench.worker")
    worker.suspend()
    wait_for(lambda: "requeueing the task" in logs(out), "the time limit")
    cluster.wait_until_empty()
    assert_resumed(out)
    assert scores(out) == scores(undisturbed)


def test_a_task_goes_back_no_more_often_than_its_profile_says(cluster, submit, profile, tmp_path):
    profile.write_text("max_requeues: 0\n")
    submit(*LONG)
    wait_for_checkpoint(tmp_path / "runs")
    tell("scancel", "--signal=TERM", cluster.job())
    wait_for(lambda: not cluster.queue(), "the queue to become empty")
    wait_for(lambda: "max_requeues" in logs(tmp_path / "runs"), "the task's last words")


def test_a_worker_that_dies_is_a_failure_and_the_task_goes_on(
    cluster, imitbench, profile, tmp_path
):
    out = tmp_path / "runs"
    answer = imitbench(
        "run", *with_options(LONG, {"--seeds": "2"}), "--executor", "slurm", "--profile", profile,
        "--set", "hidden_size=8",
    )  # fmt: skip
    assert answer.code == 0, answer.err
    wait_for_checkpoint(out)
    assert kill_tasks("imitbench.bench.worker") == 1
    cluster.wait_until_empty()
    query = "select seed, error_type, message from failures"
    [failure] = json.loads(imitbench("sql", "--format", "json", query).out)
    assert (failure["seed"], failure["error_type"]) == (0, "WorkerDied")
    assert "SIGKILL" in failure["message"]
    [score] = json.loads(imitbench("sql", "--format", "json", "select seed from scores").out)
    assert score == {"seed": 1}


def is_served(folder):
    """Whether all tasks of an array have got something to run."""
    contents = [path.stem for path in folder.glob("*.pkl")]
    return bool(contents) and all(name.endswith(("_submitted", "_result")) for name in contents)


def test_a_submitter_killed_at_any_moment_loses_and_doubles_nothing(
    cluster, submit, imitbench, profile, tmp_path
):
    sweep = [
        sys.executable, "-m", "imitbench", "run", "--algo", "random", "--env", "Pendulum-v1",
        "--seeds", "4", "--budget", "quick", "--executor", "slurm", "--profile", str(profile),
        "--min-task-minutes", "0",
    ]  # fmt: skip
    for after_s in (0.6, 0.9, 1.2, 1.5, 1.8):
        submitter = subprocess.Popen(sweep, cwd=tmp_path, stderr=subprocess.DEVNULL)
        time.sleep(after_s)
        submitter.kill()
        submitter.wait()
    answer = submit("--algo", "random", "--env", "Pendulum-v1", "--seeds", "4", "--budget", "quick",
                    "--wait", "--json")  # fmt: skip
    assert answer.code == 0, answer.err
    rows = imitbench("sql", "--format", "json", "select count(*) n from runs").out
    assert json.loads(rows) == [{"n": 4}]


def test_tasks_of_a_submitter_that_died_before_it_named_them_are_replaced(
    cluster, submit, imitbench, profile, tmp_path, monkeypatch
):
    with monkeypatch.context() as patch:
        command = tmp_path / "bin" / "sbatch"
        command.parent.mkdir()
        command.write_text(f'#!/bin/sh\n{shutil.which("sbatch")} "$@"\nkill -KILL $PPID\n')
        command.chmod(0o755)
        patch.setenv("PATH", str(command.parent), prepend=os.pathsep)
        sweep = ("--algo", "random", "--env", "Pendulum-v1", "--seeds", "4", "--budget", "quick")
        assert submit(*sweep).code == -signal.SIGKILL
    assert len(cluster.queue()) == 4
    answer = submit(*sweep, "--wait", "--json")
    assert answer.code == 0, answer.err
    assert json.loads(answer.out)["done"] == 4


def test_a_race_whose_driver_is_killed_at_any_moment_trains_no_seed_twice(
    cluster, imitbench, profile, tmp_path
):
    race = [
        "race", "random", "--baseline", "constant_plus", "--env", "Pendulum-v1",
        "--budget", "quick", "--batch", "2", "--max-seeds", "4", "--executor", "slurm",
        "--profile", str(profile), "--min-task-minutes", "0",
    ]  # fmt: skip
    for after_s in (1.5, 1.8, 2.1, 2.4, 2.7):
        driver = subprocess.Popen(
            [sys.executable, "-m", "imitbench", *race], cwd=tmp_path, stderr=subprocess.DEVNULL
        )
        time.sleep(after_s)
        driver.kill()
        driver.wait()
    answer = imitbench(*race, "--wait", "--json")
    assert answer.code == 0, answer.err
    assert json.loads(answer.out)["over"]
    runs = json.loads(imitbench("sql", "--format", "json", "select algo, seed from scores").out)
    assert len({tuple(run.values()) for run in runs}) == len(runs)
    tasks = [
        job
        for path in tmp_path.glob("runs/.slurm/*/submission.json")
        for number, array in enumerate(json.loads(path.read_text())["arrays"])
        if is_served(path.parent / str(number))
        for task in array["tasks"]
        for job in task
    ]
    assert len(tasks) == len(set(tasks)) == len(runs)
