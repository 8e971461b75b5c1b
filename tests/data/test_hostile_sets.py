"""Malicious files: nothing in them is executed, and each is refused in one line."""

import io
import json
import pickle
import re
import struct
import zipfile

import jsonpickle
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.plain_sets import episodes, steps, write_csv, write_lerobot, write_npy

from imitbench.data import parquet_source, serialize
from imitbench.data.conversion import convert_demonstrations
from imitbench.data.demonstrations import read_demonstrations
from imitbench.data.infos import OPAQUE
from imitbench.data.inspection import inspect_demonstrations
from imitbench.data.sources import open_trajectories
from imitbench.errors import InputError


class Canary:
    """Creates a file when pickle or jsonpickle decodes it."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (open, (self.path, "w"))


@pytest.fixture
def canary(tmp_path):
    """A canary whose file must be absent after the test."""
    path = tmp_path / "canary"
    yield Canary(path)
    assert not path.exists(), "something was executed"


def columns(**changed):
    """A table of two good trajectories, except for the changed columns."""
    good = {
        "obs": [[[0.0], [1.0], [2.0]], [[3.0], [4.0]]],
        "acts": [[0, 1], [1]],
        "infos": [["{}", "{}"], ["{}"]],
        "terminal": [True, True],
        "rews": [[1.0, 1.0], [1.0]],
    }
    return pa.table({name: value for name, value in (good | changed).items() if value is not None})


def folder_of(path, table=None, **state):
    """A folder as `datasets` saves it."""
    path.mkdir()
    table = columns() if table is None else table
    with pa.ipc.new_stream(str(path / "data-00000-of-00001.arrow"), table.schema) as writer:
        writer.write_table(table)
    files = [{"filename": "data-00000-of-00001.arrow"}]
    (path / "state.json").write_text(json.dumps({"_data_files": files, **state}))
    (path / "dataset_info.json").write_text('{"features": {}}')
    return path


def refusal(path, *, trust=False):
    """The one-line message with which every reader refuses `path`."""
    lines = []
    for way in (
        lambda: open_trajectories(path, trust=trust).read(with_infos=True),
        lambda: list(serialize.load(path, trust=trust)),
        lambda: convert_demonstrations(
            open_trajectories(path, trust=trust), path.parent / "converted"
        ),
    ):
        with pytest.raises(InputError) as caught:
            way()
        lines.append(str(caught.value))
        assert "\n" not in lines[-1]
        assert len(lines[-1]) < 600
    assert not (path.parent / "converted").exists()
    return lines[0]


def test_jsonpickled_infos_stay_text_in_every_reader(tmp_path, canary):
    text = jsonpickle.encode(canary)
    assert "py/reduce" in text
    table = columns(infos=[[text, '{"py/object": "os.system"}'], ["{}"]])
    pq.write_table(table, tmp_path / "a.parquet")
    for place in (tmp_path / "a.parquet", folder_of(tmp_path / "a", table)):
        first, _ = open_trajectories(place).read(with_infos=True)
        assert first.infos.tolist() == [{OPAQUE: text}, {OPAQUE: '{"py/object": "os.system"}'}]
        convert_demonstrations(open_trajectories(place), tmp_path / "out", replace=True)
        written = pq.read_table(tmp_path / "out" / "data")
        assert written["infos"].to_pylist() == table["infos"].to_pylist()
        assert not inspect_demonstrations(open_trajectories(place)).problems


@pytest.mark.parametrize("trust", [False, True])
def test_a_malicious_pickle_is_not_executed_even_when_trusted(tmp_path, canary, trust):
    path = tmp_path / "final.pkl"
    path.write_bytes(pickle.dumps([canary]))
    message = "not a trajectory" if trust else "can execute any code"
    assert message in refusal(path, trust=trust)
    path = path.rename(tmp_path / "final")
    assert message in refusal(path, trust=trust)


def npz(path, **changed):
    good = {
        "obs": np.zeros((5, 1)),
        "acts": np.zeros(3, int),
        "rews": np.zeros(3),
        "terminal": np.ones(2, bool),
        "indices": np.array([2]),
    }
    np.savez(path, **(good | changed))
    return path


@pytest.mark.parametrize("name", ["obs", "acts", "rews", "terminal", "indices"])
def test_arrays_of_objects_are_not_unpickled(tmp_path, canary, name):
    bombs = np.array([canary], dtype=object)
    path = npz(tmp_path / "a.npz", **{name: bombs})
    assert f"'{name}' holds object, not numbers" in refusal(path)


def test_pickled_infos_are_skipped(tmp_path, canary):
    path = npz(tmp_path / "a.npz", infos=np.array([canary] * 3, dtype=object))
    with pytest.warns(UserWarning, match="skipped"):
        assert len(open_trajectories(path).read(with_infos=True)) == 2


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"indices": np.array([-1])}, "episode 0: length -1"),
        ({"indices": np.array([3])}, "episode 1: length 0"),
        ({"indices": np.array([2, 1]), "terminal": np.ones(3, bool)}, "episode 1: length -1"),
        ({"indices": np.array([9])}, "episode 1: length -6"),
        ({"indices": np.array([1.0])}, "not a list of steps"),
        ({"indices": np.array([], int)}, "1 trajectories by 'indices', 2 by 'terminal'"),
        ({"obs": np.zeros((4, 1))}, "'obs' has 4 entries for 3 actions"),
        ({"rews": np.zeros(2)}, "'rews' has 2 entries for 3 actions"),
        ({"obs": np.float64(0)}, "'obs' is a single number"),
        ({"acts": np.array(["a", "b", "c"])}, "'acts' holds <U1, not numbers"),
    ],
)
def test_archives_with_inconsistent_arrays_are_refused(tmp_path, changed, message):
    assert message in refusal(npz(tmp_path / "a.npz", **changed))


def npy(header, content=b""):
    """An array file with the given header."""
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content


def archive(path, members, compression=zipfile.ZIP_STORED):
    npz(path)
    with zipfile.ZipFile(path) as good:
        members = {name: good.read(name) for name in good.namelist()} | members
    with zipfile.ZipFile(path, "w", compression) as changed:
        for name, content in members.items():
            changed.writestr(name, content)
    return path


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 9)}", "declares"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (-5, 1)}", "declares"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (5, 'x')}", "shape"),
        ("__import__('os').system('true')", "header"),
        ("{'descr': '|O', 'fortran_order': False, 'shape': (5,)}", "holds object"),
        ("(" * 100, "header"),
    ],
)
def test_malicious_array_headers_are_refused(tmp_path, header, message):
    path = archive(tmp_path / "a.npz", {"obs.npy": npy(header)})
    assert message in refusal(path)


def test_a_zip_bomb_is_refused_before_it_unpacks(tmp_path):
    path = archive(tmp_path / "a.npz", {}, zipfile.ZIP_DEFLATED)
    raw = bytearray(path.read_bytes())
    entry = raw.index(b"PK\x01\x02")  # the first entry of the directory: obs.npy
    raw[entry + 24 : entry + 28] = struct.pack("<I", 2**32 - 2)
    path.write_bytes(raw)
    assert "IMITBENCH_LIMIT_UNPACKED_BYTES" in refusal(path)


def test_names_that_lead_out_of_an_archive_are_not_followed(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    path = archive(inside / "a.npz", {"../escaped.npy": b"x", "/tmp/escaped.npy": b"x"})
    assert len(open_trajectories(path)) == 2
    assert [each.name for each in tmp_path.iterdir()] == ["inside"]


def test_trusted_infos_that_cannot_be_decoded_are_one_line(tmp_path):
    file = tmp_path / "set.parquet"
    texts = [['{"py/type": 3}', "{}"], ["{}"]]
    pq.write_table(columns(infos=texts), file)
    assert open_trajectories(file).read(with_infos=True)[0].infos[0] == {OPAQUE: texts[0][0]}
    with pytest.raises(InputError, match=r"set\.parquet: infos cannot be decoded here \(.*"):
        open_trajectories(file, trust=True).read(with_infos=True)


def test_a_damaged_pickle_is_one_line_even_when_trusted(tmp_path):
    file = tmp_path / "set.npz"
    infos = np.array([{"step": 0}, {"step": 1}])
    arrays = {"obs": np.zeros((3, 1)), "acts": np.zeros((2, 1)), "terminal": np.array([True])}
    np.savez(file, **arrays, indices=np.zeros(0, int), rews=np.zeros(2))
    sink = io.BytesIO()
    np.save(sink, infos)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("infos.npy", sink.getvalue()[:-20])
    with pytest.raises(InputError, match=r"set\.npz: infos cannot be unpickled here \(.*"):
        open_trajectories(file, trust=True)


@pytest.mark.parametrize(
    "content",
    [b"", b"PK\x03\x04", b"PK\x05\x06" + bytes(18), b"\x00" * 100],
)
def test_files_that_are_not_archives_are_refused(tmp_path, content):
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    assert "damaged .npz file" in refusal(path)


def nested(depth):
    value = 1.0
    for _ in range(depth):
        value = [value]
    return pa.array([value])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"obs": None}, "no column obs among"),
        ({"terminal": None}, "no column terminal"),
        ({"obs": [{"a": 1}, {"a": 2}]}, "'obs' holds struct<a: int64>, not lists"),
        ({"obs": [[{"a": 1}], [{"a": 2}]]}, "'obs' holds struct<a: int64>, not numbers"),
        ({"obs": [["x"], ["y"]]}, "'obs' holds string, not numbers"),
        ({"obs": [[b"\x80\x04"], [b""]]}, "'obs' holds binary, not numbers"),
        ({"obs": [[[0.0]] * 3, None]}, "episode 1: column 'obs' has missing entries"),
        ({"obs": [[[0.0]] * 3, [[1.0], None]]}, "episode 1: column 'obs' has missing entries"),
        ({"obs": [[[0.0]] * 3, [[1.0], [None]]]}, "episode 1: column 'obs' has missing numbers"),
        ({"obs": [[[0.0]] * 3, [[1.0], [1.0, 2.0]]]}, "episode 1: .*length 1 and of length 2"),
        ({"obs": [[[0.0]] * 2, [[1.0]] * 2]}, "episode 0: .*2 observations"),
        ({"acts": [[0, 1], []], "rews": [[1.0, 1.0], []]}, "episode 1: "),
        ({"rews": [[1.0, 1.0], [1.0, 2.0]]}, "episode 1: reward"),
        ({"rews": [[1.0, 1.0], None]}, "episode 1: column 'rews' has missing entries"),
        ({"terminal": ["yes", "no"]}, "'terminal' holds string"),
        ({"terminal": [True, None]}, "episode 1: 'terminal' is missing"),
        ({"infos": [[1, 2], [3]]}, "'infos' holds .*not lists of text"),
        ({"infos": [["{}", "{}"], None]}, "episode 1: infos are missing"),
        ({"infos": [["{}", "{}"], [None]]}, "episode 1: infos are missing"),
        ({"infos": [["{}", "{}"], ["{}", "{}"]]}, "episode 1: .*2 infos for 1 actions"),
    ],
)
@pytest.mark.parametrize("form", ["parquet", "folder"])
def test_tables_with_wrong_columns_are_refused(tmp_path, changed, message, form):
    table = columns(**changed)
    if form == "parquet":
        path = tmp_path / "a.parquet"
        pq.write_table(table, path)
    else:
        path = folder_of(tmp_path / "a", table)
    line = refusal(path)
    assert line.startswith(str(path))
    assert re.search(message, line), line


def test_a_duplicated_column_is_refused(tmp_path):
    table = pa.table([*columns().columns, columns()["obs"]], names=[*columns().column_names, "obs"])
    pq.write_table(table, tmp_path / "a.parquet")
    assert "'obs' appears twice" in refusal(tmp_path / "a.parquet")


def test_control_characters_in_column_names_are_not_printed(tmp_path):
    pq.write_table(pa.table({"\x1b[2Jobs\n" * 50: [1]}), tmp_path / "a.parquet")
    line = refusal(tmp_path / "a.parquet")
    assert "\x1b" not in line


def test_a_deeply_nested_column_is_refused(tmp_path):
    table = columns(obs=None).slice(0, 1).append_column("obs", nested(40))
    pq.write_table(table, tmp_path / "a.parquet")
    assert "episode 0" in refusal(tmp_path / "a.parquet")


def test_a_type_that_declares_a_huge_entry_is_refused(tmp_path):
    kind = pa.list_(pa.list_(pa.float32(), 2**31 - 1))
    table = columns(obs=None).slice(0, 0).append_column("obs", pa.array([], kind))
    pq.write_table(table, tmp_path / "a.parquet")
    assert "declares entries of 2147483647 numbers" in refusal(tmp_path / "a.parquet")
    assert "declares entries of 2147483647" in refusal(folder_of(tmp_path / "a", table))


def test_a_column_that_unpacks_to_far_more_than_the_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_source, "_ALWAYS_BYTES", 2**20)
    steps = 2**21
    lists = pa.ListArray.from_arrays(pa.array([0, steps], pa.int32()), pa.array(np.ones(steps)))
    obs = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), lists)
    table = columns().slice(0, 1).set_column(0, "obs", obs)
    pq.write_table(table, tmp_path / "a.parquet", compression="zstd")
    assert (tmp_path / "a.parquet").stat().st_size < 50_000
    assert "declares 16,777,265 bytes of numbers in" in refusal(tmp_path / "a.parquet")


@pytest.mark.parametrize("rows", [b"\x16\x04\x19\x1c", b"\x16\x04&\x08"])
def test_declared_rows_that_are_missing_are_refused(tmp_path, rows):
    path = tmp_path / "a.parquet"
    pq.write_table(columns(), path)
    raw = path.read_bytes()
    start = len(raw) - 8 - int.from_bytes(raw[-8:-4], "little")
    # The number of rows, 2, of the whole file and of its row group: packed as 0x04.
    changed = raw[start:].replace(rows, b"\x16\x7e" + rows[2:], 1)
    assert changed != raw[start:]
    path.write_bytes(raw[:start] + changed)
    assert "declares" in refusal(path)
    with pytest.raises(InputError, match="not readable as Parquet"):
        read_demonstrations(path)


@pytest.mark.parametrize(
    "lie", [(0, 2**30, 5), (0, -4, 5), (0, 6, 5), (0, 3, 2**31 - 1), (9, 3, 5)]
)
@pytest.mark.parametrize("true", [(0, 3, 5), (0, 2, 3)])
def test_offsets_that_lead_out_of_an_arrow_file_are_not_followed(tmp_path, lie, true):
    path = folder_of(tmp_path / "a")
    file = path / "data-00000-of-00001.arrow"
    raw = file.read_bytes()
    changed = raw.replace(struct.pack("<3i", *true), struct.pack("<3i", *lie))
    assert changed != raw
    file.write_bytes(changed)
    assert "damaged data set" in refusal(path)


def test_infos_that_are_not_utf_8_are_refused(tmp_path):
    infos = pa.array([[b"{}", b"\xff\xfe"], [b"{}"]], pa.list_(pa.binary()))
    raw = infos.flatten()
    text = pa.ListArray.from_arrays(
        infos.offsets, pa.StringArray.from_buffers(3, *raw.buffers()[1:])
    )
    pq.write_table(columns().set_column(2, "infos", text), tmp_path / "a.parquet")
    assert "episode 0: infos are not text" in refusal(tmp_path / "a.parquet")


@pytest.mark.parametrize("kept", [0, 0.2, 0.6, 0.99])
def test_truncated_arrow_files_are_refused(tmp_path, kept):
    path = folder_of(tmp_path / "a")
    file = path / "data-00000-of-00001.arrow"
    raw = file.read_bytes()
    file.write_bytes(raw[: int(kept * len(raw))])
    assert "damaged data set" in refusal(path)


def test_an_arrow_file_truncated_between_two_batches_is_refused(tmp_path):
    path = folder_of(tmp_path / "a")
    file = path / "data-00000-of-00001.arrow"
    sink = io.BytesIO()
    writer = pa.ipc.new_stream(sink, columns().schema)
    writer.write_table(columns())
    file.write_bytes(sink.getvalue())  # the writer was never closed
    assert "truncated" in refusal(path)


@pytest.mark.parametrize("garbage", ["", "{", "[]", "null", "[" * 100_000, "\xff", '{"a": NaN'])
@pytest.mark.parametrize("file", ["dataset_info.json", "state.json"])
def test_damaged_json_files_are_refused(tmp_path, file, garbage):
    path = folder_of(tmp_path / "a")
    (path / file).write_bytes(garbage.encode("latin1"))
    assert "damaged data set" in refusal(path)


@pytest.mark.parametrize(
    "files",
    [
        [{"filename": "../secret.arrow"}],
        [{"filename": "/etc/passwd"}],
        [{"filename": "sub/../../secret.arrow"}],
        [{"filename": ".."}],
        [{"filename": ""}],
        [{"filename": 5}],
        ["data-00000-of-00001.arrow"],
        [],
        "data",
        None,
        [{"filename": "absent.arrow"}],
        [{"filename": "x\x00y"}],
    ],
)
def test_file_names_outside_the_folder_are_refused(tmp_path, files):
    folder_of(tmp_path / "other")
    (tmp_path / "other" / "data-00000-of-00001.arrow").rename(tmp_path / "secret.arrow")
    path = folder_of(tmp_path / "a", _data_files=files)
    assert "damaged data set" in refusal(path)


def test_rows_selected_by_index_files_are_refused(tmp_path):
    path = folder_of(tmp_path / "a", _indices_files=[{"filename": "indices.arrow"}])
    assert "index files" in refusal(path)


@pytest.mark.parametrize(
    ("form", "place"),
    [
        ("lerobot", "data"),
        ("lerobot", "data/chunk-000/file-000.parquet"),
        ("hub", "data"),
        ("hub", "data/train-0.parquet"),
    ],
)
def test_links_do_not_lead_out_of_a_data_set(form, place, tmp_path):
    made = tmp_path / "made"
    if form == "lerobot":
        write_lerobot(made, episodes(acts=2))
    else:
        (made / "data").mkdir(parents=True)
        pq.write_table(columns(), made / "data" / "train-0.parquet")
    assert open_trajectories(made).read()
    (made / place).rename(tmp_path / "elsewhere")
    (made / place).symlink_to(tmp_path / "elsewhere")
    assert "a link leads out of" in refusal(made)


@pytest.mark.parametrize("single", [True, False])
def test_links_do_not_lead_out_of_a_folder_of_episodes(single, tmp_path):
    write_npy(tmp_path / "elsewhere", steps(episodes((3,))))
    write_csv(tmp_path / "elsewhere.csv", steps(episodes((3,))))
    (tmp_path / "made").mkdir()
    name = "elsewhere.csv" if single else "elsewhere"
    (tmp_path / "made" / name).symlink_to(tmp_path / name)
    assert "a link leads out of" in refusal(tmp_path / "made")


def test_the_split_train_is_no_link_to_another_folder(tmp_path):
    made = tmp_path / "made"
    made.mkdir()
    (made / "dataset_dict.json").write_text('{"splits": ["train"]}')
    (made / "train").symlink_to(folder_of(tmp_path / "elsewhere"))
    assert "a link leads out of" in refusal(made)
