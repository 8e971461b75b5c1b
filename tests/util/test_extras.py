"""Optional packages: each in an extra of its own, named where it is missing."""

import ast
import contextlib
import functools
import re
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import get_args

import pytest
import tomllib

import imitbench
from imitbench.errors import InputError
from imitbench.util.extras import Extra, import_extra

PACKAGE = Path(imitbench.__file__).parent
PROJECT = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["project"]
FOR_WORK_ON_THE_PROJECT = {"all", "browser", "build", "dev", "docs", "lint", "test"}
# Modules that are imported only once an extra was asked for, and what tells it in another way:
# the reference's logger, by its own error.
LATER = {
    "policies/pusht_pushes.py": {"shapely"},  # plans in a world that needs the extra pusht
    "policies/pusht_world.py": {"shapely"},
    "report/plots.py": {"matplotlib"},
    "report/reward_figure.py": {"matplotlib"},
    "tune": {"optuna", "sqlalchemy"},
    "util/logger.py": {"wandb"},
}


def normal(requirement):
    """Name of a distribution as indexes compare it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement)[0]).lower()


# pydantic's own half of Rust comes with it.
REQUIRED = {normal(requirement) for requirement in (*PROJECT["dependencies"], "pydantic-core")}


@functools.cache
def always_there():
    """Packages that come with what is required."""
    found = set()
    for name in REQUIRED:
        with contextlib.suppress(PackageNotFoundError):  # required by other versions of Python
            here = distribution(name)
            listed = here.read_text("top_level.txt")
            files = listed.split() if listed else {each.parts[0] for each in here.files}
            found |= {each.removesuffix(".py") for each in files}
    return found


def statements(node):
    """Statements in a module, without those for types only."""
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        inner = node.orelse
    else:
        blocks = ("body", "orelse", "finalbody", "handlers", "cases")
        inner = [each for block in blocks for each in getattr(node, block, ())]
    for each in inner:
        yield each
        yield from statements(each)


def imported(tree):
    """Top-level packages that a module imports for more than types."""
    for node in statements(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module.partition(".")[0]


def test_only_what_is_always_installed_is_imported_unasked():
    for path in sorted(PACKAGE.rglob("*.py")):
        text, place = path.read_text(), path.relative_to(PACKAGE)
        if "templates" in place.parts:
            continue
        tolerated = LATER.get(str(place), set()) | LATER.get(place.parts[0], set())
        for name in set(imported(ast.parse(text))) - set(sys.stdlib_module_names) - tolerated:
            if name == "imitbench" or f'import_extra("{name}' in text:
                continue
            assert name in always_there(), (place, name)


def test_every_extra_can_be_installed():
    extras = set(PROJECT["optional-dependencies"])
    assert set(get_args(Extra)) == extras - FOR_WORK_ON_THE_PROJECT
    named = ",".join(PROJECT["optional-dependencies"]["all"])
    absent = {extra for extra in get_args(Extra) if not re.search(rf"\b{extra}\b", named)}
    assert absent == {"pusht"}  # its opencv-python breaks `cv2` on servers


def test_a_missing_package_is_told_with_its_extra(monkeypatch):
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "optuna", raising=False)
    with pytest.raises(InputError) as told:
        import_extra("optuna", "tune", "tuning")
    assert str(told.value) == (
        "tuning needs optuna, which is not installed: pip install 'imitbench[tune]'"
    )


def test_a_broken_package_is_told_with_its_complaint(monkeypatch, tmp_path):
    (tmp_path / "broken_extra.py").write_text("import something_it_lacks")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=r"cannot be loaded \(No module named 'something_it_lack"):
        import_extra("broken_extra", "plots", "drawing")


def test_a_library_that_servers_lack_is_told_with_the_package_that_needs_none(monkeypatch):
    def fail(name):
        raise ImportError("libGL.so.1: cannot open shared object file")

    monkeypatch.setattr("importlib.import_module", fail)
    with pytest.raises(InputError, match="uninstall -y opencv-python; pip install --force-reins"):
        import_extra("gym_pusht.envs", "pusht", "PushT")
