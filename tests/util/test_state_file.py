"""State files hold plain data, come back exactly, and are never half true."""

import random

import numpy as np
import pytest
import torch as th

from imitbench.errors import InputError
from imitbench.util.state_file import load_state, save_state


def test_everything_comes_back_as_it_was(tmp_path):
    rng = np.random.default_rng(0)
    state = {
        "tensor": th.arange(6.0)[2:],
        "array": rng.normal(size=(2, 3)),
        "flags": np.array([True, False]),
        "unsigned": np.arange(3, dtype=np.uint32),
        "scalar": np.float32(0.1),
        "nothing": None,
        "text": "ä",
        "huge": 2**127,
        "list": [1, (2.5, "x")],
        3: {"nested": True},
        "generators": [rng.bit_generator.state, random.getstate()],
        "legacy": np.random.RandomState(1).get_state(legacy=False),
    }
    save_state(tmp_path / "a.state", state)
    back = load_state(tmp_path / "a.state")
    assert list(back) == list(state)
    for key in ("array", "flags", "unsigned", "scalar"):
        np.testing.assert_array_equal(back[key], state[key], strict=True)
        assert type(back[key]) is type(state[key])
    for key in ("nothing", "text", "huge", "list", 3, "generators"):
        assert back[key] == state[key]
    assert th.equal(back["tensor"], state["tensor"])
    restored = np.random.RandomState()
    restored.set_state(back["legacy"])
    assert restored.random() == np.random.RandomState(1).random()


def test_the_part_of_a_tensor_does_not_bring_the_whole_along(tmp_path):
    save_state(tmp_path / "a.state", th.zeros(1_000_000)[:2])
    assert (tmp_path / "a.state").stat().st_size < 10_000


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, np.array([object()]), lambda: None], ids=lambda v: type(v).__name__
)
def test_objects_are_refused_by_name(value, tmp_path):
    with pytest.raises(TypeError, match=r"state\['a'\]\[1\] is a"):
        save_state(tmp_path / "a.state", {"a": [0, value]})
    assert not (tmp_path / "a.state").exists()


def test_damage_is_noticed(tmp_path):
    path = tmp_path / "a.state"
    save_state(path, {"a": th.ones(100)})
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(InputError, match="truncated or altered"):
        load_state(path)
    path.write_bytes(content[:200] + bytes([content[200] ^ 1]) + content[201:])
    with pytest.raises(InputError, match="truncated or altered"):
        load_state(path)
    with pytest.raises(InputError, match="no such file"):
        load_state(tmp_path / "none.state")
