"""Elements of spaces are encoded as float tensors."""

import copy
import pickle

import numpy as np
import pytest
import torch as th
from gymnasium import spaces

from imitbench.rewards.base import encoded_size, make_encoder

CPU = th.device("cpu")
IMAGE = spaces.Box(0, 255, (4, 5, 3), np.uint8)


def encode(space, batch, normalize_images=True, dtype=th.float32):
    encoder = make_encoder(space, argument="space", name="batch", normalize_images=normalize_images)
    encoded = encoder(batch, CPU, dtype)
    assert encoded.shape[1:] == encoder.encoded_shape
    assert encoded.dtype == dtype
    assert np.prod(encoder.encoded_shape) == encoded_size(space, "space")
    return encoded.numpy()


def test_numbers_are_only_converted_to_the_data_type_of_the_network():
    numbers = np.array([[0.25, -3.0], [1.0, 2.0]])
    space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    np.testing.assert_array_equal(encode(space, numbers), numbers.astype(np.float32))
    np.testing.assert_array_equal(encode(space, numbers, dtype=th.float64), numbers)


def test_scalars_become_vectors_of_length_one():
    space = spaces.Box(-10.0, 10.0, ())
    np.testing.assert_array_equal(encode(space, np.array([1.5, -2.0])), [[1.5], [-2.0]])


def test_uint8_images_are_scaled_on_request():
    images = np.full((2, 4, 5, 3), 51, np.uint8)
    assert (encode(IMAGE, images) == np.float32(0.2)).all()
    assert (encode(IMAGE, images, normalize_images=False) == 51).all()


def test_a_discrete_value_becomes_a_one_hot_vector():
    expected = [[0, 0, 1], [1, 0, 0]]
    np.testing.assert_array_equal(encode(spaces.Discrete(3), np.array([2, 0])), expected)
    np.testing.assert_array_equal(encode(spaces.Discrete(3), np.array([[2], [0]])), expected)
    np.testing.assert_array_equal(encode(spaces.Discrete(3, start=5), np.array([7, 5])), expected)


def test_a_large_discrete_space_is_encoded_without_a_table():
    encoded = encode(spaces.Discrete(100_000), np.array([99_999, 3]))
    assert encoded.argmax(1).tolist() == [99_999, 3]
    assert encoded.sum() == 2


@pytest.mark.parametrize("start", [None, [1, 4]])
def test_several_discrete_values_become_concatenated_one_hot_vectors(start):
    space = spaces.MultiDiscrete([2, 3], start=start)
    batch = np.array([[0, 2], [1, 0]]) + (start or 0)
    np.testing.assert_array_equal(encode(space, batch), [[1, 0, 0, 0, 1], [0, 1, 1, 0, 0]])


def test_bits_are_unchanged():
    bits = np.array([[1, 0, 1]], np.int8)
    np.testing.assert_array_equal(encode(spaces.MultiBinary(3), bits), [[1, 0, 1]])


@pytest.mark.parametrize(
    ("space", "wrong"),
    [
        (spaces.Discrete(3), [3]),
        (spaces.Discrete(3), [-1]),
        (spaces.Discrete(3, start=1), [0]),
        (spaces.Discrete(100_000), [100_000]),
        (spaces.MultiDiscrete([2, 3]), [[2, 0]]),
        (spaces.MultiDiscrete([2, 3]), [[0, -1]]),
    ],
)
def test_a_discrete_value_outside_the_space_is_refused(space, wrong):
    with pytest.raises(ValueError, match="batch holds a value that is not in its space"):
        encode(space, np.array(wrong))


@pytest.mark.parametrize(
    ("space", "shape"),
    [
        (spaces.Box(0, 1, (2, 3)), (7, 3, 2)),
        (spaces.Box(0, 1, (2,)), ()),
        (spaces.Discrete(3), (7, 2)),
        (spaces.MultiDiscrete([2, 3]), (7,)),
    ],
)
def test_a_batch_of_another_shape_is_refused(space, shape):
    with pytest.raises(ValueError, match="batch has shape"):
        encode(space, np.zeros(shape, np.int64))


@pytest.mark.parametrize("space", [spaces.Discrete(3), spaces.MultiDiscrete([2, 3])])
def test_an_empty_batch_is_encoded_as_empty(space):
    assert len(encode(space, np.zeros((0, *space.shape), np.int64))) == 0


def test_tensors_that_fit_are_not_copied():
    tensor = th.rand(4, 2)
    encoder = make_encoder(
        spaces.Box(0, 1, (2,)), argument="space", name="batch", normalize_images=True
    )
    assert encoder(tensor, CPU, th.float32) is tensor


def test_read_only_arrays_are_copied():
    array = np.ones((4, 2), np.float32)
    array.flags.writeable = False
    encoder = make_encoder(
        spaces.Box(0, 1, (2,)), argument="space", name="batch", normalize_images=True
    )
    encoder(array, CPU, th.float32).zero_()
    assert (array == 1).all()


@pytest.mark.parametrize("space", [spaces.Dict({"a": IMAGE}), spaces.Tuple([IMAGE])])
def test_composite_spaces_are_refused_by_the_name_of_the_argument(space):
    with pytest.raises(ValueError, match=r"^observation_space: .*not supported"):
        make_encoder(space, argument="observation_space", name="state", normalize_images=True)


def test_encoders_can_be_copied_and_pickled():
    encoder = make_encoder(
        spaces.Discrete(3), argument="space", name="batch", normalize_images=True
    )
    for again in (copy.deepcopy(encoder), pickle.loads(pickle.dumps(encoder))):
        assert again(np.array([1]), CPU, th.float32).tolist() == [[0, 1, 0]]


@pytest.mark.parametrize(
    ("space", "batch"),
    [
        (IMAGE, np.zeros((2, 4, 5, 3), np.uint8)),
        (spaces.Discrete(3), np.array([0, 2])),
        (spaces.Discrete(100_000, start=1), np.array([1, 2])),
        (spaces.MultiDiscrete([2, 3]), np.array([[0, 2], [1, 0]])),
    ],
)
def test_a_batch_is_moved_to_the_device_of_the_network(space, batch):
    encoder = make_encoder(space, argument="space", name="batch", normalize_images=True)
    elsewhere = th.device("meta")  # the one other device that every machine has
    for given in (batch, th.from_numpy(batch), th.from_numpy(batch).to(elsewhere)):
        encoded = encoder(given, elsewhere, th.float32)
        assert (encoded.device, encoded.dtype) == (elsewhere, th.float32)
        assert encoded.shape == (2, *encoder.encoded_shape)
