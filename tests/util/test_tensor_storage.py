"""What stored networks share: arguments as JSON, and weights that agree with their digest."""

import json

import numpy as np
import pytest
import torch as th
from pydantic import BaseModel, ConfigDict
from torch import nn

from imitbench.errors import InputError
from imitbench.util.networks import RunningNorm
from imitbench.util.tensor_storage import (
    LAYER_TYPES,
    ArgumentCodec,
    digest,
    read_description,
    read_weights,
    weights_to_bytes,
    write_network,
)

CODEC = ArgumentCodec("thing", LAYER_TYPES)


class Description(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    size: int
    sha256: str


def test_arguments_survive_as_json():
    arguments = {"layer": nn.Tanh, "sizes": [1, 2], "more": {"norm": RunningNorm, "rate": 0.1}}
    text = json.dumps(CODEC.encode({**arguments, "none": None}))
    assert CODEC.decode(json.loads(text)) == {**arguments, "none": None}


@pytest.mark.parametrize("value", [nn.Linear, np.float32(1), lambda: 0, [object()]])
def test_arguments_that_are_no_plain_data_are_refused(value):
    with pytest.raises(ValueError, match=r"^thing: .* cannot be stored"):
        CODEC.encode({"argument": value})


def test_classes_that_are_not_on_the_list_are_refused():
    with pytest.raises(ValueError, match=r"'os\.system' is not known"):
        CODEC.decode([{"$type": "os.system"}])


@pytest.fixture
def folder(tmp_path):
    weights = weights_to_bytes(nn.Linear(2, 1))
    write_network(
        tmp_path / "weights",
        weights,
        tmp_path / "thing.json",
        Description(size=3, sha256=digest(weights)),
    )
    return tmp_path


def test_what_was_written_is_read(folder):
    description = read_description(folder / "thing.json", Description, "thing")
    assert description.size == 3
    tensors = read_weights(folder / "weights", description.sha256, "thing.json")
    assert {name: tuple(t.shape) for name, t in tensors.items()} == {"weight": (1, 2), "bias": (1,)}
    assert all(isinstance(tensor, th.Tensor) for tensor in tensors.values())


def test_weights_with_another_digest_are_refused(folder):
    with pytest.raises(InputError, match=r"truncated or altered .* thing\.json"):
        read_weights(folder / "weights", "0" * 64, "thing.json")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"size": "3"}', '{"size": 3, "more": 1}'])
def test_descriptions_of_another_form_are_refused(folder, text):
    (folder / "thing.json").write_text(text)
    with pytest.raises(InputError, match=r"thing\.json"):
        read_description(folder / "thing.json", Description, "thing")


def test_missing_files_are_told(folder):
    with pytest.raises(InputError, match="the folder of a thing"):
        read_description(folder / "absent" / "thing.json", Description, "thing")
    with pytest.raises(InputError, match="cannot be read"):
        read_description(folder / "thing.json" / "thing.json", Description, "thing")
    with pytest.raises(InputError, match="cannot be read"):
        read_weights(folder / "absent", "", "thing.json")
