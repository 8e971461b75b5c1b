"""Potential shaping: what it adds, that it telescopes, and that gradients are right."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces

from imitbench.rewards.reward_nets import (
    BasicPotentialCNN,
    BasicPotentialMLP,
    BasicRewardNet,
    BasicShapedRewardNet,
    NormalizedRewardNet,
    ShapedRewardNet,
)
from imitbench.util.networks import RunningNorm

IMAGE = spaces.Box(0, 255, (4, 5, 3), np.uint8)
CHANNELS_FIRST = spaces.Box(0, 255, (3, 4, 5), np.uint8)


def of_first_coordinate(state):
    return 100 * state[:, 0]


@pytest.mark.parametrize("as_column", [False, True])
def test_shaping_adds_the_discounted_next_potential_and_subtracts_the_current_one(
    vector_space, choice_space, batch, as_column
):
    state, _, next_state, done = batch

    def potential(states):  # a policy's value function, for example, gives columns
        values = of_first_coordinate(states)
        return values.unsqueeze(1) if as_column else values

    base = BasicRewardNet(vector_space, choice_space)
    net = ShapedRewardNet(base, potential, 0.9)
    expected = 0.9 * 100 * next_state[:, 0] * ~done - 100 * state[:, 0]
    np.testing.assert_allclose(net.predict(*batch) - base.predict(*batch), expected, rtol=1e-4)
    np.testing.assert_array_equal(net.predict_processed(*batch), net.predict(*batch))


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_over_an_episode_shaping_telescopes(vector_space, choice_space, ends, gamma):
    net = BasicShapedRewardNet(vector_space, choice_space, discount_factor=gamma).double()
    states = np.random.default_rng(0).normal(size=(21, 3))
    done = np.zeros(20, bool)
    done[-1] = ends
    transitions = (states[:-1], np.zeros(20, np.int64), states[1:], done)
    shaping = net.predict(*transitions) - net.base.predict(*transitions)
    with th.no_grad():
        potentials = net.potential(th.from_numpy(states)).numpy()
    discounted = (gamma ** np.arange(20) * shaping).sum()
    last = 0.0 if ends else gamma**20 * potentials[-1]
    assert discounted == pytest.approx(last - potentials[0], abs=1e-12)


def test_gradients_agree_with_finite_differences(vector_space, choice_space, batch):
    net = BasicShapedRewardNet(
        vector_space,
        choice_space,
        reward_hid_sizes=[5],
        potential_hid_sizes=[4, 3],
        use_next_state=True,
        use_done=True,
        activation=th.nn.Tanh,
    ).double()
    inputs = net.preprocess(*batch)
    labels = th.tensor([0.0, 1, 1, 0, 1, 0, 0, 1, 1], dtype=th.float64)

    def loss():
        return th.nn.functional.binary_cross_entropy_with_logits(net(*inputs), labels)

    loss().backward()
    assert {name.split(".")[0] for name, _ in net.named_parameters()} == {"_base", "potential"}
    for name, parameter in net.named_parameters():
        flat, gradient = parameter.data.view(-1), parameter.grad.view(-1)
        for index in range(len(flat)):
            value, step = flat[index].item(), 1e-6
            losses = []
            for sign in (1, -1):
                flat[index] = value + sign * step
                losses.append(loss().item())
            flat[index] = value
            numerical = (losses[0] - losses[1]) / (2 * step)
            assert gradient[index].item() == pytest.approx(numerical, abs=1e-8), name


def test_both_potentials_are_normalized_with_the_same_statistics(vector_space, choice_space, batch):
    state, action, _, _ = batch
    net = BasicShapedRewardNet(
        vector_space, choice_space, normalize_input_layer=RunningNorm, discount_factor=1.0
    )
    stays = (state, action, state, np.zeros(9, bool))
    inputs = net.preprocess(*stays)
    rewards = net(*inputs)
    net.base.eval()
    # Where the state does not change the shaping is zero, even while statistics are updated.
    assert net.training
    assert net.potential._potential_net.normalize_input.count == 18
    np.testing.assert_allclose(rewards.detach(), net.base(*inputs).detach(), atol=1e-6)


def test_the_basic_shaped_network_consists_of_basic_parts(vector_space, choice_space, batch):
    net = BasicShapedRewardNet(vector_space, choice_space)
    assert isinstance(net.base, BasicRewardNet)
    assert isinstance(net.potential, BasicPotentialMLP)
    assert net.discount_factor == 0.99
    assert [tuple(p.shape) for p in net.parameters() if p.ndim == 2] == [
        (32, 7),
        (1, 32),
        (32, 3),
        (32, 32),
        (1, 32),
    ]
    assert net.predict(*batch).shape == (9,)


def test_potentials_accept_discrete_states_and_images(image_batch):
    choices = BasicPotentialMLP(spaces.Discrete(5), hid_sizes=[4])
    assert choices(th.eye(5)).shape == (5,)
    images = th.from_numpy(image_batch[0]) / 255
    assert BasicPotentialMLP(IMAGE, hid_sizes=[4])(images).shape == (6,)
    last = BasicPotentialCNN(IMAGE, hid_sizes=[4])
    first = BasicPotentialCNN(CHANNELS_FIRST, hid_sizes=[4], hwc_format=False)
    first.load_state_dict(last.state_dict())
    assert last(images).shape == (6,)
    np.testing.assert_allclose(
        first(images.permute(0, 3, 1, 2)).detach(), last(images).detach(), atol=1e-6
    )


def test_a_convolutional_potential_needs_images(vector_space):
    with pytest.raises(ValueError, match="observation_space: needs images"):
        BasicPotentialCNN(vector_space, hid_sizes=[4])


def test_arguments_out_of_range_are_refused(vector_space, choice_space, batch):
    base = BasicRewardNet(vector_space, choice_space)
    with pytest.raises(ValueError, match="discount_factor"):
        ShapedRewardNet(base, of_first_coordinate, 1.01)
    with pytest.raises(ValueError, match=r"potential gives shape \(18, 3\) for 18 states"):
        ShapedRewardNet(base, lambda states: states, 0.9).predict(*batch)


def test_shaping_must_be_inside_normalization(vector_space, choice_space):
    base = BasicRewardNet(vector_space, choice_space)
    NormalizedRewardNet(ShapedRewardNet(base, of_first_coordinate, 0.9), RunningNorm)
    with pytest.raises(ValueError, match=r"^base: ShapedRewardNet.*NormalizedRewardNet.*swap"):
        ShapedRewardNet(NormalizedRewardNet(base, RunningNorm), of_first_coordinate, 0.9)
