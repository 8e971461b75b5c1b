"""Imports modules from folders outside `sys.path`, under names that depend on their content.

Two plug-ins may both have a `learner.py`, and one process may use two versions of a plug-in.
Therefore, a module's name includes the digest of its source. Only folders named by the user are
imported from: they are registered by the command line, or from the job file that it wrote. A
digest in results, a submission or a file from a hub cannot cause an import.

Tests are not part of the source: editing them does not change results, so that it must not change
run ids.
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
from imitbench.untrusted.files import read_content, require_utf8
from imitbench.util.library_patches import add_finder
from imitbench.util.text_line import one_line

_PREFIX = "imitbench_plugins"
_SHOWN = 16  # digits of a digest
MOST_FILES = 2000
"""A folder with more source files is probably not that of a method, for example a home folder."""

_Identity = tuple[int, int]  # device and inode
_TEST_FOLDERS = ("test", "tests")


def is_source(path: PurePath) -> bool:
    """Whether a file below a source folder is part of the source.

    Args:
        path: Path relative to that folder.
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
    """Lists the source files of a folder, sorted by their path.

    Args:
        folder: Folder of the source.
        patterns: Globs, relative to the folder, of source files that are not Python files.

    Raises:
        InputError: There are too many files, or a pattern leaves the folder or matches no file.
    """
    found = {path for path in _walk(folder) if is_source(path.relative_to(folder))}
    for pattern in patterns:
        if PurePath(pattern).is_absolute() or ".." in PurePath(pattern).parts:
            raise InputError(f"{folder}: pattern '{pattern}' leads out of the folder")
        try:
            matches = [path for path in folder.glob(pattern) if path.is_file()]
        except (ValueError, IndexError, RecursionError) as error:  # such as '' and '.'
            raise InputError(
                f"{folder}: pattern '{one_line(pattern, 60)}' is no pattern of files; use one such "
                "as '*.txt'"
            ) from error
        if not matches:
            raise InputError(f"{folder}: pattern '{pattern}' matches no file")
        found.update(matches)
    if len(found) > MOST_FILES:
        raise InputError(
            f"{folder}: has more than {MOST_FILES:,} source files; move the method to a separate "
            "folder"
        )
    return sorted(found, key=lambda path: path.relative_to(folder).as_posix())


def source_digest(folder: Path, patterns: Sequence[str] = (), settings: object = None) -> str:
    """Hashes source files; the location of the folder is not included.

    Args:
        folder: Folder of the source.
        patterns: See `source_files`.
        settings: JSON value that is hashed too.

    Returns:
        SHA-256 as 64 hexadecimal digits.

    Raises:
        InputError: See `source_files`; or a file cannot be read.
    """
    total = hashlib.sha256()
    for path in source_files(folder, patterns):
        require_utf8(path)
        if path.exists() and not path.is_file():  # reading a pipe would block
            raise InputError(f"{path}: is not a regular file; remove it from the source")
        try:
            content = read_content(path)
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from error
        total.update(path.relative_to(folder).as_posix().encode() + b"\0")
        total.update(hashlib.sha256(content).digest())
    total.update(json.dumps(settings, sort_keys=True).encode())
    return total.hexdigest()


