"""Sweeps on a real cluster: what is asked for is done once, whatever happens to nodes and jobs."""

import json
from pathlib import Path

# Half a minute of training at most, with something to save every few moments.
LONG = ("--algo", "bc", "--env", "Pendulum-v1", "--seeds", "1", "--set", "batch_size=64",
        "--budget", "full", "--checkpoint-minutes", "0.01")  # fmt: skip
SHORT = ("--algo", "bc", "--budget", "quick")


def statuses(out):
    return [json.loads(path.read_text()) for path in Path(out).glob("*/*/*/*/status.json")]


def is_training(out):
    return any(each["phase"] == "train" and each["state"] == "running" for each in statuses(out))


def wait_for_training(out):
    from conftest import wait_for

    wait_for(lambda: is_training(out), "a run to train")
    wait_for(lambda: [*Path(out).glob("*/*/*/*/checkpoint/*.state")], "a checkpoint")
