"""The short cut for perceptrons: the numbers of the layers, and only where it may be taken."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from support.preference_pairs import OBS_SPACE, LinearReward, pairs_of, perceptron
from torch import nn

from imitbench.algorithms.preference_comparisons.fragment_batch import stack_fragments
from imitbench.algorithms.preference_comparisons.lean_returns import lean_returns
from imitbench.rewards.reward_nets import BasicRewardNet, NormalizedRewardNet
from imitbench.util.networks import EMANorm, RunningNorm

NETS = {
    "usual": {},
    "deep": {"hid_sizes": (16, 8, 4)},
    "linear": {"hid_sizes": ()},
    "tanh": {"activation": nn.Tanh},
    "normalized": {"normalize_input_layer": RunningNorm},
    "forgetting": {"normalize_input_layer": EMANorm, "hid_sizes": (64,)},
    "everything": {"use_next_state": True, "use_done": True},
    "state": {"use_action": False},
}


@pytest.fixture
def batch():
    return stack_fragments(pairs_of(np.random.default_rng(0), [6] * 5, terminal=True))


def layered(net, batch, discount):
    steps = net.preprocess(batch.obs, batch.acts, batch.next_obs, batch.dones)
    return batch.returns(net(*steps), discount)


def gradients(net, returns):
    weights = th.linspace(-1, 2, len(returns))
    return th.autograd.grad((weights * returns.square()).sum(), list(net.parameters()))


@pytest.mark.parametrize("discount", [1.0, 0.8])
@pytest.mark.parametrize("kwargs", NETS.values(), ids=NETS)
def test_returns_and_gradients_are_those_of_the_layers(batch, kwargs, discount):
    lean, plain = perceptron(**kwargs), perceptron(**kwargs)
    ours, theirs = lean_returns(lean, batch, discount), layered(plain, batch, discount)
    assert th.allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    for one, other in zip(gradients(lean, ours), gradients(plain, theirs), strict=True):
        assert one.shape == other.shape
        assert th.allclose(one, other, rtol=1e-4, atol=1e-4 * float(other.abs().max()))
    for name, buffer in plain.named_buffers():  # statistics have seen the batch once
        assert th.equal(buffer, dict(lean.named_buffers())[name])


def test_choices_are_encoded(batch):
    th.manual_seed(0)
    net = BasicRewardNet(OBS_SPACE, spaces.Discrete(3))
    acts = np.arange(len(batch.acts)) % 3
    object.__setattr__(batch, "acts", acts)
    assert th.allclose(lean_returns(net, batch, 1.0), layered(net, batch, 1.0), atol=1e-5)


def test_backward_may_run_twice_and_late(batch):
    net = perceptron()
    first = lean_returns(net, batch, 1.0)
    lean_returns(net, batch, 1.0).sum().backward()  # in between, by the same network
    once = th.autograd.grad(first.sum(), net.mlp.dense0.weight, retain_graph=True)[0]
    again = th.autograd.grad(first.sum(), net.mlp.dense0.weight)[0]
    assert th.equal(once, again)
    assert th.equal(once, net.mlp.dense0.weight.grad)


def test_weights_changed_in_between_are_noticed(batch):
    net = perceptron()
    returns = lean_returns(net, batch, 1.0)
    with th.no_grad():
        net.mlp.dense1.weight.mul_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        returns.sum().backward()


class Shifted(BasicRewardNet):
    def forward(self, *args):
        return super().forward(*args) + 1


def hooked(net):
    net.mlp.dense0.register_forward_hook(lambda *_: None)
    return net


@pytest.mark.parametrize(
    "net",
    [
        perceptron(dropout_prob=0.5),
        perceptron(activation=nn.GELU),
        perceptron(normalize_input_layer=nn.LayerNorm),
        perceptron().double(),
        hooked(perceptron()),
        NormalizedRewardNet(perceptron(), RunningNorm),
        Shifted(OBS_SPACE, OBS_SPACE),
        LinearReward([1.0, 0.0, 0.0]),
    ],
    ids=lambda net: type(net).__name__,
)
def test_other_networks_are_left_to_their_own_forward(batch, net):
    assert lean_returns(net, batch, 1.0) is None


def test_fragments_of_different_lengths_are_left_to_it_too():
    batch = stack_fragments(pairs_of(np.random.default_rng(0), [3, 4]))
    assert lean_returns(perceptron(), batch, 1.0) is None
