"""Imports modules from a folder outside `sys.path`, under names that belong to their content.

Two plug-ins may both have a `learner.py`, and two versions of one may be in use in one process: a
module's name therefore holds the digest of its source. What may be imported was named by the
user: places are registered by the command line, or by the job file that it wrote. A digest that
stands in results, a submission or a hub's file leads nowhere by itself.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from imitbench.errors import InputError
from imitbench.util.source_tree import is_source, source_digest, source_files

_PREFIX = "imitbench_plugins"
_SHOWN = 16  # digits of a digest


@dataclass(frozen=True)
class SourcePlace:
    """Where source lies, and how it is imported.

    Attributes:
        folder: The folder, absolute.
        package: Its dotted name, if it is imported as part of an installed package; empty for a
            folder that stands for itself.
        root: With a package, the folder that holds its outermost one.
        patterns: Files that count beside Python's.
        settings: What else the digest covers, as `source_digest` has it.
    """

    folder: Path
    package: str = ""
    root: Path = Path()
    patterns: tuple[str, ...] = ()
    settings: Any = None

    @property
    def digest(self) -> str:
        """What pins the source as it lies there now."""
        return source_digest(self.folder, self.patterns, self.settings)


_places: dict[str, SourcePlace] = {}
_opened: dict[str, tuple[Path, frozenset[Path]]] = {}  # folder and source files, by package
_imported: dict[str, str] = {}  # digest under which a package of `sys.path` was imported


def register(digest: str, place: SourcePlace) -> None:
    """Says where source lies that the user wants to be used.

    Args:
        digest: Its digest when it was asked for.
        place: Where it is.
    """
    _places[digest] = replace(place, folder=place.folder.resolve())


def place_of_source(digest: str, what: str) -> SourcePlace:
    """Where source lies.

    Args:
        digest: Its digest.
        what: What to call it in messages.

    Raises:
        InputError: Nobody named it, or it is no longer what it was.
    """
    place = _places.get(digest)
    if place is None:
        raise InputError(
            f"{what}: its source ({digest[:12]}) lies outside this package, and was not named on "
            "the command line; name its folder, by --suite or --algo"
        )
    found = place.digest
    if found != digest:
        raise InputError(
            f"{what}: {place.folder}: the source has changed since the run was planned (digest "
            f"{found[:12]}, expected {digest[:12]}); run the command again to plan with the new "
            "source"
        )
    return place


def import_source(digest: str, module: str, what: str) -> ModuleType:
    """Imports a module of source that was registered.

    Args:
        digest: Digest of the source.
        module: Dotted name of the module, as seen from the source's folder.
        what: What to call it in messages.

    Raises:
        InputError: The source was not named, or has changed; or there is no such module.
    """
    place = place_of_source(digest, what)
    if place.package:
        return _import_installed(place, digest, module, what)
    home = f"{_PREFIX}.s{digest[:_SHOWN]}"
    if home not in sys.modules:
        files = source_files(place.folder, place.patterns)
        _opened[home] = place.folder, frozenset(files)
        _open_package(home, place.folder)
    try:
        found = importlib.import_module(f"{home}.{module}")
    except (ModuleNotFoundError, _UnpinnedError) as error:
        # A module half imported must not be taken for a whole one later on.
        raise InputError(f"{what}: {_absent(error, place, home)}") from error
    return found


def forget_module(module: ModuleType) -> None:
    """Lets the next import execute a module of source again, with its neighbours."""
    home = ".".join(module.__name__.split(".")[:2])
    for name in [name for name in sys.modules if name == home or name.startswith(f"{home}.")]:
        del sys.modules[name]


def module_file(folder: Path, module: str) -> Path | None:
    """File of a module in a folder; `None` where there is none. Nothing is imported.

    Args:
        folder: The folder.
        module: Dotted name, as seen from the folder.
    """
    base = folder.joinpath(*module.split("."))
    for path in (base.with_name(f"{base.name}.py"), base / "__init__.py"):
        if path.is_file() and is_source(path.relative_to(folder)):
            return path
    return None


def _import_installed(place: SourcePlace, digest: str, module: str, what: str) -> ModuleType:
    """Imports by the package's own name, which its modules may use among themselves."""
    before = _imported.setdefault(place.package, digest)
    if before != digest:
        raise InputError(
            f"{what}: package {place.package} was imported from other source earlier in this "
            "process, which cannot have both; start anew"
        )
    root = str(place.root)
    if root not in sys.path:  # behind everything else: it hides nothing
        sys.path.append(root)
    found = importlib.import_module(f"{place.package}.{module}" if module else place.package)
    file = Path(str(found.__file__)).resolve()
    if not file.is_relative_to(place.folder):
        raise InputError(
            f"{what}: {found.__name__} is imported from {file}, not from {place.folder}; another "
            "package of that name comes first on the path"
        )
    return found


