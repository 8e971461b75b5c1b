"""Pickles read as data: what is in them is described, and nothing is imported, called or built."""

import collections
import io
import os
import pickle
import struct

import pytest
from gymnasium import spaces
from support.bombs import Bomb

from imitbench.util.safe_unpickler import PickledObject, RefusedPickleError, names_in, read_safely

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


def anything(_name):
    return True


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_plain_values_come_as_they_are(protocol):
    value = [
        None, True, False, 7, -(2**70), 1.5, "text", "ünï", (), (1,), (1, 2), (1, 2, 3), (1,) * 4,
        {"a": [1, {"b": 2}], 3: 4}, [], {}, list(range(300)), "x" * 300,
    ]  # fmt: skip
    assert read_safely(pickle.dumps(value, protocol), anything) == value


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_objects_are_told_by_name_arguments_and_state(protocol):
    found = read_safely(pickle.dumps(collections.OrderedDict(a=1), protocol), anything)
    assert isinstance(found, PickledObject)
    assert found.kind == "collections.OrderedDict"
    found = read_safely(pickle.dumps(spaces.Discrete(3), protocol), anything)
    assert found.kind == "gymnasium.spaces.discrete.Discrete"
    assert {"n", "start"} <= found.attributes.keys()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_bomb_is_data(tmp_path, protocol):
    mark = tmp_path / "executed"
    data = pickle.dumps([Bomb(mark)], protocol)
    [found] = read_safely(data, anything)
    assert found.arguments == (str(mark), "w")
    with pytest.raises(RefusedPickleError, match=r"it refers to i?o.*open, which is not allowed"):
        read_safely(data, names_in(modules=("numpy",), names=()))
    assert not mark.exists()
    pickle.loads(data)
    assert mark.exists()  # it would have gone off


class Persistent(pickle.Pickler):
    def persistent_id(self, value):
        return "there" if value == "elsewhere" else None


def test_references_to_elsewhere_are_refused():
    stream = io.BytesIO()
    Persistent(stream, 2).dump(["elsewhere"])
    with pytest.raises(RefusedPickleError, match="uses BINPERSID"):
        read_safely(stream.getvalue(), anything)
    with pytest.raises(RefusedPickleError, match="uses EXT1"):
        read_safely(b"\x80\x02\x82\x01.", anything)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no pickle",
        b"\x80\x04",
        b".",
        b"(.",
        b"(((((",
        pickle.dumps([1, 2, 3])[:-4],
        b"\x80\x04" + b"\x8e" + struct.pack("<Q", 2**40) + b".",  # claims a terabyte of bytes
        b"\x80\x02h\x07.",  # reads what nobody wrote
        b"\x80\x02]K\x01b.",  # gives a list a state
        b"\x80\x02)K\x01a.",  # appends to a tuple
        b"\x80\x02}]K\x01s.",  # a list as key
        b"I" + b"9" * 5000 + b"\n.",
        b"\x80\x02" + b"N" * 1_000_001 + b".",
    ],
    ids=lambda data: repr(data[:12]),
)
def test_damage_is_refused(data):
    with pytest.raises(RefusedPickleError) as caught:
        read_safely(data, anything)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_far_place_in_memory_takes_no_memory():
    far = b"\x80\x02K\x07r" + struct.pack("<I", 2**32 - 1) + b"j" + struct.pack("<I", 2**32 - 1)
    assert read_safely(far + b".", anything) == 7


def test_endless_nesting_and_repetition_are_survived():
    deep = b"\x80\x02" + b"(" * 100_000 + b"t" * 100_000 + b"."
    assert isinstance(read_safely(deep, anything), tuple)
    # Sixty doublings of a list: harmless until somebody prints or walks it.
    doubled = b"\x80\x02]" + b"".join(
        b"q" + bytes([i]) + b"0" + b"h" + bytes([i]) + b"h" + bytes([i]) + b"\x86"
        for i in range(60)
    )
    called = b"\x80\x02" + doubled[2:] + b")R."
    assert read_safely(called, anything).kind == "an object of an unnamed class"


def test_nothing_is_imported(monkeypatch):
    monkeypatch.setattr("builtins.__import__", lambda name, *_: pytest.fail(f"imported {name}"))
    found = read_safely(b"cos\nsystem\n(S'true'\ntR.", anything)
    monkeypatch.undo()
    assert (found.kind, found.arguments) == ("os.system", ("true",))
    assert os.system  # still the same
