"""The method that `init-algo` writes does what its docstrings say."""

import copy
from pathlib import Path

import torch as th

import imitbench.templates.algorithm
from imitbench.conformance.test_bed import MethodTester
from imitbench.records.runs import Budget

FOLDER = Path(imitbench.templates.algorithm.__file__).parent


def test_a_state_stays_what_it_is_while_training_goes_on():
    learner = MethodTester(FOLDER, amount=20).trained("box")
    state = learner.state_dict()
    kept = copy.deepcopy(state)
    learner.load_state_dict(state)
    learner.train(Budget(name="more", unit="batches", amount=40), lambda *_: None)
    for name in ("policy", "optimizer"):
        th.testing.assert_close(state[name], kept[name], rtol=0, atol=0)
    assert state["batches"] == 20
    assert learner.state_dict()["batches"] == 40
