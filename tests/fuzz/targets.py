"""Readers, and files that nearly fit them.

A case writes files of one format into a folder and reads them. The only errors that a reader may
raise are `REFUSALS`.
"""

import contextlib
import io
import json
import os
import zipfile

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from huggingface_hub.hf_api import RepoFile
from hypothesis import strategies as st
from near_files import NUMBERS, ROOT, TEXTS, VALUES, changed, damaged
from policy_targets import (
    foreign,
    lerobot,
    policy,
    reward,
    robomimic,
    sb3_zip,
    space,
    statistics,
)  # fmt: skip

from imitbench.bench.request import plan_missing
from imitbench.cards.algorithm import AlgorithmCard
from imitbench.cards.suite import SuiteCard
from imitbench.cards.yaml_file import read_yaml_model
from imitbench.data.minari_source import find_minari
from imitbench.data.sources import open_trajectories
from imitbench.errors import InputError
from imitbench.hub.repo_card import RepoCard
from imitbench.policies.expert_folder import read_tagless_mapping
from imitbench.published.disclosure import DISCLOSURE_FILE, parse_disclosures
from imitbench.published.validation import validate
from imitbench.store import lease
from imitbench.store.database import DATABASE_FILE, reader, revision
from imitbench.store.importers.long_table import import_csv
from imitbench.store.importers.rliable_scores import import_rliable
from imitbench.store.importers.sacred_runs import import_sacred
from imitbench.store.run_rows import EPISODES, read_episode_file
from imitbench.store.sweep_file import SWEEPS_FOLDER
from imitbench.util.hub_client import check_sizes, stated_sizes
from imitbench.util.hub_errors import as_input_error

REFUSALS = (InputError,)

# --- text


def yaml_text(draw):
    lines, names = [], []
    for number in range(draw(st.integers(1, 12))):
        kind = draw(st.integers(0, 6))
        name = f"a{number}"
        if kind == 0 and names:
            other = draw(st.sampled_from(names))
            lines.append(f"{name}: &{name} {{<<: [*{other}, *{other}], k{number}: 1}}")
        elif kind == 1 and names:
            other = draw(st.sampled_from(names))
            lines.append(f"{name}: &{name} [*{other}, *{other}, *{other}]")
        elif kind == 2:
            lines.append(f"{name}: {'59:' * draw(st.integers(1, 5000))}1")
            continue
        elif kind == 3:
            tag = draw(
                st.sampled_from(
                    [
                        "!!int",
                        "!!float",
                        "!!timestamp",
                        "!!binary",
                        "!!set",
                        "!!python/object:os.system",
                        "!!omap",
                        "!!pairs",
                    ]
                )
            )
            lines.append(f"{name}: {tag} {json.dumps(draw(TEXTS))}")
            continue
        elif kind == 4:
            lines.append(f"{name}: {'[' * draw(st.integers(1, 200))}")
            continue
        else:
            lines.append(f"{name}: &{name} {json.dumps(draw(VALUES))}")
        names.append(name)
    return "\n".join(lines) + "\n"


def settings_file(folder, draw):
    path = folder / "args.yml"
    path.write_text(yaml_text(draw), errors="backslashreplace")
    read_tagless_mapping(path)


def readme(folder, draw):
    path = folder / "README.md"
    path.write_text(f"---\n{yaml_text(draw)}---\nText.\n", errors="backslashreplace")
    RepoCard.read(path)


def card(folder, draw):
    import yaml

    name, model = draw(
        st.sampled_from(
            [("suites/classic/suite.yaml", SuiteCard), ("algorithms/bc/card.yaml", AlgorithmCard)]
        )
    )
    document = yaml.safe_load((ROOT / name).read_text())
    path = folder / "card.yaml"
    text = yaml.safe_dump(changed(json.loads(json.dumps(document, default=str)), draw))
    path.write_text(text, errors="backslashreplace")
    read_yaml_model(path, model)


def csv_table(folder, draw):
    header = draw(st.lists(st.sampled_from(
        ["algo", "env", "seed", "raw_return", "score", "obs_0", "obs_1", "acts", "dones", "x", ""]
    ), max_size=8))  # fmt: skip
    rows = draw(st.lists(st.lists(TEXTS | NUMBERS.map(str), max_size=8), max_size=5))
    path = folder / "table.csv"
    text = "\n".join(",".join(row) for row in [header, *rows])
    path.write_bytes(damaged(text.encode(errors="backslashreplace"), draw))
    for read in (import_csv, lambda place: open_trajectories(place).read()):
        with refusing():
            read(path)


class refusing:  # noqa: N801
    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        return kind is not None and issubclass(kind, REFUSALS)


# --- arrays


def npy(draw):
    kind = draw(st.sampled_from(["<f8", "<f4", "|b1", "<i8", "<f1", "|O", "<U4", "|u1", "<M8[s]"]))
    rows = draw(st.sampled_from([0, 1, 3, 3, 3, 10**12]))
    rest = tuple(draw(st.lists(st.sampled_from([0, 1, 2, 4, -1, 2**40]), max_size=3)))
    header = {"descr": kind, "fortran_order": draw(st.booleans()), "shape": (rows, *rest)}
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue() + bytes(draw(st.sampled_from([0, 24, 96, 4096])))


