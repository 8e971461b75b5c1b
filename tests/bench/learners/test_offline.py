"""Offline methods in the harness."""

import torch as th

from imitbench.records.runs import Budget


def test_smodices_policy_learns_in_a_small_budget(set_up):
    learner = set_up("smodice", batch_size="8", hidden_size="8")  # 1000 batches by default
    before = [each.clone() for each in learner.policy().parameters()]
    points = []
    budget = Budget(name="quick", unit="batches", amount=20)
    learner.train(budget, lambda step, logged: points.append((step, "loss" in logged)))
    assert points == [(step, step > 10) for step in range(1, 21)]
    assert not all(map(th.equal, before, learner.policy().parameters()))
