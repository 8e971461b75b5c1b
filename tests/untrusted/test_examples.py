"""One example of each class of docs/security.md: one line, the exit code, 10 s and 1 GiB."""

import io
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "security.md"
SECONDS, BYTES = 10, 2**30


def yaml_bomb(folder):
    lines = ["a0: &a0 {k: 1}"]
    lines += [f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 60)]
    (folder / "suite.yaml").write_text("\n".join(lines))
    return ["suites", "show", str(folder)]


def claimed_array(folder):
    stream = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (10**12,)}
    np.lib.format.write_array_header_1_0(stream, header)
    with zipfile.ZipFile(folder / "a.npz", "w") as archive:
        for name in ("obs", "acts"):
            archive.writestr(f"{name}.npy", stream.getvalue())
    return ["demos", "validate", "a.npz"]


def absurd_space(folder):
    space = '{"type": "Box", "shape": [67108864], "dtype": "f1", "low": [NaN], "high": [1]}'
    (folder / "policy.json").write_text(f'{{"observation_space": {space}}}')
    (folder / "policy.safetensors").write_bytes(b"")
    return ["eval", ".", "--env", "CartPole-v1"]


def pipe(folder):
    os.mkfifo(folder / "a.jsonl")
    return ["demos", "validate", "a.jsonl"]


def escapes(folder):
    return ["suites", "show", "x\x1b]0;title\x07\n" + 3_000 * "y"]


def no_digest(folder):
    (folder / "manifest.json").write_text(
        '{"format": "imitbench-results", "version": 1, "imitbench": "0", "command": "", '
        '"suites": {}, "provenances": {}, "files": {}}'
    )
    return ["leaderboard", "validate", "."]


# A process begins with the memory of the one that starts it, so a small one starts the command.
MEASURE = """
import resource, subprocess, sys
done = subprocess.run([sys.executable, "-m", "imitbench", *sys.argv[1:]], stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(done.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss)
"""
EXAMPLES = {
    "Time": (yaml_bomb, 2),
    "Memory": (claimed_array, 2),
    "Tracebacks": (absurd_space, 2),
    "Faults": (pipe, 2),
    "Messages": (escapes, 2),
    "Boards": (no_digest, 1),
}


@pytest.mark.parametrize("kind", EXAMPLES)
def test_an_example_of_each_class_is_one_line(kind, tmp_path):
    make, code = EXAMPLES[kind]
    with (tmp_path / "err").open("w+") as err:
        measured = subprocess.run(
            [sys.executable, "-c", MEASURE, *make(tmp_path)],
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=err, text=True, check=True,
        )  # fmt: skip
        err.seek(0)
        said = err.read()
    returned, seconds, kilobytes = map(float, measured.stdout.split())
    assert returned == code, said
    assert seconds < SECONDS  # of its children, too
    assert kilobytes * 1024 < BYTES
    if code == 2:
        [line] = said.splitlines()
        assert line.startswith("error: ")
        assert len(line) <= 520
        assert line.isprintable()


def test_the_page_names_each_class():
    table = PAGE.read_text().partition("| class |")[2].partition("\n\n")[0]
    named = re.findall(r"^\| (\w+) \|", table, re.MULTILINE)
    assert set(EXAMPLES) | {"Spreadsheets"} == set(named)
