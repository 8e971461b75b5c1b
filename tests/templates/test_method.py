"""The method that `init-algo` writes does what its docstrings say."""

import copy
from pathlib import Path

import pytest
import torch as th

import imitbench.templates.algorithm
import imitbench.templates.chunking
from imitbench.conformance.test_bed import MethodTester
from imitbench.records.runs import Budget

TEMPLATES = [imitbench.templates.algorithm, imitbench.templates.chunking]


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.__name__)
def test_a_state_stays_what_it_is_while_training_goes_on(template):
    learner = MethodTester(Path(template.__file__).parent, amount=20).trained("box")
    state = learner.state_dict()
    kept = copy.deepcopy(state)
    learner.load_state_dict(state)
    learner.train(Budget(name="more", unit="batches", amount=40), lambda *_: None)
    for name in ("policy", "optimizer"):
        th.testing.assert_close(state[name], kept[name], rtol=0, atol=0)
    assert state["batches"] == 20
    assert learner.state_dict()["batches"] == 40
