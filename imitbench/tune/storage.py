"""Where studies lie: SQLite on one machine, a journal where several share a file system."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from imitbench.store.records import Record
from imitbench.tune.dependency import require_optuna

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

StorageKind = Literal["sqlite", "journal"]
FILES: dict[StorageKind, str] = {"sqlite": "study.db", "journal": "study.journal"}
STUDY_NAME = "search"
_BUSY_S = 60.0


class StudyAddress(Record):
    """Where a study is.

    Attributes:
        kind: Kind of the file.
        path: The file, absolute.
    """

    kind: StorageKind
    path: str

    @classmethod
    def within(cls, folder: Path, kind: StorageKind) -> StudyAddress:
        """The study of a folder."""
        return cls(kind=kind, path=str(folder.resolve() / FILES[kind]))


@contextmanager
def opened(address: StudyAddress) -> Iterator[BaseStorage]:
    """Within it, the storage of a study is open; it is made where it is missing."""
    require_optuna()
    from optuna.storages import JournalStorage, RDBStorage
    from optuna.storages.journal import JournalFileBackend

    if address.kind == "journal":
        yield JournalStorage(JournalFileBackend(address.path))
        return
    storage = RDBStorage(
        f"sqlite:///{address.path}", engine_kwargs={"connect_args": {"timeout": _BUSY_S}}
    )
    try:
        yield storage
    finally:
        storage.remove_session()
        storage.engine.dispose()