def good_npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


GOOD = {"obs": np.zeros((3, 2)), "acts": np.zeros((3, 1)), "dones": np.array([0, 0, 1])}


def npz(folder, draw):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", draw(st.sampled_from([0, zipfile.ZIP_DEFLATED]))) as archive:
        for name, array in GOOD.items():
            content = npy(draw) if draw(st.integers(0, 2)) == 0 else good_npy(array)
            archive.writestr(f"{name}.npy", content)
    path = folder / "a.npz"
    path.write_bytes(damaged(stream.getvalue(), draw))
    for read in (lambda place: open_trajectories(place).read(), lambda p: import_rliable(p)):
        with refusing():
            read(path)


def npy_folder(folder, draw):
    for name, array in GOOD.items():
        content = npy(draw) if draw(st.integers(0, 2)) == 0 else good_npy(array)
        (folder / f"{name}.npy").write_bytes(damaged(content, draw))
    open_trajectories(folder).read()


def table(draw):
    size = draw(st.sampled_from([0, 1, 2, 2, 2, 7]))
    fixed = pa.list_(pa.list_(pa.float32(), size)) if draw(st.booleans()) else None
    obs = pa.array([[[0.0] * size] * 3], fixed or pa.list_(pa.list_(pa.float32())))
    columns = {"obs": obs, "acts": pa.array([[[1.0]] * 2]), "terminal": pa.array([True])}
    if draw(st.booleans()):
        columns["infos"] = pa.array([["{}", draw(TEXTS).encode(errors="replace").decode()]])
    if draw(st.booleans()):
        columns["rews"] = pa.array([[1.0, float("nan")]])
    if draw(st.integers(0, 3)) == 0:
        name = draw(st.sampled_from(list(columns)))
        columns[name] = draw(st.sampled_from([
            pa.array([None]), pa.array(["x"]), pa.array([[]]), pa.array([{"a": 1}]),
            pa.array([b"x"]).dictionary_encode(), pa.array([2**62]),
        ]))  # fmt: skip
    return pa.table(columns)


def parquet(folder, draw):
    stream = io.BytesIO()
    pq.write_table(table(draw), stream, compression=draw(st.sampled_from(["none", "snappy"])))
    path = folder / "a.parquet"
    path.write_bytes(damaged(stream.getvalue(), draw))
    open_trajectories(path).read(with_infos=True)


def arrow(folder, draw):
    stream = io.BytesIO()
    content = table(draw)
    with pa.ipc.new_stream(stream, content.schema) as writer:
        writer.write_table(content)
    path = folder / "a.arrow"
    path.write_bytes(damaged(stream.getvalue(), draw))
    open_trajectories(path).read(with_infos=True)


def json_lines(folder, draw):
    good = {"obs": [[0.0], [1.0], [2.0]], "acts": [[0], [1]], "rewards": [1.0, 2.0]}
    lines = [json.dumps(changed(good, draw)) for _ in range(draw(st.integers(1, 3)))]
    path = folder / "a.jsonl"
    path.write_bytes("\n".join(lines).encode(errors="backslashreplace"))
    open_trajectories(path).read()


# --- results


def submission(folder, draw):
    source = draw(st.sampled_from(sorted((ROOT / "results").glob("*/manifest.json"))[:1]))
    document = changed(json.loads(source.read_text()), draw)
    (folder / "manifest.json").write_text(json.dumps(document))
    validate(folder)


def disclosures(folder, draw):
    source = ROOT / "results" / "imitbench-seals-gail-tuned" / DISCLOSURE_FILE
    content = json.dumps(changed(json.loads(source.read_text()), draw))
    (folder / DISCLOSURE_FILE).write_bytes(damaged(content.encode(errors="replace"), draw))
    for row in parse_disclosures(folder / DISCLOSURE_FILE):
        assert "\n" not in row.short


def sacred(folder, draw):
    run = folder / "1"
    run.mkdir(exist_ok=True)
    config = {"environment": {"gym_id": "seals/CartPole-v0"}, "seed": 1, "total_timesteps": 10}
    record = {
        "status": "COMPLETED",
        "command": "bc",
        "experiment": {"name": "train_imitation"},
        "result": {"imit_stats": {"return_mean": 1.0, "n_traj": 5}},
        "start_time": "2024",
    }
    (run / "config.json").write_text(json.dumps(changed(config, draw)))
    (run / "run.json").write_text(json.dumps(changed(record, draw)))
    import_sacred(folder)


