"""Finds algorithms and suites by the name that the user typed, with plug-ins.

A plug-in is a folder with a card next to its source. It is named by that folder (`./my_method`), by
a module path (`package.my_method`), or by an entry point of the group `imitbench.algorithms`. Only
the card is read here; nothing is imported. Naming a plug-in on the command line permits running its
source. Use these functions only for names that the user typed, never for names in results,
submissions or files from a hub; for those use `imitbench.cards.catalog`.
"""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from imitbench.cards.algorithm import AlgorithmCard, Origin
from imitbench.cards.catalog import algorithm_names, load_algorithm, load_suite, suite_names
from imitbench.cards.suite import SuiteCard
from imitbench.cards.yaml_file import read_yaml_model
from imitbench.errors import InputError, did_you_mean
from imitbench.untrusted import gate
from imitbench.untrusted.files import read_text, require_utf8
from imitbench.util.source_import import SourceLocation, module_file, register
from imitbench.util.text_line import one_line

ENTRY_POINTS = "imitbench.algorithms"
ALGORITHM_CARD = "card.yaml"
SUITE_CARD = "suite.yaml"
_INHERITED = {
    "needs", "budget_unit", "packs", "deterministic", "seconds_per_1000", "gpu_speedup",
    "hyperparameters",
}  # fmt: skip
"""Keys of a method's card that hold for its variants, unless their own cards say otherwise."""


def is_path(reference: str) -> bool:
    """Whether a reference is a folder: it contains a slash, or starts with a dot or `~`."""
    return "/" in reference or "\\" in reference or reference[:1] in (".", "~")


def find_algorithm(reference: str, folder: Path = Path()) -> AlgorithmCard:
    """Returns the card of a bundled algorithm or a plug-in.

    Args:
        reference: What the user typed.
        folder: Base of relative paths.

    Raises:
        InputError: The algorithm does not exist; or its card is malformed, refers to a missing
            module or class, or has the name of a bundled one.
    """
    if is_path(reference):
        home = _named_folder(reference, folder)
        if not (home / ALGORITHM_CARD).is_file():
            raise InputError(
                f"--algo {reference}: {home / ALGORITHM_CARD}: no such file; name a folder with a "
                "card, as `imitbench init-algo` writes it"
            )
        return _plugin(home, str(home), SourceLocation(home), None)
    if reference in algorithm_names():
        return load_algorithm(reference)
    entries = entry_points()
    if reference in entries:
        value = entries[reference]
        card = _of_module(value, reference, folder)
        if card is None:
            raise InputError(
                f"--algo {reference}: no {ALGORITHM_CARD} next to its entry point {value}; ship "
                "the card with the package"
            )
        if card.name != reference:
            raise InputError(
                f"--algo {reference}: the card in {card.origin.folder} has name '{card.name}'; use "
                "the same name for the entry point"
            )
        return card
    card = _of_module(reference, reference, folder)
    if card is None:
        raise InputError(f"algorithm {reference}: no such algorithm; {_hint(reference, folder)}")
    return card


def find_suite(reference: str, folder: Path = Path()) -> SuiteCard:
    """Returns the card of a bundled suite or of a suite in the user's folder.

    Args:
        reference: What the user typed.
        folder: Base of relative paths.

    Raises:
        InputError: The suite does not exist; or its card is malformed, or has the name of a bundled
            one.
    """
    if not is_path(reference):
        if reference not in suite_names() and (folder / reference / SUITE_CARD).is_file():
            raise InputError(f"suite {reference}: no such suite; for the folder: ./{reference}")
        return load_suite(reference)
    home = _named_folder(reference, folder)
    path = home / SUITE_CARD
    if not path.is_file():
        raise InputError(
            f"--suite {reference}: {path}: no such file; name a folder with a suite, as "
            "`imitbench init-suite` writes it"
        )
    card = gate.checked(lambda: read_yaml_model(path, SuiteCard), path)
    if card.name in suite_names():
        raise InputError(f"{path}: name: '{card.name}' is a bundled suite; give yours another name")
    modules = {
        environment.module for environment in card.environments.values() if environment.module
    }
    beside = {module for module in modules if module_file(home, module) is not None}
    if not beside:
        return card.found_at(Origin(home, str(home)))
    location = SourceLocation(home)
    digest = location.digest
    register(digest, location)
    environments = {
        env_id: env.with_module_of(digest) if env.module in beside else env
        for env_id, env in card.environments.items()
    }
    found = card.model_copy(update={"environments": environments})
    return found.found_at(Origin(home, str(home), location, digest))


