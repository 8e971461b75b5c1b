"""Reward networks use the selected inputs and no others."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces

from imitbench.rewards.reward_nets import (
    BasicPotentialCNN,
    BasicRewardNet,
    CnnRewardNet,
    cnn_transpose,
)

IMAGE = spaces.Box(0, 255, (4, 5, 3), np.uint8)
CHANNELS_FIRST = spaces.Box(0, 255, (3, 4, 5), np.uint8)
INPUTS = ("use_state", "use_action", "use_next_state", "use_done")


def changed(batch, position):
    """The batch with other values in one of its four parts."""
    parts = list(batch)
    parts[position] = {
        np.dtype(bool): lambda part: ~part,
        np.dtype(np.int64): lambda part: (part + 1) % 3,
        np.dtype(np.float32): lambda part: part + 1,
        np.dtype(np.uint8): lambda part: 255 - part,
    }[parts[position].dtype](parts[position])
    return parts


@pytest.mark.parametrize("used", range(4))
def test_a_perceptron_uses_only_the_selected_inputs(vector_space, choice_space, batch, used):
    flags = {name: position == used for position, name in enumerate(INPUTS)}
    net = BasicRewardNet(vector_space, choice_space, **flags)
    for position in range(4):
        same = np.array_equal(net.predict(*batch), net.predict(*changed(batch, position)))
        assert same == (position != used)


def test_a_perceptron_has_two_hidden_layers_by_default(vector_space, choice_space):
    net = BasicRewardNet(vector_space, choice_space, use_next_state=True, use_done=True)
    shapes = [tuple(p.shape) for p in net.parameters() if p.ndim == 2]
    assert shapes == [(32, 3 + 4 + 3 + 1), (32, 32), (1, 32)]
    net = BasicRewardNet(
        vector_space, choice_space, hid_sizes=(n for n in (8,)), activation=th.nn.Tanh
    )
    assert [tuple(p.shape) for p in net.parameters() if p.ndim == 2] == [(8, 7), (1, 8)]
    assert isinstance(net.mlp.act0, th.nn.Tanh)


def test_unused_inputs_of_a_perceptron_may_be_none(vector_space, choice_space):
    net = BasicRewardNet(vector_space, choice_space, use_action=False)
    assert net(th.zeros(5, 3), None, None, None).shape == (5,)


def test_a_perceptron_flattens_images(image_batch):
    assert BasicRewardNet(IMAGE, spaces.Discrete(3)).predict(*image_batch).shape == (6,)


def test_a_network_without_inputs_is_refused(vector_space, choice_space):
    with pytest.raises(ValueError, match="all False"):
        BasicRewardNet(vector_space, choice_space, use_state=False, use_action=False)
    with pytest.raises(ValueError, match="both False"):
        CnnRewardNet(IMAGE, choice_space, use_state=False)


@pytest.mark.parametrize("used", [(0,), (2,), (0, 1), (0, 3), (1, 2, 3), (0, 1, 2, 3)])
def test_a_convolutional_network_uses_only_the_selected_inputs(image_batch, used):
    flags = {name: position in used for position, name in enumerate(INPUTS)}
    net = CnnRewardNet(IMAGE, spaces.Discrete(3), **flags)
    for position in range(4):
        other = net.predict(*changed(image_batch, position))
        assert np.array_equal(net.predict(*image_batch), other) == (position not in used)


@pytest.mark.parametrize(
    ("use_action", "use_done", "expected"),
    [
        (False, False, [0, 0, 0, 0, 0, 0]),
        (True, False, [0, 1, 2, 0, 1, 2]),
        (False, True, [0, 0, 0, 1, 1, 1]),
        (True, True, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_action_and_end_select_the_output(image_batch, use_action, use_done, expected):
    net = CnnRewardNet(IMAGE, spaces.Discrete(3), use_action=use_action, use_done=use_done)
    last = net.cnn.dense_final
    with th.no_grad():
        last.weight.zero_()
        last.bias.copy_(th.arange(len(last.bias)))
    assert net.predict(*image_batch).tolist() == expected


@pytest.mark.parametrize("both", [False, True])
def test_channels_may_come_first_or_last(image_batch, both):
    state, action, next_state, done = image_batch
    last = CnnRewardNet(IMAGE, spaces.Discrete(3), use_next_state=both)
    first = CnnRewardNet(CHANNELS_FIRST, spaces.Discrete(3), use_next_state=both, hwc_format=False)
    first.load_state_dict(last.state_dict())
    moved = [images.transpose(0, 3, 1, 2).copy() for images in (state, next_state)]
    np.testing.assert_allclose(
        first.predict(moved[0], action, moved[1], done), last.predict(*image_batch), atol=1e-6
    )
    assert last.get_num_channels_obs(IMAGE) == first.get_num_channels_obs(CHANNELS_FIRST) == 3


def test_images_may_be_floats(image_batch):
    state, action, next_state, done = image_batch
    of_bytes = CnnRewardNet(IMAGE, spaces.Discrete(3))
    of_floats = CnnRewardNet(spaces.Box(0.0, 1.0, (4, 5, 3)), spaces.Discrete(3))
    of_floats.load_state_dict(of_bytes.state_dict())
    np.testing.assert_allclose(
        of_floats.predict(state / 255, action, next_state / 255, done),
        of_bytes.predict(*image_batch),
        atol=1e-6,
    )


def test_an_empty_batch_of_images_has_no_rewards(image_batch):
    net = CnnRewardNet(IMAGE, spaces.Discrete(3), use_done=True)
    assert net.predict(*(part[:0] for part in image_batch)).shape == (0,)


def test_hidden_channels_can_be_chosen():
    net = CnnRewardNet(IMAGE, spaces.Discrete(3), hid_channels=[7], kernel_size=1)
    assert net.cnn.conv0.weight.shape == (7, 3, 1, 1)
    assert not hasattr(net.cnn, "conv1")


NO_IMAGES = [
    spaces.Box(0, 255, (4, 5), np.uint8),
    spaces.Box(0, 254, (4, 5, 3), np.uint8),
    spaces.Box(1, 255, (4, 5, 3), np.uint8),
    spaces.Box(0, 255, (4, 5, 3), np.float32),
    spaces.Box(0, 255, (4, 5, 3), np.int32),
    spaces.Box(-np.inf, np.inf, (4, 5, 3)),
]


def test_unsupported_spaces_of_a_convolutional_network_are_refused(vector_space, choice_space):
    with pytest.raises(ValueError, match="observation_space: needs images"):
        CnnRewardNet(vector_space, choice_space)
    for space in NO_IMAGES:
        with pytest.raises(ValueError, match="observation_space: needs images"):
            CnnRewardNet(space, choice_space)
        with pytest.raises(ValueError, match="observation_space: needs images"):
            BasicPotentialCNN(space, [4])
    with pytest.raises(ValueError, match="action_space: a CnnRewardNet needs Discrete"):
        CnnRewardNet(IMAGE, vector_space)
    CnnRewardNet(IMAGE, vector_space, use_action=False)


def test_transposing_moves_channels_to_the_front():
    images = th.arange(2 * 4 * 5 * 3).reshape(2, 4, 5, 3)
    transposed = cnn_transpose(images)
    assert transposed.shape == (2, 3, 4, 5)
    assert th.equal(transposed[:, 1], images[..., 1])
    with pytest.raises(ValueError, match="four dimensions"):
        cnn_transpose(images[0])


@pytest.mark.parametrize("number", [1, 7, 8])
def test_large_batches_of_images_give_the_results_of_single_images(number):
    space = spaces.Box(0, 255, (84, 84, 4), np.uint8)
    net = CnnRewardNet(space, spaces.Discrete(3))
    rng = np.random.default_rng(0)
    state = rng.integers(256, size=(number, *space.shape), dtype=np.uint8)
    batch = (state, rng.integers(3, size=number), state, np.zeros(number, bool))
    alone = [net.predict(*(part[i : i + 1] for part in batch)) for i in range(number)]
    np.testing.assert_allclose(net.predict(*batch), np.concatenate(alone), rtol=1e-5)
    net(*net.preprocess(*batch)).sum().backward()
    together = [parameter.grad for parameter in net.parameters()]
    net.zero_grad()
    for i in range(number):
        net(*net.preprocess(*(part[i : i + 1] for part in batch))).sum().backward()
    for expected, parameter in zip(together, net.parameters(), strict=True):
        th.testing.assert_close(parameter.grad, expected, rtol=1e-3, atol=1e-3)
