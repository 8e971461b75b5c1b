"""Options of `imitbench run` are read, refused in one line, and reach the workers."""

import json
import os

import pytest

import imitbench
from imitbench.bench import worker
from imitbench.errors import InputError
from imitbench.executors.devices import count_workers


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--timeout", "soon"], "--timeout soon: must be a duration such as 45s, 90m"),
        (["--max-mem", "4"], "--max-mem 4: must be a size with its unit"),
        (["--device", "gpu"], "--device gpu: must be auto, cpu, cuda, hybrid, or cuda:N"),
        (["--gpus", "first"], "--gpus first: must be numbers of GPUs such as 0,1"),
        (["--gpus", "0", "--device", "cpu"], "--device cpu: GPUs were requested as well"),
        (["--per-gpu", "2"], "--per-gpu 2: no GPUs were requested"),
        (["--threads", "0"], "'--threads': Input should be greater than or equal to 1"),
        (["--threads", "100000"], "--threads 100000: this process may use "),
        (["--max-mem", "4G", "--executor", "inline"], "--max-mem: only worker processes"),
    ],
)
def test_what_cannot_be_meant_is_refused(refused, arguments, line):
    assert line in refused("run", "--algo", "random", *arguments)


@pytest.mark.parametrize("executor", ["local", "inline"])
def test_missing_gpus_are_reported_before_anything_starts(tmp_path, refused, executor, without_gpu):
    line = refused(
        "run", "--algo", "random", "--device", "cuda", "--executor", executor, env=without_gpu
    )
    assert "neither nvidia-smi nor torch" in line
    assert "use --device cpu" in line
    assert not (tmp_path / "runs").exists()


@pytest.fixture
def without_gpu(tmp_path, monkeypatch):
    """An environment in which the driver sees no GPU."""
    folder = tmp_path / "bin"
    folder.mkdir()
    command = folder / "nvidia-smi"
    command.write_text("#!/bin/sh\nexit 6\n")
    command.chmod(0o755)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


@pytest.fixture
def expected(imitbench):
    """Expected seconds of a sweep on Pendulum."""

    def ask(algo, seeds, *options):
        words = ("--algo", algo, "--env", "Pendulum-v1", "--seeds", str(seeds), *options)
        return json.loads(imitbench("run", *words, "--dry-run", "--json").out)["expected_seconds"]

    return ask


def test_no_number_of_workers_is_faster_than_the_longest_run(expected):
    one, two, many = (expected("bc", 2, "--jobs", jobs) for jobs in ("1", "2", "64"))
    assert one == pytest.approx(2 * two)
    assert many == pytest.approx(two)


def test_packed_seeds_take_less_time(expected):
    alone, pairs, four = (
        expected("dac", 4, *options) for options in [(), ("--pack", "2"), ("--pack", "4")]
    )
    assert alone - pairs == pytest.approx(2 * (pairs - four))
    assert alone / 3 < four < alone


def test_fewer_updates_for_each_step_take_less_time(expected):
    once, half, quarter, twice = (
        expected("dac", 1, "--set", f"steps_per_update={steps}", "--set", f"updates={updates}")
        for steps, updates in [(1, 1), (2, 1), (4, 1), (1, 2)]
    )
    assert expected("dac", 1) == once
    # What does not depend on updates, such as the environment's steps, is in all of them.
    assert once - half == pytest.approx(2 * (half - quarter)) == pytest.approx((twice - once) / 2)
    assert quarter < once / 2


@pytest.mark.parametrize(
    ("jobs", "gpus", "per_gpu", "workers"),
    [
        (None, "", None, 1),
        (3, "", None, 3),
        (None, "01", None, 2),
        (None, "01", 3, 6),
        (1, "01", 3, 1),
    ],
)
def test_the_number_of_workers_is_the_requested_one_or_that_of_gpus(jobs, gpus, per_gpu, workers):
    assert count_workers(jobs, gpus, per_gpu) == workers


def test_runs_per_gpu_need_gpus():
    with pytest.raises(InputError, match="add --gpus 0"):
        count_workers(None, "", 2)


def test_the_number_of_threads_reaches_the_simulations(tmp_path, monkeypatch):
    used = []
    monkeypatch.setattr(worker, "use_simulator_threads", used.append)
    imitbench.run(
        "random", env="Pendulum-v1", budget="quick", seeds=1, out=tmp_path,
        executor="inline", threads=2,
    )  # fmt: skip
    assert used == [2]


def test_they_reach_the_workers(tmp_path, imitbench):
    answer = imitbench(
        "run", "--algo", "bc", "--env", "Pendulum-v1", "--seeds", "1", "--budget", "quick",
        "--jobs", "1", "--retries", "1", "--timeout", "0.02s", "--max-mem", "64G",
    )  # fmt: skip
    assert answer.code == 1
    assert "TimedOut: took longer than --timeout 0.02s" in answer.err
    [log] = tmp_path.rglob("log.txt")
    assert "attempt 2 of 2 failed" in log.read_text()
