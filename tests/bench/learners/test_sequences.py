"""Learners of sequences are saved between the points of their curves, which stay the same."""

import pytest

from imitbench.bench.learners.sequences import RecurrentLearner
from imitbench.records.runs import Budget


class Counting:
    """A trainer that only counts; offers to save after each batch."""

    def __init__(self, n_batches):
        self.n_batches = n_batches

    def train(self, n_batches, checkpoint):
        for _ in range(n_batches):
            self.n_batches += 1
            checkpoint()
        return {"loss": 0.5}


@pytest.mark.parametrize(("done", "points"), [(0, 21), (13, 20), (200, 1), (205, 0)])
def test_points_do_not_depend_on_where_a_training_was_saved(done, points):
    learner = RecurrentLearner()
    learner.trainer = Counting(done)
    curve, offers = [], []
    learner.train(
        Budget(name="quick", unit="batches", amount=205),
        lambda step, logged: curve.append((step, logged["loss"])),
        lambda: offers.append(learner.trainer.n_batches),
    )
    assert curve == [(step, 0.5) for step in (*range(10, 201, 10), 205)[21 - points :]]
    assert set(offers) == set(range(done + 1, 206))
