"""Malicious policy files: none is executed or fills the memory; each is refused in one line."""

import io
import json
import stat
import tarfile
import zipfile

import pytest
import torch as th
from safetensors.torch import load, save
from support.bombs import Bomb, read_zip, tensor_file, with_bombs_in_data, write_zip
from support.drift import drift_venv
from support.sb3_models import SMALL, ppo

from imitbench.errors import InputError
from imitbench.policies.expert import Spaces, load_expert_policy
from imitbench.policies.storage import save_policy
from imitbench.util.tensor_storage import digest

GIB = 2**30


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files of a zip that Stable-Baselines3 wrote, by name."""
    path = tmp_path_factory.mktemp("zip") / "model.zip"
    ppo(policy_kwargs=SMALL).save(path)
    return read_zip(path)


@pytest.fixture
def mark(tmp_path):
    return tmp_path / "executed"


def refused(path, message, mark=None):
    venv = drift_venv()
    with pytest.raises(InputError, match=message) as caught:
        load_expert_policy(path, Spaces(venv.observation_space, venv.action_space))
    text = str(caught.value)
    assert path.name in text or path.parent.name in text
    assert "\n" not in text
    assert len(text) < 600
    assert mark is None or not mark.exists()


def test_pickles_in_data_are_not_executed(files, tmp_path, mark):
    data = with_bombs_in_data(files["data"], mark)
    path = write_zip(tmp_path / "a.zip", {**files, "data": data})
    # The printed attributes are sufficient, so the policy is loaded nevertheless.
    venv = drift_venv()
    load_expert_policy(path, Spaces(venv.observation_space, venv.action_space))
    load_expert_policy(path)
    assert not mark.exists()


def old_tar(state):
    """The format of torch's first versions."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name in ("sys_info", "pickle", "tensors", "storages"):
            content = tensor_file(state, _use_new_zipfile_serialization=False)
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


@pytest.mark.parametrize("name", ["policy.pth", "policy.optimizer.pth", "pytorch_variables.pth"])
@pytest.mark.parametrize(
    "saved",
    [
        tensor_file,
        lambda state: tensor_file(state, _use_new_zipfile_serialization=False),
        old_tar,
    ],
    ids=["zip", "legacy", "tar"],
)
def test_pickles_among_tensors_are_not_executed(files, tmp_path, mark, name, saved):
    bomb = saved({"a": Bomb(mark), "b": th.zeros(2)})
    path = write_zip(tmp_path / "a.zip", {**files, name: bomb})
    refused(path, rf"'{name.replace('.', '[.]')}' is not plain tensors", mark)


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil", "a/../../evil", "..\\evil"])
def test_entries_that_point_outside_the_zip_are_refused(files, tmp_path, name):
    path = write_zip(tmp_path / "a.zip", {**files, name: b"x"})
    refused(path, "points outside the zip")
    assert not (tmp_path.parent / "evil").exists()


def test_links_duplicates_and_encrypted_entries_are_refused(files, tmp_path):
    link = zipfile.ZipInfo("system_link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(write_zip(tmp_path / "a.zip", files), "a") as archive:
        archive.writestr(link, "/etc/passwd")
    refused(tmp_path / "a.zip", "is a link")
    path = write_zip(tmp_path / "b.zip", files)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("policy.pth", files["policy.pth"])
    refused(path, r"contains 'policy\.pth' twice")
    data = bytearray(write_zip(tmp_path / "c.zip", files).read_bytes())
    start = data.rindex(b"PK\x01\x02")
    data[start + 8] |= 1
    (tmp_path / "c.zip").write_bytes(bytes(data))
    refused(tmp_path / "c.zip", "is encrypted")


def test_a_zip_that_declares_ten_gigabytes_is_not_unpacked(files, tmp_path):
    path = write_zip(tmp_path / "a.zip", {**files, "policy.pth": b"\0" * 1000})
    data = bytearray(path.read_bytes())
    for start in (data.rindex(b"policy.pth") - 46, data.index(b"policy.pth") - 30):
        offset = start + (24 if data[start : start + 4] == b"PK\x01\x02" else 22)
        data[offset : offset + 4] = (4 * GIB - 2).to_bytes(4, "little")
    path.write_bytes(bytes(data))
    refused(path, "more than any model has")


def test_files_that_expand_a_thousandfold_are_not_unpacked(files, tmp_path):
    zeros = b"\0" * (128 * 2**20)
    for name, content in (("policy.pth", zeros), ("data", zeros), ("system_info.txt", zeros)):
        path = tmp_path / f"{name}.zip"
        write_zip(path, {**files, name: content}, zipfile.ZIP_DEFLATED)
        refused(path, "more than any model has")


def test_tensors_that_expand_are_not_unpacked(files, tmp_path):
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data/0", b"\0" * (16 * 2**20))
    path = write_zip(tmp_path / "a.zip", {**files, "policy.pth": inner.getvalue()})
    refused(path, r"'policy\.pth' unpacks to 16,777,216 bytes")


def test_tensors_that_repeat_a_number_endlessly_are_refused(files, tmp_path):
    endless = th.zeros(1).expand(10**5, 10**7)
    path = write_zip(tmp_path / "a.zip", {**files, "policy.pth": tensor_file({"a": endless})})
    refused(path, "claims 4,000,000,000,000 bytes of tensors")


@pytest.mark.parametrize("kind", ["sparse", "meta"])
def test_tensors_of_other_kinds_are_refused(files, tmp_path, kind):
    tensor = th.zeros(3).to_sparse() if kind == "sparse" else th.zeros(3, device="meta")
    state = {**th.load(io.BytesIO(files["policy.pth"])), "log_std": tensor}
    path = write_zip(tmp_path / "a.zip", {**files, "policy.pth": tensor_file(state)})
    refused(path, r"'policy\.pth'")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"action_net.bias": th.full((2,), float("nan"))}, "not finite"),
        ({"action_net.bias": th.zeros(7)}, "do not fit"),
        ({"action_net.weight": th.zeros(2, 5)}, "do not fit"),
        ({"action_net.weight": th.zeros(2)}, "no matrix"),
        ({"mlp_extractor.policy_net.0.weight": th.zeros(8, 30)}, "observations of 30 numbers"),
        ({"mlp_extractor.policy_net.7.weight": th.zeros(2, 2)}, "not plain linear layers"),
        ({"surprise": th.zeros(2)}, "do not fit"),
    ],
)
def test_invalid_weights_are_refused(files, tmp_path, change, message):
    state = {**th.load(io.BytesIO(files["policy.pth"])), **change}
    path = write_zip(tmp_path / "a.zip", {**files, "policy.pth": tensor_file(state)})
    refused(path, message)


