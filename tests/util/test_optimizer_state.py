"""A state of an optimizer is not changed by the optimizer that was restored from it."""

import pytest
import torch as th

from imitbench.util.optimizer_state import load_optimizer_state


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
