"""An interrupted run gives the same numbers as an uninterrupted one."""

import random

import numpy as np
import pytest
import torch as th

from imitbench.bench.checkpoint import CheckpointManager, RunProgress
from imitbench.bench.learner import Learner


class Walker(Learner):
    """Draws from every global generator; its policy has the drawn numbers."""

    def __init__(self, stop_at=None):
        self.numbers, self.stop_at = [], stop_at

    def setup(self, task=None, demos=(), rng=None, device="cpu"):
        self.rng = np.random.default_rng(0)

    def train(self, budget, callback, checkpoint=lambda: None):
        while len(self.numbers) < budget:
            if len(self.numbers) == self.stop_at:
                raise KeyboardInterrupt
            legacy = np.random.random()  # noqa: NPY002 (it is this generator that is tested)
            draws = random.random(), legacy, float(th.rand(())), self.rng.random()
            self.numbers.append(draws)
            callback(len(self.numbers), {"draw": draws[0]})
            checkpoint()
        return 0

    def policy(self):
        return self.numbers

    def state_dict(self):
        return {"numbers": self.numbers, "rng": self.rng.bit_generator.state}

    def load_state_dict(self, state):
        self.numbers = list(state["numbers"])
        self.rng.bit_generator.state = state["rng"]


def attempt(folder, *, stop_at=None, every_s=0.0):
    """One attempt at a run of ten steps from fresh generators."""
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    th.manual_seed(1)
    learner, checkpoints = Walker(stop_at), CheckpointManager(folder, every_s)
    learner.setup()
    progress = checkpoints.resume(learner) or RunProgress()

    def record(step, metrics):
        progress.curve.append({"step": step, **metrics})

    try:
        learner.train(10, record, lambda: checkpoints.save_if_due(learner, lambda: progress))
    except KeyboardInterrupt:
        return None
    return learner.policy(), progress.curve


@pytest.fixture
def uninterrupted(tmp_path):
    return attempt(tmp_path / "uninterrupted")


def test_an_interrupted_run_equals_an_uninterrupted_one(tmp_path, uninterrupted):
    assert attempt(tmp_path / "a", stop_at=4) is None
    assert attempt(tmp_path / "a", stop_at=7) is None
    numbers, curve = attempt(tmp_path / "a")
    assert numbers == uninterrupted[0]
    assert curve == uninterrupted[1]


def test_two_checkpoints_are_kept_and_a_damaged_one_is_skipped(tmp_path, uninterrupted, capsys):
    attempt(tmp_path / "a", stop_at=5)
    older, newest = sorted((tmp_path / "a").iterdir())
    newest.write_bytes(newest.read_bytes()[:-10])
    assert attempt(tmp_path / "a") == uninterrupted
    assert "truncated or altered" in capsys.readouterr().err
    assert older.name == "000004.state"


def test_with_both_damaged_it_starts_from_the_beginning(tmp_path, uninterrupted):
    attempt(tmp_path / "a", stop_at=5)
    for path in (tmp_path / "a").iterdir():
        path.write_bytes(b"")
    assert attempt(tmp_path / "a") == uninterrupted


def test_a_checkpoint_of_another_version_is_skipped(tmp_path, uninterrupted, monkeypatch, capsys):
    monkeypatch.setattr("imitbench.bench.checkpoint.__version__", "0.0.0")
    attempt(tmp_path / "a", stop_at=5)
    monkeypatch.undo()
    assert attempt(tmp_path / "a") == uninterrupted
    assert "is of 0.0.0" in capsys.readouterr().err


def test_none_is_written_before_it_is_due(tmp_path):
    attempt(tmp_path / "a", every_s=3600.0)
    assert not (tmp_path / "a").exists()
