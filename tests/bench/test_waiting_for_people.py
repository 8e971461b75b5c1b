"""Runs that wait for people: they stop when asked to, and go on where they were."""

import json
import signal
import subprocess
import sys
import time

import pytest

from imitbench.algorithms.preference_comparisons.answer_queue import QueueAnswer, append_answer
from imitbench.algorithms.preference_comparisons.dataset_storage import (
    pair_digest,
    read_file,
    unpack,
)

SETTINGS = {
    "preference_comparisons": [
        "n_envs=2", "n_steps=100", "n_epochs=1", "batch_size=50", "hidden_size=8",
        "num_iterations=2", "fragment_length=5", "reward_epochs=1", "transfer_steps=0",
        "total_comparisons=6",
    ],
    "cpl": ["fragment_length=5", "episodes=1", "bc_batches=1", "total_comparisons=6"],
}  # fmt: skip


def start(tmp_path, algo):
    command = [sys.executable, "-m", "imitbench", "run", "--algo", algo, "--env", "Pendulum-v1",
               "--seeds", "1", "--budget", "quick", "--quiet", "--out", "results",
               "--set", "gatherer=human", "--set", "answers=queue"]  # fmt: skip
    for setting in SETTINGS[algo]:
        command += ["--set", setting]
    return subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)


def await_pairs(tmp_path, process, count):
    deadline = time.monotonic() + 120
    while len(found := sorted((tmp_path / "queue").glob("pairs-*"))) < count:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return found


def answer(tmp_path, path):
    content = unpack(read_file(path))
    for pair in zip(content.fragments1, content.fragments2, strict=True):
        better = float(pair[0].rews.sum() > pair[1].rews.sum())
        append_answer(
            tmp_path / "queue" / "answers.jsonl",
            QueueAnswer(pair=pair_digest(*pair), preference=better),
        )


@pytest.mark.slow
@pytest.mark.parametrize(("algo", "rounds"), [("preference_comparisons", 2), ("cpl", 1)])
def test_ctrl_c_stops_a_run_that_waits_and_it_asks_about_the_same_pairs_again(
    tmp_path, algo, rounds
):
    process = start(tmp_path, algo)
    try:
        for count in range(1, rounds + 1):
            last = await_pairs(tmp_path, process, count)[-1]
            if count < rounds:
                answer(tmp_path, last)
        process.send_signal(signal.SIGINT)
        _, messages = process.communicate(timeout=60)
        assert process.returncode == 130, messages
        assert "Traceback" not in messages
        (status,) = tmp_path.glob("results/**/status.json")
        assert json.loads(status.read_text())["state"] == "interrupted"
        answer(tmp_path, last)
        process = start(tmp_path, algo)
        deadline = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline:
            for path in (tmp_path / "queue").glob("pairs-*"):
                answer(tmp_path, path)
            time.sleep(0.5)
        assert process.wait(timeout=60) == 0, process.stderr.read()
    finally:
        process.kill()
    names = sorted(path.name for path in (tmp_path / "queue").glob("pairs-*"))
    assert last.name in names
    numbers = [name.split("-")[1] for name in names]
    assert numbers == [f"{n:05d}" for n in range(len(names))]  # nothing was asked about twice
    (log,) = tmp_path.glob("results/**/log.txt")
    assert "stop requested" in log.read_text()
    if rounds > 1:  # the rounds before the wait were not trained again
        assert "resumed after" in log.read_text()
