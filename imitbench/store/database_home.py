"""Collects results folders that may be read only: their database is then in the user's cache."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from imitbench.store.collector import CollectionSummary, collect
from imitbench.store.database import ReadOnlyFolderError
from imitbench.util.files import user_cache


@dataclass(frozen=True)
class CollectedFolder:
    """A results folder whose database is up to date.

    Attributes:
        place: Folder of the database.
        summary: What the collection changed.
    """

    place: Path
    summary: CollectionSummary


@contextmanager
def collected(out: Path) -> Iterator[CollectedFolder]:
    """Collects a results folder, without writing into it where that is not allowed.

    The database of such a folder is in the user's cache, where the next call finds it; if that
    cannot be written either, in a temporary folder, which is removed at the end.

    Args:
        out: Root of the results folder.

    Raises:
        InputError: As for `imitbench.store.collector.collect`.
    """
    try:
        found = CollectedFolder(out, collect(out))
    except ReadOnlyFolderError:
        place = cached_place(out)
        try:
            found = CollectedFolder(place, collect(out, place=place))
        except ReadOnlyFolderError:
            with tempfile.TemporaryDirectory(prefix="imitbench-") as scratch:
                place = Path(scratch)
                yield CollectedFolder(place, collect(out, place=place))
            return
    yield found


def cached_place(out: Path) -> Path:
    """Returns the folder in the user's cache for the database of a results folder."""
    name = hashlib.sha256(str(out.resolve()).encode()).hexdigest()[:32]
    return user_cache() / "databases" / name