@pytest.mark.parametrize("data", [b"[" * 200_000, b'{"a":' * 200_000, b"\xff\xfe", b"{} {}"])
def test_data_that_is_not_json_is_refused(files, tmp_path, data):
    refused(write_zip(tmp_path / "a.zip", {**files, "data": data}), "'data'")


@pytest.mark.parametrize("keep", [0, 1, 30, 500, 5000, -1, -22, -60])
def test_truncated_zips_are_refused(files, tmp_path, keep):
    path = write_zip(tmp_path / "a.zip", files)
    path.write_bytes(path.read_bytes()[:keep])
    refused(path, "truncated|not a readable zip|no model")


def test_a_space_in_data_that_is_larger_than_the_memory_is_refused(files, tmp_path):
    document = json.loads(files["data"])
    space = document["observation_space"]
    space[":serialized:"] = ""
    space["_shape"] = "[1000000, 1000000]"
    path = write_zip(tmp_path / "a.zip", {**files, "data": json.dumps(document)})
    with pytest.raises(InputError, match="observation_space: cannot be determined"):
        load_expert_policy(path)
    document["action_space"] = {**document["observation_space"], "n": "9" * 9, "_shape": "[]"}
    document["action_space"][":type:"] = "<class 'gymnasium.spaces.discrete.Discrete'>"
    document["observation_space"] = json.loads(files["data"])["observation_space"]
    write_zip(path, {**files, "data": json.dumps(document)})
    with pytest.raises(InputError, match="2 continuous actions, but the environment has Discrete"):
        load_expert_policy(path)


class TestOwnForm:
    """`policy.json` and `policy.safetensors`."""

    @pytest.fixture
    def folder(self, tmp_path):
        save_policy(ppo(policy_kwargs=SMALL).policy, tmp_path / "expert")
        return tmp_path / "expert"

    def describe(self, folder, **changes):
        path = folder / "policy.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    def replace_weights(self, folder, **changes):
        path = folder / "policy.safetensors"
        data = save({**load(path.read_bytes()), **changes})
        path.write_bytes(data)
        self.describe(folder, weights={"file": path.name, "sha256": digest(data)})

    def test_weights_that_are_not_finite_are_refused(self, folder):
        self.replace_weights(folder, log_std=th.full((2,), float("inf")))
        refused(folder, "log_std has numbers that are not finite")

    def test_networks_far_larger_than_the_weights_are_never_built(self, folder):
        kwargs = json.loads((folder / "policy.json").read_text())["kwargs"]
        for widths in ([10**6, 10**6], [3000] * 10_000):
            self.describe(folder, kwargs={**kwargs, "net_arch": widths})
            refused(folder, "far larger than the weights")

    def test_spaces_larger_than_the_memory_are_never_built(self, folder):
        space = {"type": "Box", "dtype": "float32", "low": [0], "high": [1]}
        self.describe(folder, observation_space={**space, "shape": [10**6, 10**6]})
        refused(folder, "larger than any observation")

    def test_other_documents_are_refused(self, folder):
        for text in ("[" * 200_000, "{}", "null", '{"format": "imitbench-policy", "x": 1}'):
            (folder / "policy.json").write_text(text)
            refused(folder, "policy.json")
