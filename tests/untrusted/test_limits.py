"""Each limit can be set, and what is beyond it gives an error that names the variable."""

import time
import zipfile
from dataclasses import asdict

import pytest
from support.synthetic_runs import plan_runs, write_results

from imitbench.cli.sql import sql
from imitbench.experts.measurement import with_own_arguments
from imitbench.policies.expert_folder import open_expert_folder
from imitbench.policies.pickled_values import ADMITTED
from imitbench.records.runs import EnvironmentSpec
from imitbench.store.run_rows import read_episode_file
from imitbench.store.sweep_file import read_sweeps
from imitbench.untrusted import gate
from imitbench.untrusted.archives import check_archive
from imitbench.untrusted.arrays import check_shape
from imitbench.untrusted.csv_text import csv_rows
from imitbench.untrusted.files import read_content, read_text
from imitbench.untrusted.limits import Limits, variable
from imitbench.untrusted.yaml_text import load_yaml
from imitbench.util.hub_client import check_sizes
from imitbench.util.safe_unpickler import read_safely
from imitbench.util.spaces import space_from_json


def archive(folder):
    path = folder / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as written:
        written.writestr("a", bytes(80 * 2**20))
        written.writestr("b", b"x")
    with zipfile.ZipFile(path) as opened:
        check_archive(opened, path.stat().st_size)


def table(folder):
    path = folder / "a.csv"
    list(csv_rows("a,b,c\n" + "1,2,3\n" * 9, path))


def text(folder):
    (folder / "a.yaml").write_text("a: 1\n" * 9)
    read_text(folder / "a.yaml")


def whole(folder):
    (folder / "a").write_bytes(bytes(100))
    read_content(folder / "a")


def sweep(folder):
    (folder / ".sweeps").mkdir()
    (folder / ".sweeps" / "a.json").write_text("{}")
    read_sweeps(folder)


def steps(folder):
    (folder / "policy.json").write_text("{}")
    (folder / "env_kwargs.yml").write_text("max_episode_steps: 1000\n")
    with_own_arguments(EnvironmentSpec(id="Pendulum-v1"), open_expert_folder(folder))


def episodes(folder):
    write_results(folder, plan_runs(2))
    [path, *_] = folder.rglob("episodes.parquet")
    read_episode_file(path)


def queried(folder):
    write_results(folder / "runs", plan_runs(2))
    query = "SELECT r FROM range(30000000) t(r) ORDER BY hash(r) OFFSET 20000000"
    sql(query, [folder / "runs"])


def gated(read):
    def act(folder):
        path = folder / "a"
        path.write_text("x")
        gate.read_in_child(lambda: read(path), path, str)

    return act


def many(folder):
    for name in "abcd":
        (folder / name).touch()
    gate.try_reading(lambda: None, folder)


COPY = b"\x80\x04(" + b"K\x01" * 50 + b"t\x94cnumpy\ndtype\n\x94h\x01h\x00}\x92."
BOX = {"type": "Box", "shape": [4], "dtype": "float32", "low": [-1.0], "high": [1.0]}
BEYOND = {
    "text_bytes": (20, text),
    "sweep_bytes": (1, sweep),
    "file_bytes": (20, whole),
    "members": (1, archive),
    "entries": (3, many),
    "ratio": (10, archive),
    "unpacked_bytes": (2**20, archive),
    "yaml_nodes": (5, lambda _: load_yaml("[1, 2, 3, 4, 5, 6]")),
    "yaml_depth": (5, lambda _: load_yaml("[" * 9 + "]" * 9)),
    "number_digits": (5, lambda _: load_yaml("a: 1234567")),
    "table_columns": (2, table),
    "table_rows": (5, table),
    "dimensions": (2, lambda _: check_shape((1, 1, 1))),
    "space_numbers": (3, lambda _: space_from_json(BOX)),
    "episode_steps": (10, steps),
    "run_episodes": (1, episodes),
    "database_bytes": (2**25, queried),
    "pickle_values": (5, lambda _: read_safely(COPY, ADMITTED)),
    "child_bytes": (2**26, gated(lambda _: len(bytearray(b"x" * 2**31)))),
    "child_seconds": (1, gated(lambda _: time.sleep(1000))),
    "child_files": (64, gated(lambda path: [path.open() for _ in range(100)])),
    "child_output_bytes": (100, gated(lambda _: "x" * 1000)),
    "hub_file_bytes": (10, lambda _: check_sizes("org/name", {"a": 11})),
    "hub_pull_bytes": (20, lambda _: check_sizes("org/name", {"a": 11, "b": 10})),
}


def test_every_limit_is_here():
    assert set(BEYOND) == set(asdict(Limits()))


@pytest.mark.parametrize("name", BEYOND)
def test_what_is_beyond_a_limit_names_its_variable(name, tmp_path, monkeypatch):
    number, act = BEYOND[name]
    monkeypatch.setattr(gate, "is_command", lambda: True)
    monkeypatch.setenv(variable(name), str(number))
    with pytest.raises(Exception, match=variable(name)):
        act(tmp_path)
