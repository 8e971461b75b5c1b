"""Shorter ways to take steps give the numbers of the optimizer itself."""

import copy

import pytest
import torch as th
from torch import nn

from imitbench.rl.mlp import FlatParameters
from imitbench.util.adam import FlatAdam, direct_step, load_optimizer_state, with_fused


def parameters(count=3):
    generator = th.Generator().manual_seed(0)
    made = [th.nn.Parameter(th.randn(size + 1, 2, generator=generator)) for size in range(count)]
    for parameter in made:
        parameter.grad = th.zeros_like(parameter)
    return made


def train(own, optimizer, step, steps=6):
    generator = th.Generator().manual_seed(1)
    for index in range(steps):
        optimizer.param_groups[0]["lr"] = 0.1 / (index + 1)
        for parameter in own:
            parameter.grad.copy_(th.randn(parameter.shape, generator=generator))
        step()


@pytest.mark.parametrize(
    "options",
    [{}, {"weight_decay": 0.1}, {"betas": (0.5, 0.9), "eps": 1e-3}, {"maximize": True}],
)
@pytest.mark.parametrize("kind", [th.optim.Adam, th.optim.AdamW])
def test_direct_steps_are_the_optimizers_own_bit_for_bit(kind, options):
    direct, usual = parameters(), parameters()
    one, other = (kind(each, fused=True, **options) for each in (direct, usual))
    step = direct_step(one)
    assert step != one.step
    train(direct, one, step)
    train(usual, other, other.step)
    for own, theirs in zip(direct, usual, strict=True):
        assert th.equal(own, theirs)
        for key, value in other.state[theirs].items():
            assert th.equal(one.state[own][key], value), key


def test_direct_steps_go_on_from_a_loaded_state():
    direct, usual = parameters(), parameters()
    one, other = (th.optim.Adam(each, fused=True) for each in (direct, usual))
    train(direct, one, one.step, 2)
    train(usual, other, other.step, 2)
    one.load_state_dict(one.state_dict())
    train(direct, one, direct_step(one), 3)
    train(usual, other, other.step, 3)
    for own, theirs in zip(direct, usual, strict=True):
        assert th.equal(own, theirs)


def with_hook(own):
    optimizer = th.optim.Adam(own, fused=True)
    optimizer.register_step_post_hook(lambda *_: None)
    return optimizer


def without_a_gradient(own):
    own[0].grad = None
    return th.optim.Adam(own, fused=True)


@pytest.mark.parametrize(
    "make",
    [
        lambda own: th.optim.SGD(own, lr=0.1),
        lambda own: th.optim.Adam(own, fused=False),
        lambda own: th.optim.Adam(own, fused=True, amsgrad=True),
        lambda own: th.optim.Adam(own, fused=True, decoupled_weight_decay=True),
        lambda own: th.optim.Adam([{"params": own[:1]}, {"params": own[1:]}], fused=True),
        with_hook,
        without_a_gradient,
    ],
)
def test_anything_else_takes_its_own_step(make):
    optimizer = make(parameters())
    assert direct_step(optimizer) == optimizer.step


def test_adam_is_fused_unless_told_otherwise():
    assert with_fused(th.optim.Adam, {"lr": 1}) == {"fused": True, "lr": 1}
    assert with_fused(th.optim.AdamW, {}) == {"fused": True}
    assert with_fused(th.optim.Adam, {"foreach": True}) == {"foreach": True}
    assert with_fused(th.optim.SGD, {"lr": 1}) == {"lr": 1}


def stepped(state=None):
    """Parameters after a step, and the optimizer's state."""
    parameter = th.nn.Parameter(th.ones(3))
    optimizer = th.optim.Adam([parameter])
    if state is not None:
        load_optimizer_state(optimizer, state)
    (parameter * th.arange(3)).sum().backward()
    optimizer.step()
    return parameter.detach(), optimizer.state_dict()


def test_a_state_can_be_loaded_again():
    _, state = stepped()
    before = state["state"][0]["exp_avg"].clone()
    once, twice = stepped(state)[0], stepped(state)[0]
    assert th.equal(once, twice)
    assert th.equal(state["state"][0]["exp_avg"], before)


def test_a_state_of_other_parameters_is_refused():
    _, state = stepped()
    optimizer = th.optim.Adam([th.nn.Parameter(th.ones(3)), th.nn.Parameter(th.ones(3))])
    with pytest.raises(ValueError, match="size of optimizer's group"):
        load_optimizer_state(optimizer, state)


def pair():
    """A network with its optimizer, and the same with a stand-in for it."""
    th.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    twin = copy.deepcopy(network)
    own, theirs = (th.optim.Adam(each.parameters(), lr=0.1) for each in (network, twin))
    parameters = FlatParameters(list(network.parameters()))
    return network, own, FlatAdam(parameters), parameters, twin, theirs


def step(own, adam, parameters, theirs, seed):
    th.manual_seed(seed)
    parameters.gradient.normal_()
    for parameter, gradient in zip(
        theirs.param_groups[0]["params"], parameters.split(parameters.gradient), strict=True
    ):
        parameter.grad = gradient.clone()
    adam.step(own)
    theirs.step()


def assert_same(network, own, twin, theirs):
    th.testing.assert_close(network.state_dict(), twin.state_dict())
    th.testing.assert_close(own.state_dict()["state"], theirs.state_dict()["state"])


def test_steps_and_states_are_torchs():
    network, own, adam, parameters, twin, theirs = pair()
    for number in range(5):
        step(own, adam, parameters, theirs, number)
    assert_same(network, own, twin, theirs)


def test_a_new_learning_rate_is_noticed():
    network, own, adam, parameters, twin, theirs = pair()
    for number in range(4):
        for optimizer in (own, theirs):
            optimizer.param_groups[0]["lr"] = 0.1 / (number + 1)
        step(own, adam, parameters, theirs, number)
    assert_same(network, own, twin, theirs)


def test_a_state_that_was_loaded_is_taken_over():
    network, own, adam, parameters, twin, theirs = pair()
    step(own, adam, parameters, theirs, 0)
    saved = copy.deepcopy((network.state_dict(), own.state_dict()))
    step(own, adam, parameters, theirs, 1)
    for module, optimizer in ((network, own), (twin, theirs)):
        module.load_state_dict(saved[0])
        optimizer.load_state_dict(copy.deepcopy(saved[1]))
    for number in (2, 3):
        step(own, adam, parameters, theirs, number)
    assert_same(network, own, twin, theirs)
