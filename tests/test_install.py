"""The installer installs nothing twice, repairs environments, and reports errors in one line."""

import ast
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "scripts" / "install.py"


@pytest.fixture
def installer():
    spec = importlib.util.spec_from_file_location("installer", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def project(installer, tmp_path, monkeypatch):
    """A separate project folder, for an installer whose pip is replaced."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "pyproject.toml").write_text("lint = []\ndocs = []\n")
    (root / "constraints.txt").write_text("numpy==2\n")
    monkeypatch.setattr(installer, "ROOT", root)
    return root


@pytest.fixture
def pip(installer, monkeypatch):
    asked = []
    monkeypatch.setattr(installer, "_run_pip", lambda _, extras: asked.append(extras))
    return asked


def stand_in(venv, script):
    """Writes a script that replaces the environment's Python."""
    (venv / "bin").mkdir(parents=True)
    (venv / "pyvenv.cfg").touch()
    python = venv / "bin" / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)


def test_installed_extras_are_not_installed_again(installer, project, pip):
    venv = project / ".venv"
    stand_in(venv, "exit 0")
    for extras in (set(), {"lint"}, set(), {"lint"}, {"docs"}):
        installer.install(venv, extras)
    assert pip == [[], ["lint"], ["docs", "lint"]]
    (project / "constraints.txt").write_text("numpy==2.1\n")
    installer.install(venv, set())
    installer.install(venv, set())
    assert pip[3:] == [["docs", "lint"]]


def test_an_interrupted_installation_is_resumed(installer, project, monkeypatch):
    venv = project / ".venv"
    stand_in(venv, "exit 0")

    def interrupted(venv, extras):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["install.py", "--venv", str(venv), "lint"])
    with monkeypatch.context() as context:
        context.setattr(installer, "_run_pip", interrupted)
        assert installer.main() == 130
    again = []
    monkeypatch.setattr(installer, "_run_pip", lambda _, extras: again.append(extras))
    assert installer.main() == 0
    assert again == [["lint"]]


def test_partly_installed_packages_are_removed(installer, tmp_path):
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    for name, complete in (("whole-1.0", True), ("half-1.0", False)):
        (packages / f"{name}.dist-info").mkdir(parents=True)
        (packages / f"{name}.dist-info" / "METADATA").touch()
        if complete:
            (packages / f"{name}.dist-info" / "INSTALLER").touch()
    installer._remove_half_installed(tmp_path)
    assert [path.name for path in packages.iterdir()] == ["whole-1.0.dist-info"]


def test_an_incomplete_environment_is_created_again(installer, project, pip):
    venv = project / ".venv"
    stand_in(venv, "exit 1")  # a Python without pip
    assert not installer._usable(venv)
    (venv / "bin" / "python").unlink()
    assert not installer._usable(venv)
    installer.install(venv, set())
    assert installer._usable(venv)
    assert pip == [[]]


def refusal(installer, monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["install.py", *map(str, arguments)])
    assert installer.main() == 2
    captured = capsys.readouterr()
    [line] = [each for each in captured.err.splitlines() if not each.startswith("installing")]
    assert line.startswith("error: ")
    return line


def test_an_old_python_is_refused(installer, monkeypatch, capsys):
    ast.parse(SCRIPT.read_text(), feature_version=(3, 8))  # an old Python must be able to parse it
    monkeypatch.setattr(sys, "version_info", (3, 9, 2))
    line = refusal(installer, monkeypatch, capsys)
    assert "needs Python 3.10 or newer" in line
    assert "is 3.9:" in line
    assert "PYTHON=" in line


def test_an_unknown_extra_is_refused(installer, project, pip, monkeypatch, capsys):
    line = refusal(installer, monkeypatch, capsys, "--venv", project / ".venv", "lint", "lnit")
    assert line == "error: lnit: no such extra in pyproject.toml"
    assert pip == []
    assert not (project / ".venv").exists()


def test_a_path_that_is_not_an_environment_is_refused(
    installer, project, monkeypatch, capsys, tmp_path
):
    file = tmp_path / "file"
    file.touch()
    assert "is no folder" in refusal(installer, monkeypatch, capsys, "--venv", file)
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "diary.txt").touch()
    line = refusal(installer, monkeypatch, capsys, "--venv", folder)
    assert "is no virtual environment" in line
    assert list(folder.iterdir()) == [folder / "diary.txt"]


def test_a_read_only_path_is_refused(installer, project, monkeypatch, capsys):
    monkeypatch.setattr(os, "access", lambda *_: False)  # as for a user who is not root
    line = refusal(installer, monkeypatch, capsys, "--venv", "/proc/venv")
    assert line.startswith("error: /proc: is not writable")