def _absent(error: ImportError, place: SourcePlace, home: str) -> str:
    if isinstance(error, _UnpinnedError):
        return str(error)
    name = str(error.name)
    inside = name.removeprefix(f"{home}.")
    if inside == name and module_file(place.folder, name.partition(".")[0]) is not None:
        return (
            f"no module named '{name}' on the path; the one in {place.folder} is imported as "
            f"`from . import {name}`"
        )
    if inside != name:
        return f"{place.folder}: no module '{inside}' there"
    return f"needs module '{name}', which is not installed"


def _open_package(name: str, folder: Path) -> None:
    """Makes a folder a package below this module's own one, so that its modules can be imported."""
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    importlib.invalidate_caches()  # of listings, which miss files younger than a clock's tick
    outermost = sys.modules.setdefault(_PREFIX, ModuleType(_PREFIX))
    outermost.__path__ = []
    initial = folder / "__init__.py"
    loader = _FreshLoader(name, str(initial)) if initial.is_file() else None
    spec = ModuleSpec(name, loader, origin=str(initial) if loader else None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    sys.modules[name] = package = module_from_spec(spec)
    if loader is not None:
        try:
            loader.exec_module(package)
        except BaseException:
            del sys.modules[name]
            raise


class _FreshLoader(SourceFileLoader):
    """Compiles what stands in the file.

    Byte code beside a file is taken for it where time and size agree: two edits within a second
    are missed. It is neither read nor written here.
    """

    def path_stats(self, path: Any) -> Any:
        raise OSError(f"{path}: its byte code is not wanted")

    def set_data(self, path: Any, data: Any, *, _mode: int = 0o666) -> None:
        pass


class _UnpinnedError(ImportError):
    """A module is there, and its content is no part of the digest.

    No `ModuleNotFoundError`, which `from . import name` would turn into one that says nothing.
    """


class _Finder(MetaPathFinder):
    """Finds modules below the packages of `import_source`, and no others."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(f"{_PREFIX}.") or not path:
            return None
        found = PathFinder.find_spec(fullname, path, target)
        if found is None or found.origin is None:  # a folder without `__init__.py`
            return None
        origin = Path(found.origin)
        folder, files = _opened[".".join(fullname.split(".")[:2])]
        if origin not in files and origin.is_relative_to(folder):
            # To find nothing would let others look.
            raise _UnpinnedError(_why_unpinned(origin, folder), name=fullname)
        if isinstance(found.loader, SourceFileLoader):
            found.loader = _FreshLoader(fullname, found.origin)
        return found


def _why_unpinned(path: Path, folder: Path) -> str:
    inner = path.relative_to(folder)
    if path.suffix == ".py" and not is_source(inner):
        return f"{path}: a test is no source, and cannot be imported"
    if path.suffix == ".py":
        return f"{path}: is younger than the plan, or behind a link to a folder around it"
    return (
        f"{path}: is no Python source, so that an edit would go unnoticed; list {inner} under "
        "`sources` of the card"
    )


_finder = _Finder()
