"""Files that are either whole or absent: write to a temporary name, sync, rename."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path


def fsync_directory(directory: Path) -> None:
    """Makes a rename within `directory` survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def atomic_write_bytes(path: Path, data: bytes) -> None:
    """Writes `data` to `path` so that readers see the old content or the new, never a part.

    Args:
        path: Target; its folder is created when missing.
        data: Whole content.

    Raises:
        OSError: The file system refused (full, read-only); the old content stands.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(
        prefix=f".{path.name}.", suffix=".tmp", dir=path.parent
    )
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    fsync_directory(path.parent)


def atomic_write_text(path: Path, text: str) -> None:
    """Writes UTF-8 text as `atomic_write_bytes` writes bytes."""
    atomic_write_bytes(path, text.encode("utf-8"))


def write_output(path: Path, text: str) -> None:
    """Writes UTF-8 text where a person asked for it.

    Where a link points, a file is written whole or not at all; pipes and devices are written to.

    Args:
        path: Target; its folder is created when missing.
        text: Whole content.

    Raises:
        OSError: It cannot be written.
    """
    target = path.resolve()
    if not target.exists() or target.is_file():
        atomic_write_text(target, text)
    else:
        target.write_text(text, encoding="utf-8")


def digest_files(root: Path, files: Iterable[Path]) -> str:
    """Hashes files with their names relative to `root`.

    Returns:
        SHA-256 as 64 hexadecimal digits, independent of the order of `files` and of where
        `root` lies.
    """
    total = hashlib.sha256()
    for path in sorted(files):
        total.update(path.relative_to(root).as_posix().encode())
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()