def episodes(folder, draw):
    """Episodes of a run: other columns and types, many rows in few bytes, damaged pages."""
    rows = draw(st.sampled_from([0, 1, 50, 200_000]))
    columns = {field.name: pa.array([0] * rows).cast(field.type) for field in EPISODES}
    name = draw(st.sampled_from(list(columns)))
    columns[name] = draw(st.sampled_from([
        columns[name], pa.nulls(rows), pa.array(["x"] * rows), pa.array([[1.0]] * rows),
    ]))  # fmt: skip
    stream = io.BytesIO()
    codec = draw(st.sampled_from(["none", "snappy", "zstd"]))
    pq.write_table(pa.table(columns), stream, compression=codec)
    path = folder / "episodes.parquet"
    path.write_bytes(damaged(stream.getvalue(), draw))
    read_episode_file(path)


STATEMENTS = [
    "CREATE MACRO count(x) AS 7",
    "CREATE OR REPLACE VIEW scores AS SELECT 1 AS run_id",
    "DROP VIEW scores",
    "CREATE TABLE other (a INTEGER)",
    "CREATE SCHEMA evil",
    "INSERT INTO ingested SELECT '../../x', 'y'",
]
QUERIES = [
    "SELECT count(*) FROM scores",
    "COPY (SELECT 1) TO '{0}' (FORMAT csv, USE_TMP_FILE false)",
    "EXPORT DATABASE '{0}'",
    "ATTACH '{0}' AS other",
    "SELECT * FROM read_text('{0}')",
    "CALL enable_logging(storage='file', storage_path='{0}')",
    "SET enable_external_access = true",
    "WITH a AS (SELECT 1) SELECT * FROM a",
]


def databases(folder, draw):
    """A database with other tables, views and macros, and queries that reach for files."""
    path = folder / DATABASE_FILE
    with revision(folder, rebuild=True):
        pass
    with duckdb.connect(str(path)) as connection, contextlib.suppress(duckdb.Error):
        for statement in draw(st.lists(st.sampled_from(STATEMENTS), max_size=2)):
            connection.execute(statement)
    content = path.read_bytes()
    other = draw(st.sampled_from([path, folder / "new.csv"]))
    try:
        with reader(folder) as connection:
            connection.execute(draw(st.sampled_from(QUERIES)).format(other)).fetchall()
    except duckdb.Error as error:  # `imitbench sql` shows it in one line
        raise InputError(str(error).splitlines()[0]) from error
    finally:
        assert path.read_bytes() == content
        assert not (folder / "new.csv").exists()


def sweeps(folder, draw):
    """What a sweep requested, planned again as by `imitbench resume`."""
    cell = {"suite": "classic", "algo": "bc", "env": "Pendulum-v1",
            "folder": "classic/bc/Pendulum-v1", "run_ids": ["0" * 12]}  # fmt: skip
    request = {"algorithms": ["bc"], "suite": "classic", "environment": "Pendulum-v1",
               "seeds": [0], "budget": "quick", "folder": str(folder)}  # fmt: skip
    document = {"schema_version": 3, "command": "x", "cells": [cell], "request": request}
    document = changed(document, draw)
    if draw(st.integers(0, 3)) == 0 and isinstance(document.get("request"), dict):
        document["request"]["seeds"] = draw(
            st.sampled_from([[-1], [2**32], [2**70], list(range(2_000)), list(range(1_100_000))])
        )
    (folder / SWEEPS_FOLDER).mkdir()
    (folder / SWEEPS_FOLDER / "a.json").write_text(json.dumps(document))
    missing = plan_missing(folder)
    if missing.left_out:
        raise InputError(missing.left_out[0].why)


def minari_metadata(folder, draw):
    good = {"total_episodes": 1, "total_steps": 2, "dataset_id": "a-v0", "data_format": "arrow",
            "observation_space": '{"type": "Box"}', "action_space": '{"type": "Box"}'}  # fmt: skip
    file = folder / "a-v0" / "data" / "metadata.json"
    file.parent.mkdir(parents=True)
    file.write_bytes(damaged(json.dumps(changed(good, draw)).encode(), draw))
    os.environ["MINARI_DATASETS_PATH"] = str(folder)
    find_minari("a-v0")


def hub_files(folder, draw):
    """A hub's list of the files of a repository."""
    lfs = {"size": 5, "oid": "0" * 64, "pointerSize": 9}
    files = [{"path": "policy.json", "size": 5, "oid": "0", "lfs": lfs}]
    with as_input_error("org/name", None):
        entries = [RepoFile(**each) for each in changed(files, draw)]
        check_sizes("org/name", stated_sizes("org/name", entries))


def leases(folder, draw):
    good = {"host": "a", "machine": "b", "pid": 5, "started": "7", "nonce": "0" * 32,
            "heartbeat_s": 15.0}  # fmt: skip
    content = json.dumps(changed(good, draw)).encode()
    (folder / lease.LEASE_FILE).write_bytes(damaged(content, draw))
    lease.is_held(folder)
    held = lease.acquire(folder, wait=False)
    if held is not None:
        held.release()


TARGETS = {
    each.__name__: each
    for each in (
        settings_file, readme, card, csv_table, npz, npy_folder, parquet, arrow, json_lines,
        statistics, sb3_zip, policy, foreign, lerobot, robomimic, reward, space,
        submission, disclosures, sacred, episodes, databases, sweeps, minari_metadata, hub_files,
        leases,
    )
}  # fmt: skip
