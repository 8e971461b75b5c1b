"""Dependencies flow one way, and no module opens a pickle."""

import ast
from pathlib import Path

import pytest

import imitbench

PACKAGE = Path(imitbench.__file__).parent
# A package may import from its own layer's lower neighbours only: those further down the list.
LAYERS = [
    {"cli"},
    {"experts", "report"},
    {"bench"},
    {"hub"},
    {"store", "executors", "stats"},
    {"algorithms"},
    {"rl"},
    {"policies", "rewards"},
    {"data", "cards", "regularization", "testing"},
    {"util"},
    {"errors"},
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
MODULES = sorted(PACKAGE.rglob("*.py"))


def part_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_downwards(path):
    own = part_of(path)
    if own in ("__init__", "__main__"):
        return
    for name in imports(path):
        parts = name.split(".")
        if parts[0] != "imitbench" or len(parts) < 2 or parts[1] == "__version__":
            continue
        other = parts[1]
        assert other in RANK, f"{other} has no layer"
        assert other == own or RANK[other] > RANK[own], f"{own} imports {name}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_executes_what_it_reads(path):
    if path == PACKAGE / "data" / "trusted.py":
        return  # what `trust=True` asks for, all in one place
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = {alias.name for alias in node.names} | {getattr(node, "module", None)}
            assert not names & {"pickle", "jsonpickle", "dill", "cloudpickle", "marshal"}
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in ("eval", "exec", "yaml.load", "pickle.load")
            if called in ("torch.load", "th.load"):
                assert "weights_only=True" in ast.unparse(node)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_modules_and_functions_stay_short(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 600
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno - node.lineno < 80, node.name


def test_every_package_is_shipped():
    tomllib = pytest.importorskip("tomllib")
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())
    listed = set(project["tool"]["setuptools"]["packages"])
    found = {
        ".".join(["imitbench", *path.parent.relative_to(PACKAGE).parts])
        for path in PACKAGE.rglob("__init__.py")
    }
    assert listed - {"imitbench.cards.algorithms", "imitbench.cards.suites"} == found
