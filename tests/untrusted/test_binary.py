"""Binary files that declare absurd sizes, types and shapes are refused."""

import io
import json
import struct
import zipfile

import numpy as np
import pytest
import torch as th
from safetensors.torch import save
from support.drift import drift_venv

from imitbench.data.parquet_source import parquet_files
from imitbench.data.sources import open_trajectories
from imitbench.errors import InputError
from imitbench.experts.measurement import with_own_arguments
from imitbench.policies.expert_folder import open_expert_folder
from imitbench.policies.pickled_values import ADMITTED, array_of, dtype_of, space_of
from imitbench.policies.storage import load_policy
from imitbench.records.runs import EnvironmentSpec
from imitbench.untrusted.archives import check_archive
from imitbench.util.safe_unpickler import (
    PickledName,
    PickledObject,
    RefusedPickleError,
    read_safely,
)
from imitbench.util.spaces import space_from_json
from imitbench.util.tensor_storage import parse_weights


def box(**changes):
    return {
        "type": "Box", "shape": [2], "dtype": "float32", "low": [-1.0], "high": [1.0], **changes
    }  # fmt: skip


SPACES = {
    "nan": box(low=["nan"]),
    "above": box(low=[2.0]),
    "many axes": box(shape=[1] * 70),
    "huge": box(shape=[67_108_864]),
    "huge product": box(shape=[2**20, 2**20]),
    "negative": box(shape=[-2]),
    "float": box(shape=[2.5]),
    "infinite": box(shape=["inf"]),
    "wide": box(shape=[10**30]),
    "no such type": box(dtype="f1"),
    "objects": box(dtype="O"),
    "structured": box(dtype="(1000000,)f8"),
    "type": box(dtype=7),
    "infinite integer": box(dtype="int64", low=["-inf"], high=["inf"]),
    "wide integer": box(dtype="uint8", low=[-1], high=[256]),
    "no bounds": box(low=[]),
    "bounds": box(low=None),
    "nothing": {},
    "list": [],
    "discrete": {"type": "Discrete", "n": -1, "start": 0},
    "discrete wide": {"type": "Discrete", "n": 10**30, "start": 0},
    "discrete start": {"type": "Discrete", "n": 2, "start": 10**30},
    "discrete float": {"type": "Discrete", "n": float("nan"), "start": 0},
    "multi": {"type": "MultiDiscrete", "nvec": [2, 0]},
    "multi huge": {"type": "MultiDiscrete", "nvec": [2**40]},
    "multi start": {"type": "MultiDiscrete", "nvec": [2, 2], "start": [1]},
    "binary": {"type": "MultiBinary", "n": [10**6, 10**6]},
    "dicts": {"type": "Dict", "spaces": {str(n): box(shape=[2**22]) for n in range(9)}},
    "dict of list": {"type": "Dict", "spaces": []},
}


@pytest.mark.parametrize("kind", SPACES)
def test_absurd_spaces_are_refused(kind):
    with pytest.raises(ValueError):
        space_from_json(SPACES[kind])


def nested(depth):
    space = box()
    for _ in range(depth):
        space = {"type": "Dict", "spaces": {"a": space}}
    return space


def test_spaces_may_nest_a_little():
    assert space_from_json(nested(3)).spaces
    with pytest.raises(ValueError, match="too deeply"):
        space_from_json(nested(900))


