"""Imports modules from a folder outside `sys.path`, under names that belong to their content.

Two plug-ins may both have a `learner.py`, and two versions of one may be in use in one process: a
module's name therefore holds the digest of its source. What may be imported was named by the
user: places are registered by the command line, or by the job file that it wrote. A digest that
stands in results, a submission or a hub's file leads nowhere by itself.

Tests are not part of the source: editing them changes no number, so it must not give new runs.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import module_from_spec
from pathlib import Path, PurePath
from types import ModuleType
from typing import Any

from imitbench.errors import InputError
from imitbench.util.library_patches import add_finder

_PREFIX = "imitbench_plugins"
_SHOWN = 16  # digits of a digest
MOST_FILES = 2000
"""More than that is no method's folder but somebody's home."""

_Identity = tuple[int, int]  # device and inode
_TEST_FOLDERS = ("test", "tests")


def is_source(path: PurePath) -> bool:
    """Whether a file below a source folder is part of the source.

    Args:
        path: Its path relative to that folder.
    """
    *folders, name = path.parts
    hidden = any(part.startswith(".") or part == "__pycache__" for part in path.parts)
    testing = (
        any(part in _TEST_FOLDERS for part in folders)
        or name == "conftest.py"
        or name.startswith("test_")
        or name.endswith("_test.py")
    )
    return name.endswith(".py") and not hidden and not testing


def source_files(folder: Path, patterns: Sequence[str] = ()) -> list[Path]:
    """Files that make up the source in a folder, sorted by their path in it.

    Args:
        folder: The folder.
        patterns: Globs, relative to the folder, of files that count beside Python's.

    Raises:
        InputError: There are too many, or a pattern leads out of the folder or matches nothing.
    """
    found = {path for path in _walk(folder) if is_source(path.relative_to(folder))}
    for pattern in patterns:
        if PurePath(pattern).is_absolute() or ".." in PurePath(pattern).parts:
            raise InputError(f"{folder}: pattern '{pattern}' leads out of the folder")
        matches = [path for path in folder.glob(pattern) if path.is_file()]
        if not matches:
            raise InputError(f"{folder}: pattern '{pattern}' matches no file")
        found.update(matches)
    if len(found) > MOST_FILES:
        raise InputError(
            f"{folder}: has more than {MOST_FILES:,} source files; give the method a folder of "
            "its own"
        )
    return sorted(found, key=lambda path: path.relative_to(folder).as_posix())


def source_digest(folder: Path, patterns: Sequence[str] = (), settings: object = None) -> str:
    """Pins source by its content; where the folder lies does not matter.

    Args:
        folder: The folder.
        patterns: As for `source_files`.
        settings: Something that JSON can hold, and that counts as well.

    Returns:
        SHA-256 as 64 hexadecimal digits.

    Raises:
        InputError: As `source_files`, or a file cannot be read.
    """
    total = hashlib.sha256()
    for path in source_files(folder, patterns):
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise InputError(f"{path}: is no ordinary file; take it out of the source")
        try:
            content = path.read_bytes()
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from error
        total.update(path.relative_to(folder).as_posix().encode() + b"\0")
        total.update(hashlib.sha256(content).digest())
    total.update(json.dumps(settings, sort_keys=True).encode())
    return total.hexdigest()


def _walk(folder: Path) -> Iterator[Path]:
    """Files below a folder, as imports find them: through links, too, and nothing hidden.

    A link to a folder that it lies in is left out, as there would be no end to it.
    """
    count = 0
    status = folder.stat()
    pending: list[tuple[Path, tuple[_Identity, ...]]]
    pending = [(folder, ((status.st_dev, status.st_ino),))]
    while pending:
        current, around = pending.pop()
        inner, files = _listing(current)
        yield from files
        for path, identity in inner:
            if identity in around:
                continue
            count += 1
            if count > MOST_FILES:
                raise InputError(
                    f"{folder}: has more than {MOST_FILES:,} folders, with those that links lead "
                    "to; give the method a folder of its own"
                )
            pending.append((path, (*around, identity)))


def _listing(folder: Path) -> tuple[list[tuple[Path, _Identity]], list[Path]]:
    """Folders in a folder, with what tells each from all others, and files in it."""
    folders, files = [], []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.is_dir():
                    files.append(Path(entry.path))
                elif entry.name[0] != "." and entry.name != "__pycache__":
                    status = entry.stat()
                    folders.append((Path(entry.path), (status.st_dev, status.st_ino)))
    except OSError:  # what cannot be read cannot be imported either
        pass
    return folders, files


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
    add_finder(_finder)
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
