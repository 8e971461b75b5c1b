"""Short cuts of optimizers: the numbers are those of the optimizer itself."""

import pytest
import torch as th

from imitbench.util.fused_adam import direct_step, with_fused


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
