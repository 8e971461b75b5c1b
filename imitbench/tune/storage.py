"""Storage of studies: SQLite on one machine, a journal for machines with a shared file system."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from json import JSONDecodeError
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from imitbench.errors import InputError
from imitbench.records.runs import Record
from imitbench.util.extras import import_extra
from imitbench.util.text_line import one_line

if TYPE_CHECKING:
    from optuna.storages import BaseStorage


def require_optuna() -> None:
    """Checks that Optuna can be imported, and limits its log to errors.

    Raises:
        InputError: Optuna is not installed.
    """
    optuna = import_extra("optuna", "tune", "tuning")
    optuna.logging.set_verbosity(optuna.logging.ERROR)


StorageKind = Literal["sqlite", "journal"]
FILES: dict[StorageKind, str] = {"sqlite": "study.db", "journal": "study.journal"}
STUDY_NAME = "search"
_BUSY_S = 60.0


class StudyLocation(Record):
    """Location of a study.

    Attributes:
        kind: `sqlite` or `journal`.
        path: Absolute path of the file.
    """

    kind: StorageKind
    path: str

    @classmethod
    def within(cls, folder: Path, kind: StorageKind) -> StudyLocation:
        """Returns the location of the study in a folder."""
        return cls(kind=kind, path=str(folder.resolve() / FILES[kind]))


@contextmanager
def open_storage(address: StudyLocation) -> Iterator[BaseStorage]:
    """Opens the storage of a study within the context; creates it if missing.

    Raises:
        InputError: The file is damaged, or cannot be read or written.
    """
    require_optuna()
    from optuna.storages import RDBStorage
    from sqlalchemy.exc import OperationalError, SQLAlchemyError
    from sqlalchemy.pool import QueuePool

    if address.kind == "journal":
        try:
            yield _journal(address.path)
        except JSONDecodeError as error:  # a broken last line is detected only when others follow
            raise _damaged(address.path, error) from error
        return
    storage = None
    try:
        storage = RDBStorage(
            "sqlite://",  # an address would end at a `?` in the path, and decode `%` and braces
            engine_kwargs={
                "creator": partial(_connect, address.path),
                "poolclass": QueuePool,
            },
        )
        yield storage
    except OperationalError as error:  # for example, the disk is full or the file is read-only
        raise InputError(
            f"{address.path}: cannot be used ({_first_line(error)}); fix that, then run the same "
            "command again: finished trials are kept"
        ) from error
    except SQLAlchemyError as error:
        raise _damaged(address.path, error) from error
    finally:
        if storage is not None:
            storage.remove_session()
            storage.engine.dispose()


def _connect(path: str) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=_BUSY_S, check_same_thread=False)


def _journal(path: str) -> BaseStorage:
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    try:
        return JournalStorage(JournalFileBackend(path))  # reads the file
    except (ValueError, LookupError, TypeError, AssertionError) as error:
        raise _damaged(path, error) from error


def _damaged(path: str, error: Exception) -> InputError:
    return InputError(
        f"{path}: damaged ({_first_line(error)}); restore a copy, or delete its folder to restart "
        "the search"
    )


def _first_line(error: Exception) -> str:
    return one_line(next(iter(str(error).splitlines()), type(error).__name__))
