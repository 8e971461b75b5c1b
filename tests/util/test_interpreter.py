"""Python does not look for modules in the current folder."""

import os
import subprocess
import sys

import pytest

from imitbench.util import interpreter
from imitbench.util.interpreter import leave_out_current_folder, module_command, shell_prefix

PROGRAM = "import json, sys\nprint(json.__file__, sys.argv[1:])\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with a `json.py`; a program that imports it is installed elsewhere."""
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "json.py").write_text("raise SystemExit('executed')\n")
    (tmp_path / "installed").mkdir()
    (tmp_path / "installed" / "program.py").write_text(PROGRAM)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "installed"))
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def outputs(command):
    done = subprocess.run(command, capture_output=True, text=True, shell=isinstance(command, str))
    assert done.returncode == 0, done.stderr
    path, _, arguments = done.stdout.strip().partition(" ")
    assert path.endswith("json/__init__.py")
    return arguments


@pytest.mark.parametrize("version", [(3, 10), sys.version_info])
def test_a_module_is_run_without_the_folder(folder, monkeypatch, version):
    with monkeypatch.context() as patch:
        patch.setattr(interpreter.sys, "version_info", version)
        command = module_command("program", "-m", "two words")
    assert outputs(command) == "['-m', 'two words']"


@pytest.mark.parametrize("own", [True, False])
def test_a_shell_runs_a_module_without_the_folder(folder, own):
    prefix = shell_prefix(sys.executable, own=own)
    assert outputs(f"{prefix} -u -m program 'two words'") == "['two words']"


@pytest.mark.parametrize(
    ("given", "left"), [("", None), (".", None), (":/a", "/a"), ("/a:src", "/a:src"), (None, None)]
)
def test_relative_names_of_the_folder_are_left_out(folder, monkeypatch, given, left):
    if given is None:
        monkeypatch.delenv("PYTHONPATH")
    else:
        monkeypatch.setenv("PYTHONPATH", given)
    monkeypatch.setattr(sys, "path", ["", str(folder), *sys.path])
    leave_out_current_folder()
    assert os.environ.get("PYTHONPATH") == left
    assert not {"", str(folder)} & set(sys.path)


def test_a_folder_that_was_named_in_full_or_installed_stays(folder, monkeypatch):
    path = [*sys.path, str(folder)]  # as by a `.pth` file
    monkeypatch.setattr(sys, "path", list(path))
    leave_out_current_folder()
    assert sys.path == path
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    leave_out_current_folder()
    assert sys.path[0] == os.environ["PYTHONPATH"] == str(folder)


def test_the_package_as_a_program_leaves_it_out(folder):
    done = subprocess.run([sys.executable, "-m", "imitbench", "--version"], capture_output=True)
    assert done.returncode == 0, done.stderr
