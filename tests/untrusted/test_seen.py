"""Files, folders, names and settings that once hurt: one line, exit code 2, 10 s and 1 GiB.

Each is the class of a finding in version 0.2.0, tried with the command that met it.
"""

import hashlib
import io
import json
import os
import shutil
import struct
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load, save
from stable_baselines3 import PPO
from support.command import call_imitbench, refusal
from support.plugins import write_plugin
from support.published import publish
from support.synthetic_runs import plan_runs, write_results

from imitbench.cards.catalog import suite_directory
from imitbench.store.database import DATABASE_FILE

SECONDS, BYTES = 10, 2**30
ENV = "seals/CartPole-v0"
MERGES = "a0: &a0 {k: 1}\n" + "".join(
    f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 60)
)
BASE_60 = "a: 1:" + "59:" * 150_000 + "1\n"
ESCAPES = "\x1b]0;title\x07\n" + "y" * 1_000_000


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """A folder with an expert, a method, and a results folder with an export."""
    folder = tmp_path_factory.mktemp("given")
    name = f"ppo-{ENV.replace('/', '-')}"
    shutil.copytree(suite_directory("classic") / "experts" / name, folder / "expert")
    write_plugin(folder / "method")
    (folder / "zip").mkdir()
    PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8).save(folder / "zip/ppo-CartPole-v1")
    write_results(folder / "runs", plan_runs(2))
    publish(folder / "runs", folder / "sub")
    return folder


@pytest.fixture
def place(given, tmp_path):
    return Path(shutil.copytree(given, tmp_path / "given", symlinks=True))


