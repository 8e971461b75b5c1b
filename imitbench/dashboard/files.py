"""Reads files of a results folder that may change, disappear, or be anything."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_LINK_FREE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


@dataclass(frozen=True)
class OpenFile:
    """An ordinary file that is open for reading; a context that closes it.

    Attributes:
        stream: The open file.
        size: Bytes when it was opened.
        stamp: Text that changes when the file is replaced or written to.
    """

    stream: BinaryIO
    size: int
    stamp: str

    def __enter__(self) -> OpenFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()

    def read(self, start: int, most: int) -> bytes:
        """Reads part of the file; what is missing is not returned.

        Args:
            start: First byte; counted from the end if negative.
            most: Largest number of bytes.
        """
        try:
            self.stream.seek(start if start >= 0 else max(0, self.size + start))
            return self.stream.read(most)
        except OSError:
            return b""


def open_file(path: Path) -> OpenFile | None:
    """Opens an ordinary file; `None` if there is none, or something else has the name.

    Links are not followed, since a folder from elsewhere may have links to any file. Pipes and
    devices are not read, since they may have no end.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | _LINK_FREE)
    except OSError:
        return None
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        return None
    return OpenFile(os.fdopen(descriptor, "rb"), found.st_size, _stamp(found))


def file_stamp(path: Path) -> str:
    """Returns the stamp of `OpenFile`; an empty text if there is no file."""
    try:
        return _stamp(path.stat(follow_symlinks=False))
    except OSError:
        return ""


def _stamp(found: os.stat_result) -> str:
    return f"{found.st_mtime_ns:x}-{found.st_size:x}-{found.st_ino:x}"
