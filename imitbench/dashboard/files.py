"""Reads files of a results folder that may change, disappear, or be anything; finds its videos."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from imitbench.util.text_line import encodable

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


VIDEO_FOLDER = "videos"
SUFFIX = ".mp4"
_RUN_ID = re.compile(r"[0-9a-f]{12}")


@dataclass(frozen=True)
class FoundVideo:
    """A video file of a results folder.

    Attributes:
        file: Path below the results folder.
        run: Key of the run that it shows: in whose folder it is, or whose id its name has. `None`
            if there is no such run.
        size: Size in bytes.
        changed: When it was written, in seconds since 1970.
    """

    file: str
    run: str | None
    size: int
    changed: float


def find_videos(out: Path, keys: Iterable[str]) -> list[FoundVideo]:
    """Finds the videos of a results folder, the newest first.

    Args:
        out: Results folder.
        keys: Paths of its run folders below it.
    """
    keys, root = list(keys), out.resolve()
    by_id = {key.rpartition("/")[2]: key for key in keys}
    found = []
    for folder in ("", VIDEO_FOLDER, *keys):
        for entry in _entries(out / folder, root):
            name = encodable(entry.name)
            named = (by_id[run_id] for run_id in _RUN_ID.findall(name) if run_id in by_id)
            run = folder if folder not in ("", VIDEO_FOLDER) else next(named, None)
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            file = f"{folder}/{name}" if folder else name
            found.append(FoundVideo(file, run, status.st_size, status.st_mtime))
    return sorted(found, key=lambda video: (-video.changed, video.file))


def open_video(out: Path, file: str, keys: Container[str]) -> OpenFile | None:
    """Opens a video at a path that `find_videos` may return; `None` if there is none.

    Args:
        out: Results folder.
        file: Path below it, from an untrusted request.
        keys: Paths of its run folders below it.
    """
    path = PurePosixPath(file)
    folder = path.parent.as_posix()
    known = folder in (".", VIDEO_FOLDER) or folder in keys
    if path.suffix.lower() != SUFFIX or path.is_absolute() or not known or "\0" in file:
        return None
    target = out / path
    # A folder from elsewhere may have links that lead out of it.
    if not target.resolve().is_relative_to(out.resolve()):
        return None
    return open_file(target)


def _entries(folder: Path, root: Path) -> Iterator[os.DirEntry[str]]:
    """Yields the videos in a folder, unless a link leads to it from elsewhere."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                ordinary = entry.name[0] != "." and entry.is_file(follow_symlinks=False)
                if not (ordinary and entry.name.lower().endswith(SUFFIX)):
                    continue
                if not folder.resolve().is_relative_to(root):
                    return
                yield entry
    except OSError:
        return