def test_an_error_of_pip_is_reported_in_one_line(installer, project, monkeypatch, capsys):
    venv = project / ".venv"
    stand_in(
        venv,
        '[ "$1" = -c ] && exit 0; '
        'echo "WARNING: Retrying" >&2; echo "ERROR: No matching distribution for x" >&2; exit 1',
    )
    line = refusal(installer, monkeypatch, capsys, "--venv", venv)
    assert "(ERROR: No matching distribution for x)" in line
    assert "give the same command again" in line
    assert not (venv / installer.RECORD).exists()


def test_the_wheel_has_every_card_demonstration_and_published_result():
    """Files that package-data forgets are there in a checkout and absent where users install."""
    tomllib = pytest.importorskip("tomllib", reason="is in Python since 3.11")
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    forgotten = []
    for package, folder in setuptools["package-dir"].items():
        if package == "imitbench":
            continue
        patterns = [*setuptools["package-data"][package], "__init__.py"]
        shipped = {path for pattern in patterns for path in (ROOT / folder).glob(pattern)}
        assert len(shipped) > 1, folder
        data = {path for path in (ROOT / folder).rglob("*") if path.is_file()}
        forgotten += [
            str(path.relative_to(ROOT))
            for path in sorted(data - shipped)
            if path.name != "README.md" and path.parent.name != "__pycache__"
        ]
    assert forgotten == []


@pytest.fixture
def own_project(tmp_path):
    """A checkout with this project's `setup.py` and little else."""
    root = tmp_path / "checkout"
    (root / "imitbench").mkdir(parents=True)
    for name in ("setup.py", "imitbench/version.py", "imitbench/errors.py"):
        shutil.copy(ROOT / name, root / name)
    project = '[project]\nname = "imitbench"\nversion = "1"\n'
    (root / "pyproject.toml").write_text(f'{project}[tool.setuptools]\npackages = ["imitbench"]\n')
    git(root, "init", "--quiet")
    git(root, "add", ".")
    git(root, "-c", "user.name=x", "-c", "user.email=x@x", "commit", "--quiet", "-m", "first")
    return root


def git(root, *arguments):
    done = subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def built_commit(root, target):
    """The commit that a package built from a folder states when it is imported."""
    command = [sys.executable, "setup.py", "--quiet", "build_py", "--build-lib", target]
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    code = "import runpy; print(runpy.run_path('imitbench/version.py')['commit']())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=target, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_a_built_package_knows_its_commit(own_project, tmp_path):
    pytest.importorskip("setuptools")
    commit = git(own_project, "rev-parse", "HEAD")
    assert built_commit(own_project, tmp_path / "wheel") == commit
    subprocess.run([sys.executable, "setup.py", "--quiet", "sdist"], cwd=own_project, check=True)
    (archive,) = (own_project / "dist").iterdir()
    shutil.unpack_archive(archive, tmp_path)
    assert built_commit(tmp_path / "imitbench-1", tmp_path / "wheel of archive") == commit
    (own_project / "imitbench" / "errors.py").write_text("changed = True\n")
    assert built_commit(own_project, tmp_path / "changed") == f"{commit}-dirty"
    shutil.rmtree(own_project / ".git")
    shutil.rmtree(own_project / "build", ignore_errors=True)
    assert built_commit(own_project, tmp_path / "unknown") == "None"


def test_a_built_package_has_packed_results(own_project, tmp_path):
    pytest.importorskip("setuptools")
    table = own_project / "imitbench" / "published" / "bundled" / "table"
    files = {"runs/a.jsonl": "{}\n", "episodes/a/1.csv": "x\r\n", "episodes/a/2.csv": ""}
    for name, text in files.items():
        (table / name).parent.mkdir(parents=True, exist_ok=True)
        (table / name).write_text(text, newline="")
    (table / "manifest.json").write_text(json.dumps({"files": dict.fromkeys(files, "digest")}))
    (table / "disclosure.json").write_text("{}")
    with (own_project / "pyproject.toml").open("a") as project:
        project.write('package-data = {imitbench = ["published/**/*"]}\n')
    built_commit(own_project, tmp_path / "built")
    packed = tmp_path / "built" / table.relative_to(own_project)
    assert {path.name for path in packed.iterdir()} == {
        "manifest.json", "disclosure.json", "files.tar.xz"
    }  # fmt: skip
    with tarfile.open(packed / "files.tar.xz") as archive:
        assert {
            name: archive.extractfile(name).read().decode() for name in archive.getnames()
        } == files
