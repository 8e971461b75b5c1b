"""Atomic writes of files and folders: under a temporary name, then renamed."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from imitbench.errors import InputError
from imitbench.untrusted.files import require_utf8


def fsync_directory(directory: Path) -> None:
    """Flushes a folder, so that renames in it survive a power failure."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def atomic_write_bytes(path: Path, data: bytes) -> None:
    """Writes a file so that readers see either the old or the new content, never a part.

    Args:
        path: Target; its folder is created if missing.
        data: Complete content.

    Raises:
        OSError: The file cannot be written (disk full, read-only); the old content is kept.
    """
    with atomic_stream(path) as stream:
        stream.write(data)


@contextmanager
def atomic_stream(path: Path) -> Iterator[BinaryIO]:
    """Opens a file for writing that readers see only when it is complete.

    Args:
        path: Target; its folder is created if missing. After an exception, its old content is kept.

    Raises:
        OSError: The file cannot be written (disk full, read-only).
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(
        prefix=f".{path.name}.", suffix=".tmp", dir=path.parent
    )
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    fsync_directory(path.parent)


def atomic_write_text(path: Path, text: str) -> None:
    """Writes UTF-8 text, see `atomic_write_bytes`."""
    atomic_write_bytes(path, text.encode("utf-8"))


def write_output(path: Path, text: str) -> None:
    """Writes UTF-8 text to a path given by the user.

    Links are followed. Files are written atomically, pipes and devices directly.

    Args:
        path: Target; its folder is created if missing.
        text: Complete content.

    Raises:
        OSError: The path cannot be written.
    """
    target = path.resolve()
    if not target.exists() or target.is_file():
        atomic_write_text(target, text)
    else:
        target.write_text(text, encoding="utf-8")


def digest_files(root: Path, files: Iterable[Path]) -> str:
    """Hashes files with their names relative to `root`.

    Returns:
        SHA-256 as 64 hexadecimal digits, independent of the order of `files` and of the location
        of `root`.
    """
    total = hashlib.sha256()
    for path in sorted(files):
        total.update(path.relative_to(root).as_posix().encode())
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def user_cache() -> Path:
    """Returns the folder for files that can be made again: `imitbench` in the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "imitbench"


def is_empty(folder: Path) -> bool:
    """Whether a path does not exist or is an empty folder."""
    return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))


def _refuse(folder: Path) -> None:
    raise InputError(f"{folder}: is not empty; name a new folder")


def check_new_folder(folder: Path, check_old: Callable[[Path], None] = _refuse) -> None:
    """Checks that a folder may be created at a path, before any work is done for it.

    Args:
        folder: Path of the new folder.
        check_old: Called with the path if something other than an empty folder is there; raises
            if that must not be replaced.

    Raises:
        InputError: Something is there that must not be replaced.
    """
    if not is_empty(folder.resolve()):
        check_old(folder)


@contextmanager
def new_folder(folder: Path, check_old: Callable[[Path], None] = _refuse) -> Iterator[Path]:
    """Creates a folder under a temporary name and renames it at the end.

    Readers never see an incomplete folder. After an exception or a crash, the old content is kept.

    Args:
        folder: Final path.
        check_old: As for `check_new_folder`.

    Yields:
        The folder to fill.

    Raises:
        InputError: Something is there that must not be replaced, or the path is not writable.
    """
    check_new_folder(folder, check_old)
    target = folder.resolve()
    require_utf8(target)  # cards and manifests have the name
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent))
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})") from error
    try:
        yield draft
        draft.chmod(0o755)
        fsync_directory(draft)
        _put(draft, target)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def make_once(folder: Path, make: Callable[[], object]) -> Path:
    """Makes a folder of a cache, unless it is there.

    Several processes may do so at the same time: the first to end wins.

    Args:
        folder: Its path, which tells its content.
        make: Makes it by `new_folder`.

    Returns:
        The folder.
    """
    if not folder.exists():
        try:
            make()
        except (InputError, OSError):
            if not folder.exists():  # otherwise, another process was faster
                raise
    return folder


def _put(draft: Path, target: Path) -> None:
    """Renames; an old folder is moved aside first, and moved back if renaming fails."""
    if is_empty(target):
        draft.replace(target)
    else:
        aside = draft.with_name(f"{draft.name}.old")
        target.replace(aside)
        try:
            draft.replace(target)
        except BaseException:
            aside.replace(target)
            raise
        shutil.rmtree(aside, ignore_errors=True)
    fsync_directory(target.parent)
