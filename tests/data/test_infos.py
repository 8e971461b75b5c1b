import numpy as np
import pytest

from imitbench.data.infos import OPAQUE, decode_infos, encode_infos
from imitbench.data.observations import DictObs


def test_json_values_survive_the_round_trip():
    infos = [{}, {"a": 1, "b": [1.5, "x", None, True]}, {"nested": {"c": 2}}]
    assert decode_infos(encode_infos(infos)).tolist() == infos


def test_numpy_values_become_numbers_and_lists():
    info = {
        "scalar": np.float32(0.5),
        "flag": np.bool_(True),
        "array": np.arange(4).reshape(2, 2),
        "obs": DictObs({"x": np.ones(2)}),
    }
    (decoded,) = decode_infos(encode_infos([info]))
    assert decoded == {
        "scalar": 0.5,
        "flag": True,
        "array": [[0, 1], [2, 3]],
        "obs": {"x": [1.0, 1.0]},
    }


def test_non_finite_numbers_survive_the_round_trip():
    (decoded,) = decode_infos(encode_infos([{"a": float("inf"), "b": np.float64("nan")}]))
    assert decoded["a"] == float("inf")
    assert np.isnan(decoded["b"])


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", {("tuple", "key"): 1}])
def test_values_that_json_cannot_hold_are_refused_by_key(value):
    with pytest.raises(ValueError, match="step 1, key 'culprit'"):
        encode_infos([{}, {"fine": 1, "culprit": value}])


def test_a_cycle_is_refused_by_key():
    cycle = []
    cycle.append(cycle)
    with pytest.raises(ValueError, match="key 'culprit'"):
        encode_infos([{"culprit": cycle}])


@pytest.mark.parametrize(
    "text",
    [
        '{"a": {"py/reduce": [{"py/function": "os.system"}, {"py/tuple": ["true"]}]}}',
        '{"py/object": "builtins.object"}',
        "[1, 2]",
        "not json",
        "",
        "[" * 100_000,
    ],
)
def test_other_text_is_kept_undecoded_and_written_back_unchanged(text):
    decoded = decode_infos([text])
    assert decoded.tolist() == [{OPAQUE: text}]
    assert encode_infos(decoded) == [text]


def test_empty_infos_do_not_share_one_dictionary():
    first, second = decode_infos(["{}", "{}"])
    first["a"] = 1
    assert second == {}
