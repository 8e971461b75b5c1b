"""Folders that are either whole or absent: made beside their place, then put there."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from imitbench.errors import InputError
from imitbench.util.files import fsync_directory


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
