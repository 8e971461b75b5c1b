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
        try:
            content = path.read_bytes()
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from error
        total.update(path.relative_to(folder).as_posix().encode() + b"\0")
        total.update(hashlib.sha256(content).digest())
    total.update(json.dumps(settings, sort_keys=True).encode())
    return total.hexdigest()


def _walk(folder: Path) -> Iterator[Path]:
    """Files below a folder; nothing hidden, and no folder twice through a link."""
    seen = 0
    for root, folders, files in os.walk(folder):
        folders[:] = [each for each in folders if each[0] != "." and each != "__pycache__"]
        seen += len(folders)
        if seen > MOST_FILES:
            raise InputError(
                f"{folder}: has more than {MOST_FILES:,} folders; give the method a folder of its "
                "own"
            )
        yield from (Path(root, name) for name in files)
