"""Opens ordinary files only: no pipes, devices or sockets, and no links that lead elsewhere."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from imitbench.errors import InputError
from imitbench.untrusted.limits import beyond, limits


def read_bounded(
    path: Path, limit: int, *, follow_link: bool = False, named: str | None = None
) -> bytes:
    """Reads an ordinary file.

    Args:
        path: File to read.
        limit: Maximum size in bytes.
        follow_link: Whether it may be a symbolic link, which is allowed for paths of the user.
        named: Name of the limit, if it can be changed.

    Raises:
        InputError: The file is missing, a link, not a regular file (such as a pipe), too large, or
            cannot be read.
    """
    descriptor = _open(path, follow_link)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{path}: is no ordinary file")
        if status.st_size > limit:
            told = f"has more than {limit} bytes, which no such file has"
            if named is not None:
                told = beyond(named, f"has {status.st_size:,} bytes")
            raise InputError(f"{path}: {told}")
        with open(descriptor, "rb", closefd=False) as stream:
            return stream.read(min(limit, status.st_size))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    finally:
        os.close(descriptor)


def read_text(path: Path) -> str:
    """Reads a text that is parsed as a whole, such as a card or settings; follows links.

    Raises:
        InputError: As `read_bounded`; or the text is not UTF-8.
    """
    try:
        return read_content(path, "text_bytes").decode("utf-8")
    except FileNotFoundError as error:
        raise InputError(f"{path}: cannot be read (no such file); check the path") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text; save it as UTF-8") from error


def open_ordinary(path: Path) -> BinaryIO:
    """Opens an ordinary file; follows links, and never waits for a pipe.

    Raises:
        OSError: It cannot be opened, or is something other than an ordinary file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is no ordinary file", str(path))
    return os.fdopen(descriptor, "rb")


def read_end(path: Path, most: int = 2**26) -> str:
    """Reads the end of a log as text; what is not UTF-8 is replaced.

    Args:
        path: The log.
        most: Largest number of bytes.

    Raises:
        OSError: As `open_ordinary`.
    """
    with open_ordinary(path) as stream:
        stream.seek(max(0, os.fstat(stream.fileno()).st_size - most))
        return stream.read(most).decode("utf-8", errors="replace")


def read_content(path: Path, limit: str | int = "file_bytes") -> bytes:
    """Reads a file that must be read as a whole, such as weights; follows links.

    Args:
        path: File to read.
        limit: Name of the limit on its size, or a number of bytes.

    Raises:
        FileNotFoundError: There is no file, or a folder of the path is missing.
        InputError: As `read_bounded`.
    """
    try:
        if isinstance(limit, int):
            return read_bounded(path, limit, follow_link=True)
        return read_bounded(path, getattr(limits(), limit), follow_link=True, named=limit)
    except InputError as error:
        if isinstance(error.__cause__, FileNotFoundError):  # callers have their own words for it
            raise error.__cause__ from None
        raise


def require_ordinary(path: Path, *, inside: Path | None = None) -> None:
    """Checks a file before a library opens it that would wait for a pipe or read a device.

    Args:
        path: File that exists.
        inside: Folder of the path that links may not lead out of; `None` for paths that the user
            gave.

    Raises:
        InputError: It is not an ordinary file, is larger than the limit, or leads out.
    """
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({_reason(error)})") from error
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{path}: is no ordinary file")
    if inside is not None:
        require_inside(path, inside)


def require_inside(path: Path, folder: Path) -> None:
    """Checks that neither a file or folder nor a folder above it is a link that leads elsewhere.

    Args:
        path: File or folder that exists, below `folder`.
        folder: Folder that the user gave, perhaps by a link.

    Raises:
        InputError: A link leads out of the folder.
    """
    if not _is_inside(path, folder):
        raise InputError(f"{path}: a link leads out of {folder}; put the files there")


def require_utf8(path: Path | str) -> None:
    """Checks a name that will be stored in a record, a digest or a database.

    Raises:
        InputError: The name is not UTF-8, as on a disk that another system has written.
    """
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"{path}: its name is not UTF-8; rename it") from error


def require_size(path: Path) -> None:
    """Checks an ordinary file that a library reads as a whole.

    Raises:
        InputError: It is not an ordinary file, or larger than the limit `file_bytes`.
    """
    require_ordinary(path)
    if path.stat().st_size > limits().file_bytes:
        raise InputError(f"{path}: {beyond('file_bytes', f'has {path.stat().st_size:,} bytes')}")


def _is_inside(path: Path, folder: Path) -> bool:
    target, home = path.resolve(), folder.resolve()
    if target.is_relative_to(home):
        return True
    # The hub's cache has links from `snapshots/REVISION/…` to `blobs/…` of the same repository.
    for above in (home, *home.parents):
        if above.name == "snapshots":
            return target.is_relative_to(above.parent / "blobs")
    return False


def _open(path: Path, follow_link: bool) -> int:
    # Without O_NONBLOCK, opening a pipe would wait for a writer.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow_link else os.O_NOFOLLOW)
    try:
        return os.open(path, flags)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except OSError as error:
        reason = error.strerror
        if error.errno == errno.ELOOP:
            reason = "is a symbolic link"
        elif error.errno == errno.ENXIO:  # a socket
            reason = "is no ordinary file"
        raise InputError(f"{path}: cannot be read ({reason})") from error
    except ValueError as error:  # a NUL in the name
        raise InputError(f"{str(path)!r}: is no name of a file") from error


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