def _walk(folder: Path) -> Iterator[Path]:
    """Yields files below a folder that imports can find: also through links, and no hidden ones.

    Links to a folder that contains them are skipped, because the recursion would not end.
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
                    f"{folder}: has more than {MOST_FILES:,} folders, including targets of links; "
                    "move the method to a separate folder"
                )
            pending.append((path, (*around, identity)))


def _listing(folder: Path) -> tuple[list[tuple[Path, _Identity]], list[Path]]:
    """Lists the folders in a folder, each with device and inode, and the files."""
    folders, files = [], []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.is_dir():
                    files.append(Path(entry.path))
                elif entry.name[0] != "." and entry.name != "__pycache__":
                    status = entry.stat()
                    folders.append((Path(entry.path), (status.st_dev, status.st_ino)))
    except OSError:  # an unreadable folder cannot be imported from either
        pass
    return folders, files


@dataclass(frozen=True)
class SourceLocation:
    """A folder of source, and how it is imported.

    Attributes:
        folder: Absolute path.
        package: Dotted name, if the folder belongs to an installed package; else empty.
        root: Folder of the top-level package, if `package` is set.
        patterns: See `source_files`.
        settings: See `source_digest`.
        method: Name of the method that the source belongs to; empty for other source.
    """

    folder: Path
    package: str = ""
    root: Path = Path()
    patterns: tuple[str, ...] = ()
    settings: Any = None
    method: str = ""

    @property
    def digest(self) -> str:
        """Digest of the source in its present state."""
        return source_digest(self.folder, self.patterns, self.settings)


_locations: dict[str, SourceLocation] = {}
_opened: dict[str, tuple[Path, frozenset[Path]]] = {}  # folder and source files, by package
_imported: dict[str, str] = {}  # digest under which an installed package was imported
_roots: dict[str, str] = {}  # folder that holds a top-level package


def register(digest: str, location: SourceLocation) -> None:
    """Registers source that the user has named, so that it can be imported.

    Args:
        digest: Digest of the source at the time of the request.
        location: Location of the source.
    """
    known = _locations.get(digest)
    method = location.method or (known.method if known else "")  # a folder may also hold a suite
    _locations[digest] = replace(location, folder=location.folder.resolve(), method=method)


def is_registered(digest: str) -> bool:
    """Whether the user has named source with this digest."""
    return digest in _locations


def registered_sources() -> dict[str, SourceLocation]:
    """Returns the locations of all source that the user has named, by digest."""
    return dict(_locations)


def location_of_source(digest: str, what: str) -> SourceLocation:
    """Returns the location of registered source.

    Args:
        digest: Digest of the source.
        what: What the source belongs to, for messages.

    Raises:
        InputError: The source was not registered, or has changed.
    """
    location = _locations.get(digest)
    if location is None:
        raise InputError(
            f"{what}: its source ({digest[:12]}) is outside this package, and was not named on "
            "the command line; name its folder with --suite or --algo"
        )
    found = location.digest
    if found != digest:
        raise InputError(
            f"{what}: {location.folder}: the source has changed since the run was planned (digest "
            f"{found[:12]}, expected {digest[:12]}); run the command again to plan with the new "
            "source"
        )
    return location


def import_source(digest: str, module: str, what: str) -> ModuleType:
    """Imports a module of registered source.

    Args:
        digest: Digest of the source.
        module: Dotted name of the module, relative to the source's folder; empty for the folder's
            own `__init__.py`.
        what: What the source belongs to, for messages.

    Raises:
        InputError: The source was not registered, or has changed; or there is no such module.
    """
    location = location_of_source(digest, what)
    if location.package:
        return _import_installed(location, digest, module, what)
    home = f"{_PREFIX}.s{digest[:_SHOWN]}"
    if home not in sys.modules:
        files = source_files(location.folder, location.patterns)
        _opened[home] = location.folder, frozenset(files)
        _open_package(home, location.folder)
    try:
        found = importlib.import_module(f"{home}.{module}" if module else home)
    except (ModuleNotFoundError, _UnpinnedError) as error:
        # A module that failed during its import must not be used later.
        raise InputError(f"{what}: {_absent(error, location, home)}") from error
    return found


@dataclass(frozen=True)
class DefinedClass:
    """Where registered source defines a class.

    Attributes:
        method: Name of the method that the source belongs to.
        digest: Digest of the source from which the class was imported.
        reference: The class as `module:Class`; the module is relative to the source's folder.
    """

    method: str
    digest: str
    reference: str


def find_definition(cls: type) -> DefinedClass | None:
    """Returns where the source of a method defines a class.

    Returns:
        The definition; `None` if the class is not from a method's source, or is not found in its
        module by its name, for example because it was made by a function.
    """
    module = cls.__module__
    for digest, location in _locations.items():
        home = location.package or f"{_PREFIX}.s{digest[:_SHOWN]}"
        if module != home and not module.startswith(f"{home}."):
            continue
        if location.package and _imported.get(home) != digest:
            continue
        found = getattr(sys.modules.get(module), cls.__name__, None)
        if not location.method or found is not cls:
            return None
        inner = module.removeprefix(home).removeprefix(".")
        return DefinedClass(location.method, digest, f"{inner}:{cls.__name__}")
    return None


def forget_module(module: ModuleType) -> None:
    """Removes a module and its package from `sys.modules`, so that they are imported again."""
    home = ".".join(module.__name__.split(".")[:2])
    for name in [name for name in sys.modules if name == home or name.startswith(f"{home}.")]:
        del sys.modules[name]


def module_file(folder: Path, module: str) -> Path | None:
    """Returns the file of a module in a folder, without importing it; `None` if there is none.

    Args:
        folder: Folder of the source.
        module: Dotted name, relative to the folder.
    """
    base = folder.joinpath(*module.split("."))
    for path in (base.with_name(f"{base.name}.py"), base / "__init__.py"):
        if path.is_file() and is_source(path.relative_to(folder)):
            return path
    return None


def _import_installed(location: SourceLocation, digest: str, module: str, what: str) -> ModuleType:
    """Imports by the installed package's name, which its modules may use for each other."""
    before = _imported.setdefault(location.package, digest)
    if before != digest:
        raise InputError(
            f"{what}: package {location.package} was imported from other source earlier in this "
            "process, which cannot use both; start a new process"
        )
    outermost = location.package.partition(".")[0]
    _roots[outermost] = str(location.root)
    add_finder(_package_finder, last=True)  # so that it does not hide installed packages
    importlib.invalidate_caches()
    found = importlib.import_module(f"{location.package}.{module}" if module else location.package)
    file = Path(str(found.__file__)).resolve()
    if not file.is_relative_to(location.folder):
        raise InputError(
            f"{what}: {found.__name__} is imported from {file}, not from {location.folder}; "
            "another package of that name comes first on the path"
        )
    return found


