"""Zips of Stable-Baselines3 are read as data, regardless of their content."""

import base64
import io
import json
import pickle
import zipfile

import pytest
import torch as th
from stable_baselines3 import PPO
from support.drift import drift_venv

from imitbench.errors import InputError
from imitbench.policies.sb3_zip import UnreadObject, read_sb3_zip


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    """Files of a zip that Stable-Baselines3 wrote, by name."""
    path = tmp_path_factory.mktemp("zip") / "model.zip"
    kwargs = {"activation_fn": th.nn.ReLU, "net_arch": [8]}
    PPO("MlpPolicy", drift_venv(), n_steps=8, batch_size=8, policy_kwargs=kwargs).save(path)
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path, files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def tensors(state):
    stream = io.BytesIO()
    th.save(state, stream)
    return stream.getvalue()


class Bomb:
    """Creates a file when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return (open, (str(self.mark), "w"))


def test_plain_values_and_tensors_are_read(content, tmp_path):
    archive = read_sb3_zip(write(tmp_path / "a.zip", content))
    assert archive.data["n_steps"] == 8
    assert archive.weights["action_net.weight"].shape == (2, 8)
    assert archive.optimizers["policy.optimizer"]["param_groups"][0]["lr"] == 3e-4
    assert archive.variables == {}


def test_pickled_values_are_represented_by_their_text(content, tmp_path):
    settings = read_sb3_zip(write(tmp_path / "a.zip", content)).data["policy_kwargs"]
    assert isinstance(settings, UnreadObject)
    assert settings.shown == {
        "activation_fn": "<class 'torch.nn.modules.activation.ReLU'>",
        "net_arch": [8],
    }


def test_nothing_is_unpickled(content, tmp_path):
    mark = tmp_path / "executed"
    data = json.loads(content["data"])
    pickled = base64.b64encode(pickle.dumps(Bomb(mark))).decode()
    data["policy_kwargs"][":serialized:"] = pickled
    read_sb3_zip(write(tmp_path / "a.zip", {**content, "data": json.dumps(data)}))
    bomb = tensors({"action_net.weight": Bomb(mark)})
    with pytest.raises(InputError, match=r"'policy\.pth' is not plain tensors"):
        read_sb3_zip(write(tmp_path / "b.zip", {**content, "policy.pth": bomb}))
    assert not mark.exists()


@pytest.mark.parametrize(
    ("name", "replacement", "message"),
    [
        ("data", None, "it has no 'data'"),
        ("policy.pth", None, r"it has no 'policy\.pth'"),
        ("data", b"{", "'data' is not JSON"),
        ("data", b"[1]", "must be a JSON object"),
        ("data", b"[" * 100_000, "'data' is not JSON"),
        ("policy.pth", b"x", "not plain tensors"),
        ("policy.pth", tensors([1]), "must contain named tensors"),
        ("policy.pth", tensors({"a": 1}), "'a' is not a tensor"),
        ("pytorch_variables.pth", tensors({"a": "b"}), "'a' is not a tensor"),
    ],
)
def test_damage_is_refused_in_one_line(content, tmp_path, name, replacement, message):
    files = {**content, name: replacement}
    path = write(tmp_path / "a.zip", {k: v for k, v in files.items() if v is not None})
    with pytest.raises(InputError, match=message) as caught:
        read_sb3_zip(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_truncated_and_missing_files_are_refused(content, tmp_path):
    path = write(tmp_path / "a.zip", content)
    path.write_bytes(path.read_bytes()[:-100])
    # The tensor files inside are zips too, so that the end looks like that of another zip.
    with pytest.raises(InputError, match="or truncated: it has no 'data'"):
        read_sb3_zip(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_sb3_zip(tmp_path / "absent.zip")


def test_a_changed_byte_is_detected(content, tmp_path):
    path = write(tmp_path / "a.zip", content)
    data = bytearray(path.read_bytes())
    data[data.index(b'"n_steps"') + 2] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(InputError, match="not a readable zip"):
        read_sb3_zip(path)