def expert(file, content):
    """Writes a file of the expert, which a command then loads."""

    def make(place):
        path = place / "expert" / file
        path.unlink(missing_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return ("experts", "eval", "./expert", "--env", ENV, "--episodes", "1")

    return make


def policy(**changes):
    """Changes the description of the expert's policy."""

    def make(place):
        path = place / "expert" / "policy.json"
        document = json.loads(path.read_text())
        for name, change in changes.items():
            document[name] |= change
        return expert("policy.json", json.dumps(document))(place)

    return make


def box(**changes):
    space = {"type": "Box", "shape": [4], "dtype": "float32", "low": [-1.0], "high": [1.0]}
    return policy(observation_space={**space, **changes})


def foreign(*shapes, output="logits"):
    """A policy of layers, which another program may have written."""

    def make(place):
        document = json.loads((place / "expert" / "policy.json").read_text())
        weights = {}
        for index, (returned, taken) in enumerate(shapes):
            weights[f"{index}.weight"] = np.ones((returned, taken), np.float32)
            weights[f"{index}.bias"] = np.ones(returned, np.float32)
        (place / "expert" / "w.safetensors").write_bytes(save(weights))
        own = {name: document[name] for name in ("observation_space", "action_space")}
        own |= {"format": "imitbench-foreign-policy", "kind": "layers", "file": "w.safetensors"}
        return expert("policy.json", json.dumps({**own, "output": output}))(place)

    return make


def card(content, file="suite.yaml"):
    def make(place):
        (place / "mine").mkdir()
        (place / "mine" / file).write_text(content)
        return ("suites", "show", "./mine") if file == "suite.yaml" else ("algos", "./mine")

    return make


def method(old, new):
    def make(place):
        path = place / "method" / "card.yaml"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
        return ("run", "--algo", "./method", "--suite", "classic", "--dry-run")

    return make


def file(name, content, *words):
    def make(place):
        (place / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return words or ("demos", "validate", name)

    return make


def npy(array=None, *, shape=None):
    stream = io.BytesIO()
    if array is not None:
        np.save(stream, array)
    else:
        header = {"descr": "<f8", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue()


def zipped(**members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return stream.getvalue()


def lying_zip():
    content = bytearray(zipped(obs=npy(np.ones((3, 1))), acts=npy(np.ones((3, 1)))))
    place = content.rindex(b"PK\1\2") + 24
    content[place : place + 4] = struct.pack("<I", 2**30)
    return bytes(content)


def shards(make_table, name="train-00000-of-00001.parquet"):
    def make(place):
        folder = place / "set" / "data"
        folder.mkdir(parents=True)
        if make_table is None:
            (folder / name).write_bytes(b"PAR1")
        else:
            pq.write_table(make_table(), folder / name)
        return ("demos", "validate", "./set")

    return make


def texts():
    """A column of 40,000 rows that share one long text: 40 GB after decoding."""
    shared = pa.array(["x" * 1_000_000])
    return pa.table({"obs": pa.DictionaryArray.from_arrays(np.zeros(40_000, np.int32), shared)})


def no_width():
    """Steps without numbers: a million of them take no space."""
    steps = pa.array([[[]] * 1_000_000], pa.list_(pa.list_(pa.float64())))
    return pa.table({"obs": steps, "acts": steps})


def zeros(place):
    """Obs of 200 MB in less than one."""
    header = npy(shape=(25_000_000,))
    with zipfile.ZipFile(place / "a.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("acts.npy", npy(np.ones((3, 1))))
        with archive.open("obs.npy", "w") as member:
            member.write(header)
            for _ in range(20):
                member.write(bytes(10_000_000))
    return ("demos", "validate", "a.npz")


def typed(*words):
    return lambda _: words


def tensors(dtype):
    header = json.dumps({"a": {"dtype": dtype, "shape": [2], "data_offsets": [0, 1]}}).encode()
    return struct.pack("<Q", len(header)) + header + b"\0"


def weights(make_file):
    def make(place):
        path = place / "expert" / "policy.safetensors"
        path.unlink()
        make_file(path)
        return ("experts", "eval", "./expert", "--env", ENV, "--episodes", "1")

    return make


def device(path):
    path.symlink_to("/dev/zero")


def sparse(path):
    with path.open("wb") as stream:
        stream.truncate(8 * 2**30)


def run_file(name, make_file, *words):
    def make(place):
        [run, *_] = sorted((place / "runs").glob("*/*/*/*/result.json"))
        path = run.with_name(name)
        path.unlink(missing_ok=True)
        make_file(path)
        return (*words, run.parent.name, "--out", "runs") if words == ("logs",) else words

    return make


def other_file(name, make_file, *words):
    def make(place):
        make_file(place / name)
        return words

    return make


def queried(query):
    """Asks a database with the path of its file in the query."""

    def make(place):
        return ("sql", query.format(place / "runs" / DATABASE_FILE), "--out", "runs")

    return make


def log_of_database(path):
    os.mkfifo(path)
    path.with_suffix("").touch()


def submission(change):
    """Changes the manifest of a submission."""

    def make(place):
        path = place / "sub" / "manifest.json"
        document = json.loads(path.read_text())
        change(document, place / "sub")
        path.write_text(json.dumps(document))
        return ("leaderboard", "validate", "sub")

    return make


def without_digest(manifest, folder):
    del manifest["digest"]


def another_suite(manifest, folder):
    manifest["suites"]["seals"] = next(iter(manifest["suites"].values()))


def sparse_member(manifest, folder):
    name = next(iter(manifest["files"]))
    (folder / name).unlink()
    sparse(folder / name)


def huge_weights(place):
    """Weights of 3e38, whose sums are infinite."""
    folder = place / "expert"
    path = folder / "policy.safetensors"
    content = path.read_bytes()
    numbers = {
        name: np.full_like(values, 3e38) if values.dtype.kind == "f" else values
        for name, values in load(content).items()
    }
    path.write_bytes(save(numbers))
    told = (folder / "policy.json").read_text()
    digests = [hashlib.sha256(each).hexdigest() for each in (content, path.read_bytes())]
    (folder / "policy.json").write_text(told.replace(*digests))
    return ("eval", "./expert", "--env", ENV, "--episodes", "1")


def misnamed(name, *words):
    """Gives a file or folder a name that is not UTF-8."""

    def make(place):
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text("1\n")
        path.rename(path.with_name(NOT_UTF8 + path.suffix))
        return words

    return make


def misnamed_run(*words):
    def make(place):
        [run, *_] = sorted((place / "runs").glob("*/*/*/*"))
        run.rename(run.with_name(NOT_UTF8))
        return words

    return make


def to_misnamed(*words):
    def make(place):
        demos = suite_directory("classic") / "demos" / "sac-Pendulum-v1"
        return tuple(str(demos) if word == "DEMOS" else word for word in words)

    return make


def source(line):
    """Adds a line to the source of the method."""

    def make(place):
        with (place / "method" / "learner.py").open("a") as stream:
            stream.write(f"{line}\n")
        return METHOD

    return make


def loop(name, *words):
    """A link that leads to itself."""

    def make(place):
        (place / name).symlink_to(name)
        return words

    return make


NOT_UTF8 = os.fsdecode(b"a\xff\xfe")
METHOD = ("run", "--algo", "./method", "--suite", "classic", "--dry-run")
DRY_RUN = ("run", "--algo", "bc", "--suite", "classic", "--dry-run")
RUNS = ("--out", "runs")
DATABASE = f"runs/{DATABASE_FILE}"
COPIES = b"\x80\x04(" + b"K\x01" * 10_000 + b"t\x94cnumpy\ndtype\n\x94"
COPIES += b"h\x01h\x00}\x92" * 20_000 + b"."
SEEN = {
    # Time
    "merge keys in a suite card": card(MERGES),
    "merge keys in a method's card": card(MERGES, "card.yaml"),
    "merge keys in config.yml": expert("config.yml", MERGES),
    "merge keys in args.yml": expert("args.yml", MERGES),
    "merge keys in env_kwargs.yml": expert("env_kwargs.yml", MERGES),
    "numbers in base 60 in a suite card": card(BASE_60),
    "numbers in base 60 in config.yml": expert("config.yml", BASE_60),
    "numbers in base 60 in env_kwargs.yml": expert("env_kwargs.yml", BASE_60),
    "a table of 100,000 columns, import": file(
        "a.csv", ",".join(f"c{n}" for n in range(100_000)) + "\n", "import", "csv", "a.csv"
    ),
    "a table of 100,000 columns, demonstrations": file(
        "a.csv", ",".join(f"c{n}" for n in range(100_000)) + "\n"
    ),
    "a pickle that copies a tuple": file(
        "zip/vec_normalize.pkl", COPIES, "experts", "eval", "./zip", "--env", "CartPole-v1"
    ),
    "episodes of -1 steps": expert("env_kwargs.yml", "max_episode_steps: -1\n"),
    "episodes of 10^12 steps": expert("env_kwargs.yml", f"max_episode_steps: {10**12}\n"),
    "weights that are a pipe": weights(os.mkfifo),
    "a suite card of 40 MB": card("a: '" + "x" * 40_000_000 + "'\n"),
    # Memory
    "boxes of 67,108,864 numbers": box(shape=[67_108_864]),
    "one text 40,000 times": shards(texts),
    "lists of width 0": shards(no_width),
    "an array of 10^12 steps": file(
        "a.npz", zipped(obs=npy(shape=(10**12,)), acts=npy(shape=(10**12,)))
    ),
    "200 MB of zeros": zeros,
    "weights from /dev/zero": weights(device),
    "weights of 8 GiB of holes": weights(sparse),
    "a shard of a billion": shards(None, "train-00000-of-1000000000.parquet"),
    # Tracebacks
    "a space of NaN": box(low=["nan"]),
    "an infinite space": box(shape=["inf"]),
    "a negative space": box(shape=[-2]),
    "a space of 70 axes": box(shape=[1] * 70),
    "a space wider than integers": box(shape=[10**30]),
    "low above high": box(low=[2.0]),
    "data type f1": box(dtype="f1"),
    "data type b8": box(dtype="b8"),
    "tensors of type F4": expert("policy.safetensors", tensors("F4")),
    "tensors of type F8_E8M0": expert("policy.safetensors", tensors("F8_E8M0")),
    "arguments that a policy refuses": policy(kwargs={"net_arch": [-1]}),
    "arguments of another type": policy(kwargs={"net_arch": {"pi": 64}}),
    "layers that do not chain": foreign((8, 4), (2, 9)),
    "an output of another size": foreign((3, 4)),
    "names that are not UTF-8": file(
        "a.npz",
        zipped(abcd=npy(np.ones(3)), obs=npy(np.ones((3, 1)))).replace(b"abcd", b"ab\xff\xfe"),
    ),
    "a name that no disk takes": typed("demos", "validate", "x" * 5_000),
    "an absurd value on a method's card": method("default: 0.001", "default: .nan"),
    "an empty value on a method's card": method("default: 0.001", "default:"),
    "seconds below zero on a method's card": method("per_1000: 0.5", "per_1000: -1"),
    "weights of 3e38": huge_weights,
    "a source whose name is not UTF-8": misnamed("method/b.py", *METHOD),
    "a source in a folder whose name is not UTF-8": misnamed("method/b/c.py", *METHOD),
    "a method's folder whose name is not UTF-8": misnamed(
        "method", "run", "--algo", f"./{NOT_UTF8}", "--suite", "classic", "--dry-run"
    ),
    "a run whose name is not UTF-8": misnamed_run("collect", "--out", "runs"),
    "imported results whose name is not UTF-8": misnamed(
        "runs/external/b.jsonl", "report", "--out", "runs"
    ),
    "results in a folder whose name is not UTF-8": typed(
        "run", "--algo", "random", "--suite", "classic", "--out", NOT_UTF8
    ),
    "a set whose name is not UTF-8": to_misnamed("demos", "convert", "DEMOS", NOT_UTF8),
    "an export whose name is not UTF-8": typed(
        "results", "export", "--out", "runs", NOT_UTF8
    ),
    "an expert whose name is not UTF-8": misnamed(
        "expert", "experts", "convert", f"./{NOT_UTF8}", "converted"
    ),
    "an empty pattern of sources": method("name: mine", "sources: ['']\nname: mine"),
    "a pattern of sources for the folder": method("name: mine", "sources: ['.']\nname: mine"),
    "a pattern of sources with three stars": method("name: mine", "sources: ['***']\nname: mine"),
    "100,000 minus signs in a method's source": source("x = " + "-" * 100_000 + "1"),
    "100,000 sums in a method's source": source("x = " + "1+" * 100_000 + "1"),
    "100,000 minus signs on a method's card": method("default: 8", f"default: {'-' * 100_000}1"),
    "infinite seconds on a method's card": method("per_1000: 0.5", "per_1000: .inf"),
    "10^300 seconds on a method's card": method("per_1000: 0.5", "per_1000: 1.0e+300"),
    "memory of 400 digits": typed(*DRY_RUN, "--max-mem", f"{'9' * 400}G"),
    "a time limit of 400 digits": typed(*DRY_RUN, "--timeout", f"{'9' * 400}h"),
    "digits that are no time limit": typed(*DRY_RUN, "--timeout", "9" * 400 + "!"),
    "a table that is a link to itself": loop("b.csv", "import", "csv", "b.csv"),
    "runs of Sacred that are a link to itself": loop("b", "import", "sacred", "b"),
    "a suite that is a link to itself": loop("b", "suites", "show", "./b"),
    "a method that is a link to itself": loop("b", "algos", "./b"),
    # Faults
    "a log that is a pipe": run_file("log.txt", os.mkfifo, "logs"),
    "a log that is a device": run_file("log.txt", device, "logs"),
    "a profile that is a pipe": other_file(
        "p.yaml", os.mkfifo, "run", "--algo", "bc", "--suite", "classic", "--profile", "p.yaml"
    ),
    "a lock that is a pipe": other_file(
        "imitbench-hub.lock", os.mkfifo, "run", "--algo", "bc", "--suite", "classic",
        "--source", "hub",
    ),
    "a database that is a pipe, collect": other_file(DATABASE, os.mkfifo, "collect", *RUNS),
    "a database that is a pipe, report": other_file(DATABASE, os.mkfifo, "report", *RUNS),
    "a database that is a pipe, sql": other_file(DATABASE, os.mkfifo, "sql", "from runs", *RUNS),
    "a log of a database that is a pipe": other_file(
        f"{DATABASE}.wal", log_of_database, "report", *RUNS
    ),
    "a query that writes over the database": queried(
        "COPY (SELECT 1) TO '{}' (FORMAT csv, USE_TMP_FILE false)"
    ),
    "a query that writes a log": queried("CALL enable_logging(storage='file', storage_path='{}')"),
    "an export that is a pipe": other_file("a.jsonl", os.mkfifo, "demos", "validate", "a.jsonl"),
    "an export that is a device": other_file("a.npz", device, "demos", "validate", "a.npz"),
    # Messages
    "control characters and a megabyte": typed("suites", "show", ESCAPES[:100_000]),
    "control characters in a suite card": card(f"name: {json.dumps(ESCAPES)}\n"),
    # Boards
    "a manifest without its digest": submission(without_digest),
    "a manifest with a suite that nobody ran": submission(another_suite),
    "gigabytes of holes in a submission": submission(sparse_member),
    "a zip that lies about sizes": file("a.npz", lying_zip()),
}  # fmt: skip


@pytest.mark.parametrize("what", SEEN)
def test_it_is_one_line_in_time_and_memory(what, place):
    words = SEEN[what](place)
    answer = call_imitbench(*words, cwd=place, bounds=(SECONDS, BYTES))
    if words[:2] == ("leaderboard", "validate"):
        assert answer.code == 1, answer
        assert len(answer.out) < 4_000
        return
    line = refusal(answer)
    assert len(line) <= 510
    assert line.isprintable()
