"""Dependencies flow one way, and no module opens a pickle."""

import ast
import functools
import gc
import itertools
from pathlib import Path

import pytest

import imitbench

PACKAGE = Path(imitbench.__file__).parent
# A package may import only from layers further down this list.
LAYERS = [
    {"cli"},
    {"api", "dashboard"},
    {"api_arguments"},
    {"labelling", "race", "recording", "reward_board"},
    {"experts", "report", "templates", "tune"},
    {"conformance"},
    {"bench"},
    {"hub"},
    {"published"},
    {"store", "executors"},
    {"algorithms"},
    {"rl", "testing"},
    {"envs", "policies", "rewards", "records"},
    {"stats", "data", "cards", "regularization"},
    {"util"},
    {"untrusted"},
    {"errors", "version"},
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
MODULES = sorted(PACKAGE.rglob("*.py"))


@functools.cache
def parsed(path):
    tree = ast.parse(path.read_text())
    gc.freeze()  # trees have no cycles, and live until the end
    return tree


@functools.cache
def nodes_of(tree):
    return list(ast.walk(tree))


@functools.cache
def called_by(call):
    """What a call calls, as text."""
    return ast.unparse(call.func)


def part_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


# One test for each package, since there are hundreds of modules.
PACKAGES = {part: list(modules) for part, modules in itertools.groupby(MODULES, part_of)}
every_package = pytest.mark.parametrize("modules", PACKAGES.values(), ids=PACKAGES)


def place_of(path):
    return path.relative_to(PACKAGE).as_posix()


def found_in(modules, look):
    """What is found in the syntax trees of modules, by module."""
    found = {place_of(path): set(look(parsed(path))) for path in modules}
    return {place: names for place, names in found.items() if names}


def allowed_in(modules, table):
    return {place: table[place] for place in map(place_of, modules) if place in table}


@functools.cache
def import_nodes(path):
    return [
        node for node in nodes_of(parsed(path)) if isinstance(node, ast.Import | ast.ImportFrom)
    ]


def imports(path):
    for node in import_nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        else:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@every_package
def test_imports_point_downwards(modules):
    own = part_of(modules[0])
    if own in ("__init__", "__main__"):
        return
    for name in itertools.chain.from_iterable(map(imports, modules)):
        parts = name.split(".")
        if parts[0] != "imitbench" or len(parts) < 2:
            continue
        other = parts[1]
        assert other in RANK, f"{other} has no layer"
        assert other == own or RANK[other] > RANK[own], f"{own} imports {name}"


def name_of(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def imported_modules(path, known):
    """Modules of this package that a module imports; of `from package import module` the latter."""
    found = {name for name in imports(path) if name in known} - {name_of(path)}
    packages = {
        node.module
        for node in import_nodes(path)
        if isinstance(node, ast.ImportFrom)
        and all(f"{node.module}.{alias.name}" in known for alias in node.names)
    }
    return found - packages


def test_no_modules_import_each_other_in_a_circle():
    """Imports inside functions and those for type checkers count, too."""
    known = {name_of(path): path for path in MODULES}
    waiting = {name: sorted(imported_modules(path, known)) for name, path in known.items()}
    while free := [name for name, others in waiting.items() if not others]:
        for name in free:
            del waiting[name]
        for others in waiting.values():
            others[:] = [other for other in others if other not in free]
    assert not waiting  # what is left stands in a circle, or needs one


# Modules that may execute content of a file, and the calls that do so. Only `trust=True` leads to
# the loaders of `trusted`; the last module reads pickles without executing them.
EXECUTING = {
    "data/trusted.py": {
        "import pickle",
        "pickle.Unpickler",
        "import jsonpickle",
        "jsonpickle.decode",
        "np.load(allow_pickle=True)",
    },
    # TorchScript, by the interpreter made for it, where the user named the method that wrote it.
    "policies/foreign.py": {"th.jit.load"},
    "policies/trusted.py": {"cls.load", "VecNormalize.load"},
    "util/safe_unpickler.py": {"import pickletools"},
}
PICKLES = {
    "pickle", "_pickle", "cPickle", "pickletools", "jsonpickle", "dill", "cloudpickle", "marshal",
    "shelve", "joblib", "copyreg",
}  # fmt: skip
# Loaders of Stable-Baselines3 unpickle: those of algorithms and of environment wrappers.
UNPICKLING = {"cls", "VecNormalize", "PPO", "SAC", "TD3", "DDPG", "DQN", "A2C", "BaseAlgorithm"}


def executing_calls(tree):
    """Yields the calls and imports of a module that may execute what it reads, as text."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = {alias.name for alias in node.names} | {getattr(node, "module", None)}
            yield from (f"import {name}" for name in names & PICKLES)
        if isinstance(node, ast.ClassDef):
            bases = {ast.unparse(base) for base in node.bases}
            yield from (base for base in bases if base.rpartition(".")[0] in PICKLES)
        if not isinstance(node, ast.Call):
            continue
        called = called_by(node)
        receiver, _, method = called.rpartition(".")
        given = {word.arg: ast.unparse(word.value) for word in node.keywords}
        if called == "import_extra" and (name := ast.unparse(node.args[0])[1:-1]) in PICKLES:
            yield f"import {name}"
        if called in ("eval", "exec", "compile", "__import__", "th.jit.load", "torch.jit.load"):
            yield called
        if receiver == "yaml" and method in ("load", "load_all", "unsafe_load", "full_load"):
            yield called
        if called in ("torch.load", "th.load") and given.get("weights_only") != "True":
            yield f"{called} without weights_only=True"
        if given.get("allow_pickle", "False") != "False":
            yield f"{called}(allow_pickle={given['allow_pickle']})"
        if method in ("load", "loads", "decode", "Unpickler") and receiver in UNPICKLING | PICKLES:
            yield called
        if method.startswith("load_replay_buffer") or method == "load_from_pkl":
            yield called


@every_package
def test_no_module_executes_what_it_reads(modules):
    assert found_in(modules, executing_calls) == allowed_in(modules, EXECUTING)


# Modules that change what other code of the process sees, and what each of them changes. Patches
# of libraries stand in `library_patches` alone. The others add modules of the user's to Python's
# own tables, choose a public setting, and say which GPU child processes see.
CHANGING = {
    "executors/inline.py": {"os.environ['CUDA_VISIBLE_DEVICES']"},
    "util/library_patches.py": {
        "gym.registry[env_id]",
        "importlib.import_module(package).__class__",
        "sys.meta_path.insert",
        "sys.unraisablehook",
    },
    "util/interpreter.py": {"os.environ['PYTHONPATH']", "sys.path.index", "sys.path[:end]"},
    "util/source_import.py": {"sys.modules.setdefault", "sys.modules[name]"},
    "util/torch_startup.py": {"th.backends.cudnn.benchmark"},
}
IMPORT_TABLES = ("sys.meta_path.", "sys.modules.", "sys.path.", "sys.path_hooks.")


def foreign_names(tree):
    """Names that a module imports from elsewhere than this package."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Import):
            names = [alias.asname or alias.name.partition(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [alias.asname or alias.name for alias in node.names]
        else:
            continue
        if not ast.unparse(node).removeprefix("from ").startswith("imitbench"):
            yield from names


def root_of(node):
    """The name at the beginning of attributes, subscripts and calls."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return getattr(node, "id", None)


def changes_elsewhere(tree):
    """What a module assigns to, or deletes, that is not its own, as text."""
    foreign = set(foreign_names(tree))
    for node in nodes_of(tree):
        if isinstance(node, ast.Call):
            called = called_by(node)
            if called.startswith(IMPORT_TABLES) and not called.endswith(".get"):
                yield called
            if called in ("setattr", "delattr") and root_of(node.args[0]) in foreign:
                yield ast.unparse(node)
        targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
        for target in targets:
            if isinstance(target, ast.Attribute | ast.Subscript) and root_of(target) in foreign:
                yield ast.unparse(target)


@every_package
def test_libraries_are_changed_in_one_module(modules):
    assert found_in(modules, changes_elsewhere) == allowed_in(modules, CHANGING)


@every_package
def test_modules_and_functions_stay_short(modules):
    for path in modules:
        assert len(path.read_text().splitlines()) <= 600, path
        for node in nodes_of(parsed(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno - node.lineno < 80, (path, node.name)


def test_every_package_is_shipped():
    tomllib = pytest.importorskip("tomllib")
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())
    listed = set(project["tool"]["setuptools"]["packages"])
    found = {
        ".".join(["imitbench", *path.parent.relative_to(PACKAGE).parts])
        for path in PACKAGE.rglob("__init__.py")
    }
    data = {"cards.algorithms", "cards.suites", "published.bundled"}
    assert listed - {f"imitbench.{name}" for name in data} == found
