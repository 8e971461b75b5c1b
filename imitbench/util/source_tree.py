"""Source that lies in a folder outside this package: which files it has, and what pins them.

Tests are no source: editing them changes no number, so it must not give new runs.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

from imitbench.errors import InputError

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
