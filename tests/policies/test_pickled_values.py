"""Arrays, numbers and spaces are rebuilt from pickles that were read as data."""

import pickle

import numpy as np
import pytest
from gymnasium import spaces

from imitbench.policies.pickled_values import ADMITTED, array_of, dtype_of, space_of
from imitbench.util.safe_unpickler import PickledName, RefusedPickleError, read_safely

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


def anything(_name):
    return True


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float64).reshape(2, 3),
        np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
        np.arange(6, dtype=">i4")[::2],
        np.array(3.5),
        np.zeros((0, 4)),
        np.array([True, False]),
        np.float32(1.25),
        np.int64(-3),
    ],
    ids=repr,
)
def test_arrays_of_any_protocol_are_read(protocol, array):
    found = array_of(read_safely(pickle.dumps(array, protocol), ADMITTED))
    np.testing.assert_array_equal(found, array)
    assert found.dtype == np.dtype(array.dtype).newbyteorder("=")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-2.0, 2.0, (1,), np.float32),
        spaces.Box(0, 255, (4, 5, 3), np.uint8),
        spaces.Box(np.array([-1, -np.inf]), np.array([1, np.inf]), dtype=np.float64),
        spaces.Discrete(3, start=-1),
        spaces.MultiDiscrete([2, 3]),
        spaces.MultiBinary(4),
        spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Box(0, 1, (2,))}),
    ],
    ids=str,
)
def test_spaces_are_read_with_their_generators_ignored(protocol, space):
    space.seed(3)
    assert space_of(read_safely(pickle.dumps(space, protocol), ADMITTED)) == space


def test_arrays_of_objects_are_refused():
    for value in (np.array([{}, None]), np.array(["text"]), np.array([(1, 2.0)], dtype="i4,f8")):
        with pytest.raises(RefusedPickleError):
            array_of(read_safely(pickle.dumps(value), anything))
    with pytest.raises(RefusedPickleError, match="instead of a numeric data type"):
        dtype_of(PickledName("numpy", "load"))


def test_dictionaries_of_dictionaries_are_refused():
    nested = spaces.Dict({"a": spaces.Dict({"b": spaces.Discrete(2)})})
    with pytest.raises(RefusedPickleError, match="a dictionary of dictionaries"):
        space_of(read_safely(pickle.dumps(nested), ADMITTED))
