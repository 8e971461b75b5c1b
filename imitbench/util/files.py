"""Files and folders that are either whole or absent: made under a temporary name, then renamed."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from imitbench.errors import InputError


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


def is_empty(folder: Path) -> bool:
    """Whether there is nothing at a place, or a folder without content."""
    return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))


def _refuse(folder: Path) -> None:
    raise InputError(f"{folder}: is not empty; name a new folder")


def check_place(folder: Path, check_old: Callable[[Path], None] = _refuse) -> None:
    """Makes sure that a folder may be put somewhere, before any work is done for it.

    Args:
        folder: Its place.
        check_old: Asked about what is there unless that is an empty folder; raises if it may not
            be replaced.

    Raises:
        InputError: There is something that may not be replaced.
    """
    if not is_empty(folder.resolve()):
        check_old(folder)


@contextmanager
def new_folder(folder: Path, check_old: Callable[[Path], None] = _refuse) -> Iterator[Path]:
    """Makes a folder beside its place, and puts it there at the end.

    Readers see no part of it. An exception, or the end of the process, leaves what was there.

    Args:
        folder: Its place.
        check_old: As for `check_place`.

    Yields:
        The folder to fill.

    Raises:
        InputError: There is something that may not be replaced, or nothing can be written there.
    """
    check_place(folder, check_old)
    place = folder.resolve()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{place.name}.", suffix=".tmp", dir=place.parent))
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})") from error
    try:
        yield draft
        draft.chmod(0o755)
        fsync_directory(draft)
        _put(draft, place)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _put(draft: Path, place: Path) -> None:
    """Renames; a folder that has content is first moved aside, and comes back if that fails."""
    if is_empty(place):
        draft.replace(place)
    else:
        aside = draft.with_name(f"{draft.name}.old")
        place.replace(aside)
        try:
            draft.replace(place)
        except BaseException:
            aside.replace(place)
            raise
        shutil.rmtree(aside, ignore_errors=True)
    fsync_directory(place.parent)
