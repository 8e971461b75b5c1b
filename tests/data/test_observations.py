import numpy as np
import pytest

from imitbench.data.observations import (
    DictObs,
    assert_not_dictobs,
    concatenate_maybe_dictobs,
    map_maybe_dict,
    maybe_unwrap_dictobs,
    maybe_wrap_in_dictobs,
    stack_maybe_dictobs,
    values_equal,
)


@pytest.fixture
def obs():
    return DictObs({"a": np.arange(6.0).reshape(3, 2), "b": np.array([7, 8, 9])})


def test_length_is_the_shared_first_dimension(obs):
    assert len(obs) == 3
    assert obs.dict_len == 2


@pytest.mark.parametrize("arrays", [{}, {"a": np.zeros(2), "b": np.zeros(3)}, {"a": np.array(1.0)}])
def test_arrays_that_share_no_length_have_none(arrays):
    with pytest.raises(RuntimeError, match="share no length"):
        len(DictObs(arrays))


def test_indexing_applies_to_every_array(obs):
    assert obs[1] == DictObs({"a": np.array([2.0, 3.0]), "b": np.array(8)})
    assert obs[1:] == DictObs({"a": np.array([[2.0, 3.0], [4.0, 5.0]]), "b": np.array([8, 9])})
    assert obs[np.array([True, False, True])].get("b").tolist() == [7, 9]
    assert obs[np.array([2, 0])].get("b").tolist() == [9, 7]


def test_stacking_the_entries_gives_the_batch_back(obs):
    assert DictObs.stack(list(obs)) == obs
    assert stack_maybe_dictobs(list(obs)) == obs
    assert DictObs.from_obs_list([entry.unwrap() for entry in obs]) == obs


def test_concatenating_parts_gives_the_whole_back(obs):
    assert concatenate_maybe_dictobs([obs[:1], obs[1:]]) == obs
    whole = np.arange(4)
    assert concatenate_maybe_dictobs([whole[:1], whole[1:]]).tolist() == [0, 1, 2, 3]


def test_different_keys_do_not_join(obs):
    with pytest.raises(ValueError, match="different keys"):
        DictObs.concatenate([obs, DictObs({"a": np.zeros((1, 2))})])


@pytest.mark.parametrize("join", [stack_maybe_dictobs, concatenate_maybe_dictobs])
def test_arrays_and_dictionaries_do_not_join(join, obs):
    with pytest.raises(ValueError, match="all arrays or all DictObs"):
        join([obs, np.zeros(3)])
    with pytest.raises(ValueError, match="all arrays or all DictObs"):
        join([])


def test_values_must_be_arrays_or_numbers():
    for error in (ValueError, TypeError):  # the reference raises a TypeError
        with pytest.raises(error, match="'a' is a list"):
            DictObs({"a": [1, 2]})
    assert DictObs({"a": 2}).get("a").shape == ()


def test_shape_dtype_and_map_work_per_key(obs):
    assert obs.shape == {"a": (3, 2), "b": (3,)}
    assert obs.dtype == {"a": np.dtype(float), "b": np.dtype(int)}
    assert obs.map_arrays(lambda x: x[:1]).shape == {"a": (1, 2), "b": (1,)}


def test_wrapping_and_unwrapping_keep_arrays_unchanged(obs):
    array = np.zeros(3)
    assert maybe_wrap_in_dictobs(array) is array
    assert maybe_unwrap_dictobs(array) is array
    assert maybe_wrap_in_dictobs(obs) is obs
    assert maybe_wrap_in_dictobs(maybe_unwrap_dictobs(obs)) == obs
    assert assert_not_dictobs(array) is array
    with pytest.raises(ValueError, match="not supported"):
        assert_not_dictobs(obs)


def test_map_maybe_dict_maps_values_or_the_argument():
    assert map_maybe_dict(len, {"a": "xy"}) == {"a": 2}
    assert map_maybe_dict(len, "xyz") == 3


def test_equality_compares_values_and_keys(obs):
    assert obs != DictObs({"a": obs.get("a"), "b": obs.get("b") + 1})
    assert obs != DictObs({"a": obs.get("a")})
    assert obs != {"a": obs.get("a"), "b": obs.get("b")}


def test_values_equal_compares_arrays_of_dictionaries_of_arrays():
    def infos(last):
        array = np.empty(2, dtype=object)
        array[:] = [{}, {"seen": np.array([1.0, last])}]
        return array

    assert values_equal(infos(2.0), infos(2.0))
    assert not values_equal(infos(2.0), infos(3.0))
    assert not values_equal(np.zeros(2), None)
    assert not values_equal(np.zeros(2), np.zeros(3))
