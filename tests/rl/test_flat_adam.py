"""Steps on all parameters at once are torch's steps on each."""

import copy

import torch as th
from torch import nn

from imitbench.rl.flat_adam import FlatAdam
from imitbench.rl.mlp import FlatParameters


def pair():
    """A network with its optimizer, and the same with a stand-in for it."""
    th.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    twin = copy.deepcopy(network)
    own, theirs = (th.optim.Adam(each.parameters(), lr=0.1) for each in (network, twin))
    parameters = FlatParameters(list(network.parameters()))
    return network, own, FlatAdam(own, parameters), parameters, twin, theirs


def step(adam, parameters, theirs, seed):
    th.manual_seed(seed)
    parameters.gradient.normal_()
    for parameter, gradient in zip(
        theirs.param_groups[0]["params"], parameters.split(parameters.gradient), strict=True
    ):
        parameter.grad = gradient.clone()
    adam.step()
    theirs.step()


def assert_same(network, own, twin, theirs):
    th.testing.assert_close(network.state_dict(), twin.state_dict())
    th.testing.assert_close(own.state_dict()["state"], theirs.state_dict()["state"])


def test_steps_and_states_are_torchs():
    network, own, adam, parameters, twin, theirs = pair()
    for number in range(5):
        step(adam, parameters, theirs, number)
    assert_same(network, own, twin, theirs)


def test_a_new_learning_rate_is_noticed():
    network, own, adam, parameters, twin, theirs = pair()
    for number in range(4):
        for optimizer in (own, theirs):
            optimizer.param_groups[0]["lr"] = 0.1 / (number + 1)
        step(adam, parameters, theirs, number)
    assert_same(network, own, twin, theirs)


def test_a_state_that_was_loaded_is_taken_over():
    network, own, adam, parameters, twin, theirs = pair()
    step(adam, parameters, theirs, 0)
    saved = copy.deepcopy((network.state_dict(), own.state_dict()))
    step(adam, parameters, theirs, 1)
    for module, optimizer in ((network, own), (twin, theirs)):
        module.load_state_dict(saved[0])
        optimizer.load_state_dict(copy.deepcopy(saved[1]))
    for number in (2, 3):
        step(adam, parameters, theirs, number)
    assert_same(network, own, twin, theirs)