def npy(array=None, *, shape=None, dtype="<f8"):
    stream = io.BytesIO()
    if array is not None:
        np.save(stream, array)
    else:
        header = {"descr": dtype, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue()


ARRAYS = {
    "steps": {"acts": npy(shape=(10**12,))},
    "rows of nothing": {"acts": npy(shape=(10**12, 0)), "obs": npy(shape=(10**12, 0))},
    "axes": {"obs": npy(shape=(1,) * 40)},
    "negative": {"obs": npy(shape=(-5, 2))},
    "zeros": {"obs": npy(np.zeros((60_000_000, 2), np.uint8))},
    "type": {"obs": npy(shape=(3,), dtype="<f1")},
    "objects": {"obs": npy(shape=(3,), dtype="|O")},
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_npz_that_declares_too_much_is_refused(kind, tmp_path):
    arrays = {
        "obs": npy(np.zeros((3, 2))), "acts": npy(np.zeros((3, 1))), "dones": npy(np.ones(3)),
        **ARRAYS[kind],
    }  # fmt: skip
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in arrays.items():
            archive.writestr(f"{name}.npy", content)
    with pytest.raises(InputError):
        open_trajectories(path).read()


def test_npy_files_of_rows_without_numbers_are_refused(tmp_path):
    for name in ("obs", "acts", "dones"):
        (tmp_path / f"{name}.npy").write_bytes(npy(shape=(10**12, 0)) + b"\0" * 8)
    with pytest.raises(InputError):
        open_trajectories(tmp_path)


def plain_npz(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("obs", "acts", "dones"):
            archive.writestr(f"{name}.npy", npy(np.ones((3, 1))))
    return bytearray(path.read_bytes())


@pytest.mark.parametrize("offset", [20, 24])
def test_a_directory_that_lies_about_sizes_is_refused(offset, tmp_path):
    path = tmp_path / "a.npz"
    data = plain_npz(path)
    assert open_trajectories(path).read()
    place = data.rindex(b"PK\x01\x02") + offset
    data[place : place + 4] = struct.pack("<I", 100_000_000)
    path.write_bytes(data)
    with pytest.raises(InputError):
        open_trajectories(path).read()


def test_members_that_share_bytes_are_refused(tmp_path):
    path = tmp_path / "a.npz"
    data = plain_npz(path)
    entries = [i for i in range(len(data)) if data[i : i + 4] == b"PK\x01\x02"]
    # The second member's entry points to the content of the first, as in overlapping bombs.
    data[entries[1] + 42 : entries[1] + 46] = data[entries[0] + 42 : entries[0] + 46]
    path.write_bytes(data)
    with pytest.raises(InputError):
        open_trajectories(path).read()


def test_names_that_are_not_utf_8_are_refused(tmp_path):
    path = tmp_path / "a.npz"
    data = plain_npz(path)
    for start in (data.rindex(b"PK\x01\x02") + 8, data.rindex(b"PK\x03\x04") + 6):
        data[start + 1] |= 8  # says that the name is UTF-8
    data = data.replace(b"dones.npy", b"d\xff\xfees.npy")
    path.write_bytes(data)
    with pytest.raises(InputError):
        open_trajectories(path).read()


def test_too_many_members_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("IMITBENCH_LIMIT_MEMBERS", "2")
    plain_npz(tmp_path / "a.npz")
    with pytest.raises(InputError, match="IMITBENCH_LIMIT_MEMBERS"):
        open_trajectories(tmp_path / "a.npz")


def zipped(*, packing=zipfile.ZIP_DEFLATED):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", packing) as archive:
        archive.writestr("obs.npy", npy(np.zeros(1000)))
    return bytearray(stream.getvalue())


def put(content, sign, offset, number, size):
    """Writes a number into the first header with a signature."""
    start = bytes(content).index(sign) + offset
    content[start : start + size] = number.to_bytes(size, "little")


LOCAL, CENTRAL = b"PK\x03\x04", b"PK\x01\x02"
LIES = {
    "smaller": (CENTRAL, 24, 100, 4, "two sizes"),
    "larger": (CENTRAL, 24, 10**9, 4, "two sizes|as zip bombs do"),
    "packed smaller": (CENTRAL, 20, 5, 4, "two sizes"),
    "packed larger": (CENTRAL, 20, 10**6, 4, "longer than the file"),
    "larger in its header": (LOCAL, 22, 10**9, 4, "two sizes"),
    "sizes said to stand behind": (LOCAL, 6, 8, 2, "two sizes"),
    "wide sizes": (LOCAL, 22, 0xFFFFFFFF, 4, "two sizes"),
    "checksum": (CENTRAL, 16, 7, 4, "two checksums"),
    "packing": (CENTRAL, 10, 0, 2, "two packings"),
    "place": (CENTRAL, 42, 1, 4, "does not begin where|is longer"),
}


@pytest.mark.parametrize("kind", LIES)
def test_zips_whose_directory_lies_are_refused(kind):
    sign, offset, number, size, message = LIES[kind]
    content = zipped()
    if kind == "sizes said to stand behind":
        put(content, LOCAL, 22, 10**9, 4)
    put(content, sign, offset, number, size)
    with (
        zipfile.ZipFile(io.BytesIO(content)) as archive,
        pytest.raises(ValueError, match=message),
    ):
        check_archive(archive, len(content))


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("streamed", [False, True])
def test_honest_zips_are_read(tmp_path, wide, streamed):
    class Pipe(io.RawIOBase):
        """Cannot seek, so that sizes stand behind the content."""

        def __init__(self):
            self.content = b""

        def writable(self):
            return True

        def write(self, data):
            self.content += bytes(data)
            return len(data)

    stream = Pipe() if streamed else io.BytesIO()
    with (
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("obs.npy", "w", force_zip64=wide) as member,
    ):
        member.write(npy(np.zeros(1000)))
    content = stream.content if streamed else stream.getvalue()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        check_archive(archive, len(content))
        assert archive.testzip() is None


def test_a_shard_of_a_billion_is_told_at_once(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train-00000-of-1000000000.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="not one complete data set"):
        parquet_files(tmp_path)


def copying_pickle(times):
    """Each `NEWOBJ_EX` copies a memoized tuple of 10,000 values."""
    head = b"\x80\x04(" + b"K\x01" * 10_000 + b"t\x94cnumpy\ndtype\n\x94"
    return head + b"h\x01h\x00}\x92" * times + b"."


def test_pickles_that_copy_a_tuple_again_and_again_are_refused():
    assert len(copying_pickle(100_000)) < 1_000_000
    assert read_safely(copying_pickle(1), ADMITTED).kind == "numpy.dtype"
    with pytest.raises(RefusedPickleError, match="IMITBENCH_LIMIT_PICKLE_VALUES"):
        read_safely(copying_pickle(100_000), ADMITTED)


@pytest.mark.parametrize("code", ["f1", "b8", "b2", "f3", "O8", "U4", "f16"])
def test_data_types_that_do_not_exist_are_refused(code):
    made = PickledObject(PickledName("numpy", "dtype"), (code, False, True))
    with pytest.raises(RefusedPickleError):
        dtype_of(made)


def pickled_array(shape, data=b"", code="f4"):
    name = PickledName("numpy._core.numeric", "_frombuffer")
    dtype = PickledObject(PickledName("numpy", "dtype"), (code, False, True), (3, "<"))
    return PickledObject(name, (data, dtype, shape, "C"))


@pytest.mark.parametrize("shape", [(0,) * 70, (0, 10**30), (-1, 0), (1.0,), (True,), (2, 2)])
def test_arrays_of_absurd_shapes_are_refused(shape):
    with pytest.raises(RefusedPickleError):
        array_of(pickled_array(shape))


def test_a_dictionary_that_repeats_one_space_is_refused():
    low = pickled_array((2**20,), bytes(2**22))
    part = PickledObject(PickledName("gymnasium.spaces.box", "Box"), ())
    part.state = {"low": low, "high": low}
    space = PickledObject(PickledName("gymnasium.spaces.dict", "Dict"), ())
    space.state = {"spaces": {str(n): part for n in range(100_000)}}
    with pytest.raises(RefusedPickleError, match="too many numbers"):
        space_of(space)


@pytest.mark.parametrize("dtype", ["F4", "F8_E8M0", "F99", "", 7])
def test_tensors_of_unknown_types_are_refused(dtype):
    header = json.dumps({"a": {"dtype": dtype, "shape": [2], "data_offsets": [0, 1]}}).encode()
    with pytest.raises(ValueError):
        parse_weights(struct.pack("<Q", len(header)) + header + b"\0")


def test_a_header_of_a_hundred_megabytes_is_refused():
    with pytest.raises(ValueError, match="IMITBENCH_LIMIT_TEXT_BYTES"):
        parse_weights(struct.pack("<Q", 10**8) + b"{" + b" " * 100)


def foreign(folder, weights, **changes):
    venv = drift_venv()
    document = {
        "format": "imitbench-foreign-policy", "kind": "layers", "file": "w.safetensors",
        "output": "actions",
        "observation_space": box(shape=list(venv.observation_space.shape)),
        "action_space": box(shape=[1]),
        **changes,
    }  # fmt: skip
    (folder / "policy.json").write_text(json.dumps(document))
    (folder / "w.safetensors").write_bytes(save(weights))
    return folder


def layers(*sizes, value=0.5):
    found = {}
    for index, (taken, returned) in enumerate(sizes):
        found[f"{index}.weight"] = th.full((returned, taken), value)
        found[f"{index}.bias"] = th.zeros(returned)
    return found


def test_layers_must_chain_and_fit_the_spaces(tmp_path):
    size = drift_venv().observation_space.shape[0]
    policy = load_policy(foreign(tmp_path, layers((size, 3), (3, 1))))
    assert policy.predict(np.zeros(size, np.float32))[0].shape == (1,)
    for wrong in (
        layers((size, 3), (4, 1)),
        layers((size + 1, 1)),
        layers((size, 2)),
        layers((size, 1), value=float("nan")),
        {"0.weight": th.zeros(1)},
    ):
        with pytest.raises(InputError):
            load_policy(foreign(tmp_path, wrong))
    with pytest.raises(InputError, match=r"policy\.json"):
        load_policy(foreign(tmp_path, layers((size, 1)), observation_space=SPACES["nan"]))


@pytest.mark.parametrize("steps", [-1, 10**12, True, 0, 2.5])
def test_episodes_of_experts_have_an_end(steps, tmp_path):
    (tmp_path / "policy.json").write_text("{}")
    (tmp_path / "env_kwargs.yml").write_text(f"max_episode_steps: {steps}\n")
    with pytest.raises(InputError, match="EPISODE_STEPS"):
        with_own_arguments(
            EnvironmentSpec(id="Pendulum-v1"),
            open_expert_folder(tmp_path),
        )
