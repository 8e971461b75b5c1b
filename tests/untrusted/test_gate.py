"""Readers that hang, fill the memory, crash or raise end in one line, and the reader goes on."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from pydantic import BaseModel

from imitbench.errors import InputError
from imitbench.untrusted import gate
from imitbench.untrusted.messages import MESSAGE_LENGTH


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"content")
    return path


@pytest.fixture(autouse=True)
def command(monkeypatch):
    monkeypatch.setattr(gate, "is_command", lambda: True)


@pytest.fixture
def hurried(monkeypatch):
    monkeypatch.setenv("IMITBENCH_LIMIT_CHILD_SECONDS", "1")


class Record(BaseModel):
    numbers: list[int]
    name: str


def test_a_typed_record_comes_back(file):
    made = Record(numbers=[1, 2], name=file.read_text())
    assert gate.read_in_child(lambda: made, file, Record) == made
    assert gate.try_reading(file.read_bytes, file) is None


def test_the_reader_runs_in_another_process(file):
    assert gate.read_in_child(os.getpid, file, int) != os.getpid()


def test_a_program_that_imports_the_package_is_not_copied(file, monkeypatch):
    def fail():
        raise KeyError(os.getpid())

    monkeypatch.setattr(gate, "is_command", lambda: False)
    assert gate.checked(os.getpid, file) == os.getpid()
    with pytest.raises(InputError, match=str(os.getpid())):
        gate.checked(fail, file)


def test_refusals_and_failures_are_one_line(file):
    def refuse():
        raise InputError("x: is wrong\n" + "y" * 10_000)

    def fail():
        raise KeyError("\x1b[31m" * 100_000)

    for read, start in ((refuse, "x: is wrong\\n"), (fail, f"{file}: cannot be read (KeyError: ")):
        with pytest.raises(InputError) as caught:
            gate.try_reading(read, file)
        text = str(caught.value)
        assert text.startswith(start)
        assert len(text) <= MESSAGE_LENGTH
        assert text.isprintable()


def test_a_reader_that_fills_the_memory_is_refused(file, monkeypatch):
    monkeypatch.setenv("IMITBENCH_LIMIT_CHILD_BYTES", str(2**27))

    def fill():
        return [np.ones(2**22) for _ in range(1000)]

    with pytest.raises(InputError, match="IMITBENCH_LIMIT_CHILD_BYTES"):
        gate.try_reading(fill, file)


def test_a_reader_that_hangs_is_stopped(file, hurried):
    def spin():
        while True:
            pass

    for read in (spin, lambda: time.sleep(1000)):
        with pytest.raises(InputError, match="IMITBENCH_LIMIT_CHILD_SECONDS"):
            gate.try_reading(read, file)


@pytest.mark.parametrize("end", [os.abort, lambda: os.kill(os.getpid(), 11), lambda: os._exit(3)])
def test_a_reader_that_crashes_is_refused(end, file):
    with pytest.raises(InputError, match=str(file)):
        gate.try_reading(end, file)


def test_a_large_answer_is_refused(file, monkeypatch):
    monkeypatch.setenv("IMITBENCH_LIMIT_CHILD_OUTPUT_BYTES", "1000")
    assert gate.read_in_child(lambda: "x" * 900, file, str)
    with pytest.raises(InputError, match="more than 1,000 bytes"):
        gate.read_in_child(lambda: "x" * 5000, file, str)


def connect():
    with socket.create_server(("127.0.0.1", 0)):
        pass


@pytest.mark.parametrize("act", [connect, lambda: subprocess.run([sys.executable, "-V"])])
def test_there_is_no_network_and_no_other_program(act, file):
    act()
    with pytest.raises(InputError, match=r"PermissionError|Operation not permitted"):
        gate.try_reading(act, file)


def test_files_and_outputs_are_bounded(file, monkeypatch):
    monkeypatch.setenv("IMITBENCH_LIMIT_CHILD_FILES", "64")
    with pytest.raises(InputError, match="CHILD_FILES"):
        gate.try_reading(lambda: [file.open() for _ in range(100)], file)
    monkeypatch.setenv("IMITBENCH_LIMIT_CHILD_OUTPUT_BYTES", "1000")
    other = file.with_name("other")
    with pytest.raises(InputError):
        gate.try_reading(lambda: other.write_bytes(bytes(10_000)), file)
    assert other.stat().st_size <= 1000


def test_files_that_change_meanwhile_are_refused(file):
    with pytest.raises(InputError, match="was changed"):
        gate.try_reading(lambda: file.write_text("longer than before"), file)


def left_open():
    children = [each.read_text() for each in Path("/proc/self/task").glob("*/children")]
    return {each.name for each in Path("/proc/self/fd").iterdir()}, sorted(children)


def test_nothing_stays_behind(file):
    before = left_open()
    for _ in range(5):
        gate.try_reading(file.read_bytes, file)
    assert left_open() == before


def test_missing_and_huge_folders(tmp_path, monkeypatch):
    absent = tmp_path / "absent"
    with pytest.raises(InputError, match="No such file"):
        gate.try_reading(absent.read_bytes, absent)
    monkeypatch.setenv("IMITBENCH_LIMIT_ENTRIES", "5")
    for number in range(10):
        (tmp_path / str(number)).touch()
    with pytest.raises(InputError, match="IMITBENCH_LIMIT_ENTRIES"):
        gate.try_reading(lambda: None, Path(tmp_path))