def _absent(error: ImportError, location: SourceLocation, home: str) -> str:
    if isinstance(error, _UnpinnedError):
        return str(error)
    name = str(error.name)
    inside = name.removeprefix(f"{home}.")
    if inside == name and module_file(location.folder, name.partition(".")[0]) is not None:
        return (
            f"no module named '{name}' on the path; the one in {location.folder} is imported as "
            f"`from . import {name}`"
        )
    if inside != name:
        return f"{location.folder}: no module '{inside}' there"
    return f"needs module '{name}', which is not installed"


def _open_package(name: str, folder: Path) -> None:
    """Makes a folder a package below `_PREFIX`, so that its modules can be imported."""
    add_finder(_finder)
    importlib.invalidate_caches()  # cached listings miss files created within one clock tick
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
    """Always compiles the source file.

    Python uses cached byte code if its time and size match, and misses two edits within a second.
    This loader neither reads nor writes byte code.
    """

    def path_stats(self, path: Any) -> Any:
        raise OSError(f"{path}: byte code is not used")

    def set_data(self, path: Any, data: Any, *, _mode: int = 0o666) -> None:
        pass


class _UnpinnedError(ImportError):
    """A module exists, but its content is not part of the digest.

    Not a `ModuleNotFoundError`, because `from . import name` would replace its message.
    """


class _Finder(MetaPathFinder):
    """Finds only modules in the packages of `import_source`."""

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
            # Returning `None` would let other finders find it.
            raise _UnpinnedError(_why_unpinned(origin, folder), name=fullname)
        if isinstance(found.loader, SourceFileLoader):
            found.loader = _FreshLoader(fullname, found.origin)
        return found


class _PackageFinder(MetaPathFinder):
    """Finds only the packages that were named, not what lies beside them in the same folder."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is not None or fullname not in _roots:
            return None
        return PathFinder.find_spec(fullname, [_roots[fullname]], target)


def _why_unpinned(path: Path, folder: Path) -> str:
    inner = path.relative_to(folder)
    if path.suffix == ".py" and not is_source(inner):
        return f"{path}: is a test, which is not part of the source and cannot be imported"
    if path.suffix == ".py":
        return f"{path}: is newer than the plan, or reached by a link to a folder that contains it"
    return (
        f"{path}: is not Python source, so that edits would not be detected; list {inner} under "
        "`sources` of the card"
    )


_finder = _Finder()
_package_finder = _PackageFinder()
