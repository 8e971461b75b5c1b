"""Reads files from untrusted sources: of limited size, as plain data, without following links."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from imitbench.errors import InputError
from imitbench.util.text_line import one_line

_MAX_NAME = 1000


def read_bounded(path: Path, limit: int, *, follow_link: bool = False) -> bytes:
    """Reads a regular file.

    Args:
        path: File to read.
        limit: Maximum size in bytes.
        follow_link: Whether it may be a symbolic link, which is allowed for paths of the user.

    Raises:
        InputError: The file is missing, a link, not a regular file (such as a pipe), too large, or
            cannot be read.
    """
    # Without O_NONBLOCK, opening a pipe would wait for a writer.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow_link else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except OSError as error:
        reason = "is a symbolic link" if error.errno == errno.ELOOP else error.strerror
        raise InputError(f"{path}: is not read ({reason})") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{path}: is no ordinary file")
        if status.st_size > limit:
            raise InputError(f"{path}: has more than {limit} bytes, which no such file has")
        with open(descriptor, "rb", closefd=False) as stream:
            return stream.read(limit)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    finally:
        os.close(descriptor)


def parse_json(content: bytes, where: str) -> Any:
    """Parses JSON into plain values; never creates objects of types that it names.

    Raises:
        InputError: The content is not JSON, or nested too deeply.
    """
    try:
        return from_json(content)
    except ValueError as error:
        raise InputError(f"{where}: is no JSON ({one_line(error)})") from error


def content_digest(content: bytes) -> str:
    """Returns the SHA-256 as 64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def visible(name: str) -> str:
    """Returns a name as one line of at most 1000 characters; different names stay different."""
    line = name if name.isprintable() else name.encode("unicode_escape").decode("ascii")
    if len(line) <= _MAX_NAME:
        return line
    return f"{line[: _MAX_NAME - 20]}…{content_digest(line.encode())[:12]}"