def find_algorithms(
    references: Iterable[str | AlgorithmCard], folder: Path = Path()
) -> list[AlgorithmCard]:
    """Returns the cards of several algorithms, without duplicates.

    Args:
        references: What the user typed, or cards.
        folder: Base of relative paths.

    Raises:
        InputError: As in `find_algorithm`; or two plug-ins have the same name.
    """
    found: dict[str, AlgorithmCard] = {}
    for reference in references:
        card = find_algorithm(reference, folder) if isinstance(reference, str) else reference
        before = found.setdefault(card.name, card)
        if before.origin.folder != card.origin.folder:
            raise InputError(
                f"--algo {card.origin.reference}: its card's name, '{card.name}', is also that of "
                f"{before.origin.folder}; give one of them another name"
            )
    return list(found.values())


def entry_points() -> dict[str, str]:
    """Returns entry points of installed packages: `module` or `module:Class`, by name."""
    found = importlib.metadata.entry_points(group=ENTRY_POINTS)
    return {point.name: point.value for point in sorted(found, key=lambda point: point.name)}


def _of_module(value: str, reference: str, folder: Path) -> AlgorithmCard | None:
    """Returns the card next to a module in `sys.path` or the folder; `None` if there is none."""
    module, _, name = value.partition(":")
    located = _locate(module, [*sys.path, str(folder.resolve())])
    if located is None:
        return None
    home, package, root = located
    if not (home / ALGORITHM_CARD).is_file():
        return None
    return _plugin(home, reference, SourceLocation(home, package, root), (module, name))


def _locate(module: str, paths: Sequence[str]) -> tuple[Path, str, Path] | None:
    """Returns a module's folder, its package, and the parent folder of the top-level package.

    Does not import parent packages, unlike `importlib.util.find_spec`.
    """
    parts = module.split(".")
    if not all(part.isidentifier() for part in parts):
        return None
    spec = importlib.machinery.PathFinder.find_spec(parts[0], paths)
    if spec is None and parts[0] not in sys.modules:
        spec = importlib.util.find_spec(parts[0])  # editable installs have their own finder
    for part in parts[1:]:
        if spec is None or spec.submodule_search_locations is None:
            return None
        # Only the last part: for a dotted name the finder imports the parent.
        spec = importlib.machinery.PathFinder.find_spec(part, spec.submodule_search_locations)
    if spec is None:
        return None
    if spec.submodule_search_locations is not None:
        home, package = Path(next(iter(spec.submodule_search_locations))).resolve(), module
    elif spec.origin is not None and spec.origin.endswith(".py"):
        home, package = Path(spec.origin).resolve().parent, module.rpartition(".")[0]
    else:
        return None
    if not package:  # a top-level module
        return home, "", home
    return home, package, home.parents[package.count(".")]


def _plugin(
    home: Path, reference: str, location: SourceLocation, asked: tuple[str, str] | None
) -> AlgorithmCard:
    path = home / ALGORITHM_CARD
    card = gate.checked(lambda: read_algorithm_card(path), path)
    if card.name in algorithm_names():
        raise InputError(
            f"{path}: name: '{card.name}' is a bundled algorithm; give yours another name"
        )
    if card.name == "all":
        raise InputError(f"{path}: name: 'all' stands for every algorithm; give yours another name")
    if card.name == "demonstrations":
        raise InputError(
            f"{path}: name: 'demonstrations' is a row of reports; give yours another name"
        )
    if card.role == "anchor":
        raise InputError(
            f"{path}: role: anchors are this package's, as they define the scores 0 and 1; call it "
            "a control or a reference"
        )
    command = None if card.command is None else card.command.model_dump(mode="json")
    location = replace(location, patterns=tuple(card.sources), settings=command, method=card.name)
    module, _, name = card.implementation.partition(":")
    if module.partition(".")[0] != "imitbench":
        inner = inner_module(home, module)
        file = module_file(home, inner)
        if file is None:
            raise InputError(
                f"{path}: implementation: no module '{module}' in {home}; name one next to the card"
            )
        _check_class(file, name, path)
        if asked and asked[1] and asked[1] != name:
            raise InputError(
                f"--algo {':'.join(asked)}: its card, {path}, names {card.implementation}"
            )
    digest = location.digest
    register(digest, location)
    return card.found_at(Origin(home, reference, location, digest))


def read_algorithm_card(path: Path) -> AlgorithmCard:
    """Reads the card of a plug-in.

    Raises:
        InputError: The card is malformed, or names no bundled method as `variant_of`.
    """
    return read_yaml_model(path, AlgorithmCard, lambda own: complete_variant(own, path))


def complete_variant(own: dict[str, Any], path: Path) -> dict[str, Any]:
    """Completes the card of a variant with what the card of its method says.

    Args:
        own: The variant's card. Its hyper-parameters add to those of the method, or change some of
            their keys.
        path: Its file, for messages.

    Raises:
        InputError: The method is not a bundled one.
    """
    if "variant_of" not in own:
        return own
    given = dict(own)
    base, known = given.pop("variant_of"), algorithm_names()
    if base not in known:
        hint = one_line(did_you_mean(str(base), known))
        raise InputError(f"{path}: variant_of: must be a bundled algorithm; {hint}")
    inherited = load_algorithm(base).model_dump(include=_INHERITED, exclude_unset=True)
    changes = given.get("hyperparameters") or {}
    if isinstance(changes, dict):
        values = inherited.get("hyperparameters", {})
        merged = {
            name: {**values.get(name, {}), **change} if isinstance(change, dict) else change
            for name, change in changes.items()
        }
        given["hyperparameters"] = {**values, **merged}
    return {**inherited, **given}


def inner_module(home: Path, module: str) -> str:
    """Returns a module's name relative to a folder, without the folder's own name.

    Args:
        home: Folder of the card.
        module: Dotted name, perhaps starting with the folder's name.
    """
    first, _, rest = module.partition(".")
    if rest and first == home.name and module_file(home, module) is None:
        return rest
    return module


def _check_class(file: Path, name: str, card: Path) -> None:
    """Checks that a module mentions a class, without importing the module."""
    import ast

    try:
        tree = ast.parse(read_text(file), str(file))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # nested too deeply
        line = getattr(error, "lineno", None)
        where = f"{file}:{line}" if line else str(file)
        why = getattr(error, "msg", None) or str(error) or "nested too deeply"
        raise InputError(f"{where}: not valid Python ({why})") from error
    defined = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.Name):
            defined.add(node.id)
        elif isinstance(node, ast.alias):
            defined.add(node.asname or node.name)
    if name not in defined and "*" not in defined:
        classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
        raise InputError(
            f"{card}: implementation: {file} has no class {name}; {did_you_mean(name, classes)}"
        )


def _named_folder(reference: str, folder: Path) -> Path:
    """Returns the absolute path of a folder that the user typed; it may not exist."""
    # Unlike `Path.resolve`, this accepts a link that leads to itself.
    home = Path(os.path.realpath(folder / Path(reference).expanduser()))
    require_utf8(home)  # the path is written into job files
    return home


def _hint(reference: str, folder: Path) -> str:
    if (folder / reference / ALGORITHM_CARD).is_file():
        return f"for the folder: ./{reference}"
    known = [*algorithm_names(), *entry_points()]
    return f"{did_you_mean(reference, known)}; or name a plug-in: ./folder or package.module"
