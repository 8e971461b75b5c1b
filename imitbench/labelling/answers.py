"""The database of answers: SQLite, one row per answer.

An answer that `AnswerStore.record` has returned is on disk: the log is flushed at each commit.
Answers that arrive during a flush are committed together by the next one. Rows are never deleted:
an answer that was taken back has the time of that in `undone_at`.
"""

from __future__ import annotations

import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from imitbench.algorithms.preference_comparisons.human_gatherer import Answer, Choice
from imitbench.errors import InputError
from imitbench.util.local_server import new_secret
from imitbench.util.text_line import one_line
from imitbench.util.validation_errors import first_problem

Purpose = Literal["new", "repeat", "obvious"]
"""Why a pair was shown: to learn from it, to measure consistency, or to measure attention."""

_SCHEMA_VERSION = "1"
_SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE annotators (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE COLLATE NOCASE,
    token TEXT NOT NULL UNIQUE,
    stream INTEGER NOT NULL
);
CREATE TABLE answers (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    annotator INTEGER NOT NULL REFERENCES annotators (number),
    position INTEGER,
    pair TEXT NOT NULL,
    purpose TEXT NOT NULL,
    swapped INTEGER NOT NULL,
    choice TEXT NOT NULL,
    response_ms INTEGER,
    answered_at REAL NOT NULL,
    undone_at REAL
);
CREATE UNIQUE INDEX one_answer ON answers (annotator, position) WHERE undone_at IS NULL;
"""
_COLUMNS = "key, annotator, position, pair, purpose, swapped, choice, response_ms, answered_at"
_SAME = ("annotator", "position", "pair", "choice")
"""What two answers of the same key must share."""
_NAMED = ("number", "name", "token", "stream")
_BUSY_S = 20.0
LONGEST_NAME = 80


@dataclass(frozen=True)
class Annotator:
    """A person who labels.

    Attributes:
        number: Number in this database.
        name: Name, as given; personal data.
        token: Secret part of the person's link.
        stream: Number from which the order of the person's pairs is drawn.
    """

    number: int
    name: str
    token: str
    stream: int


@dataclass(frozen=True)
class GivenAnswer:
    """An answer.

    Attributes:
        key: Name of the answer, made by the page, so that sending it twice stores it once.
        annotator: Number of the person.
        position: Position in the person's sequence; `None` for imported answers.
        pair: Digest of the pair.
        purpose: Why the pair was shown.
        swapped: Whether the second fragment was on the left.
        choice: What was chosen, as shown.
        response_ms: Time from the first frame to the choice; `None` if unknown.
        answered_at: Seconds since 1970.
    """

    key: str
    annotator: int
    position: int | None
    pair: str
    purpose: Purpose
    swapped: bool
    choice: Choice
    response_ms: int | None
    answered_at: float

    @property
    def preference(self) -> float:
        """Probability that the first fragment is preferred; NaN for a skipped pair."""
        return Answer(choice=self.choice, swapped=self.swapped).preference()


class NotSavedError(RuntimeError):
    """An answer could not be written, for example because the disk is full."""


class OutOfTurnError(RuntimeError):
    """The pair, or the key, has another answer already, or an earlier pair has none."""


@dataclass
class _Waiting:
    """A change that waits for a commit, and its outcome."""

    answer: GivenAnswer | None
    undo: tuple[int, int] | None = None
    done: bool = False
    error: Exception | None = field(default=None)


class AnswerStore:
    """Answers to the pairs of one set; may be used by several threads.

    Args:
        path: The database, created if missing.
        set_id: Identity of the set, which the database remembers.

    Raises:
        InputError: The file is not such a database, belongs to another set, or cannot be opened.
    """

    def __init__(self, path: Path, set_id: str) -> None:
        self.path = path
        self._commits = threading.Lock()
        self._queue_lock = threading.Lock()
        self._queue: list[_Waiting] = []
        self._connection = _open(path, set_id)
        # Reads need not wait for the flush of a commit.
        self._reads = threading.Lock()
        self._reader = _connect(path)

    def close(self) -> None:
        """Closes the database."""
        with self._commits, self._reads:
            self._reader.close()
            self._connection.close()

    def secret(self) -> bytes:
        """A random key of this database, the same after a restart."""
        [[value]] = self._select("SELECT value FROM facts WHERE name = 'secret'")
        return bytes.fromhex(value)

    def annotator(self, name: str) -> Annotator:
        """Returns the annotator of that name, and adds one if there is none.

        Raises:
            InputError: The name is empty, too long, or has characters that cannot be shown.
        """
        clean = check_name(name)
        rows = self._select("SELECT * FROM annotators WHERE name = ?", clean)
        if not rows:
            self.add_annotator(clean, new_secret(), None)
            rows = self._select("SELECT * FROM annotators WHERE name = ?", clean)
        return Annotator(*rows[0])

    def add_annotator(self, name: str, token: str, stream: int | None) -> Annotator:
        """Adds an annotator; `stream` is their number when `None`."""
        with self._transaction() as cursor:
            [[last]] = cursor.execute("SELECT coalesce(max(number), 0) FROM annotators").fetchall()
            found = Annotator(last + 1, name, token, last + 1 if stream is None else stream)
            cursor.execute(
                "INSERT INTO annotators VALUES (?, ?, ?, ?)",
                (found.number, found.name, found.token, found.stream),
            )
        return found

    def annotators(self) -> list[Annotator]:
        """All annotators by number."""
        rows = self._select("SELECT * FROM annotators ORDER BY number")
        return [Annotator(*row) for row in rows]

    def answers(self) -> list[GivenAnswer]:
        """All answers that stand, in the order in which they were given."""
        rows = self._select(f"SELECT {_COLUMNS} FROM answers WHERE undone_at IS NULL ORDER BY id")
        return [_answer(row) for row in rows]

    def keys(self) -> set[str]:
        """Keys of all answers, with those that were taken back."""
        return {key for (key,) in self._select("SELECT key FROM answers")}

    def positions(self) -> set[tuple[int, int]]:
        """Annotators and positions that have an answer."""
        return set(
            self._select(
                "SELECT annotator, position FROM answers "
                "WHERE undone_at IS NULL AND position IS NOT NULL"
            )
        )

    def answered(self, annotator: int) -> int:
        """Number of pairs at the start of an annotator's sequence that have an answer."""
        with self._reads:
            return _next_position(self._reader, annotator)

    def record(self, answer: GivenAnswer) -> None:
        """Stores an answer; returns when it is on disk. The same answer again changes nothing.

        Raises:
            OutOfTurnError: It is not the answer to the annotator's next pair, or its key is that of
                another answer.
            NotSavedError: It cannot be written; nothing is stored.
        """
        self._commit(_Waiting(answer))

    def undo(self, annotator: int, position: int) -> None:
        """Takes back an annotator's last answer; returns when that is on disk.

        Taking back an answer that does not stand changes nothing.

        Raises:
            OutOfTurnError: Later answers of the annotator stand.
            NotSavedError: It cannot be written; the answer stands.
        """
        self._commit(_Waiting(None, (annotator, position)))

    def add(self, answers: list[GivenAnswer]) -> None:
        """Stores imported answers, all or none.

        Raises:
            InputError: They cannot be written.
        """
        try:
            with self._transaction() as cursor:
                for answer in answers:
                    _insert(cursor, answer)
        except sqlite3.Error as error:
            raise InputError(f"{self.path}: cannot be written ({one_line(error)})") from error

    def _commit(self, change: _Waiting) -> None:
        """Commits a change together with those of other threads that wait at the same time."""
        with self._queue_lock:
            self._queue.append(change)
        with self._commits:
            if not change.done:
                with self._queue_lock:
                    batch, self._queue = self._queue, []
                self._write(batch)
        if change.error is not None:
            raise change.error

    def _write(self, batch: list[_Waiting]) -> None:
        cursor = self._connection.cursor()
        try:
            cursor.execute("BEGIN IMMEDIATE")
            for change in batch:
                try:
                    _apply(cursor, change)
                except OutOfTurnError as error:
                    change.error = error
            cursor.execute("COMMIT")
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                self._connection.rollback()
            problem = NotSavedError(one_line(error, 120))
            for change in batch:
                change.error = problem
        for change in batch:
            change.done = True

    def _select(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self._reads:
            return self._reader.execute(query, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Cursor]:
        with self._commits:
            cursor = self._connection.cursor()
            cursor.execute("BEGIN IMMEDIATE")
            try:
                yield cursor
                cursor.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.rollback()
                raise


def check_name(name: str) -> str:
    """Returns a name without outer spaces.

    Raises:
        InputError: It is empty, too long, or has control characters.
    """
    clean = " ".join(name.split())
    if not clean or len(clean) > LONGEST_NAME or not clean.isprintable():
        raise InputError(
            f"annotator {one_line(name, 40)!r}: choose a name of 1 to {LONGEST_NAME} printable "
            "characters"
        )
    return clean


def _apply(cursor: sqlite3.Cursor, change: _Waiting) -> None:
    if change.answer is not None:
        answer = change.answer
        query = f"SELECT {', '.join(_SAME)} FROM answers WHERE key = ?"
        earlier = cursor.execute(query, (answer.key,)).fetchone()
        if earlier is not None:
            # Sent again by a page that did not hear of the first time; anything else is new.
            if earlier != tuple(getattr(answer, name) for name in _SAME):
                raise OutOfTurnError("another answer with this key came first, and stays")
            return
        if answer.position != _next_position(cursor, answer.annotator):
            raise OutOfTurnError("another answer to this pair came first")
        _insert(cursor, answer)
    elif change.undo is not None:
        annotator, position = change.undo
        if _next_position(cursor, annotator) > position + 1:
            raise OutOfTurnError("a later answer came first")
        cursor.execute(
            "UPDATE answers SET undone_at = ? "
            "WHERE annotator = ? AND position = ? AND undone_at IS NULL",
            (time.time(), annotator, position),
        )


def _next_position(database: sqlite3.Connection | sqlite3.Cursor, annotator: int) -> int:
    row = database.execute(
        "SELECT coalesce(max(position) + 1, 0) FROM answers "
        "WHERE annotator = ? AND undone_at IS NULL AND position IS NOT NULL",
        (annotator,),
    ).fetchone()
    return int(row[0])


def _insert(cursor: sqlite3.Cursor, answer: GivenAnswer) -> None:
    values = [getattr(answer, name) for name in _COLUMNS.split(", ")]
    marks = ", ".join("?" * len(values))
    cursor.execute(f"INSERT INTO answers ({_COLUMNS}) VALUES ({marks})", values)


_ANSWERS = TypeAdapter(GivenAnswer)
_ANNOTATORS = TypeAdapter(Annotator)


def _answer(row: tuple[object, ...]) -> GivenAnswer:
    values = dict(zip(_COLUMNS.split(", "), row, strict=True))
    if values["swapped"] in (0, 1):
        values["swapped"] = bool(values["swapped"])
    return _ANSWERS.validate_python(values)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _open(path: Path, set_id: str) -> sqlite3.Connection:
    try:
        connection = _connect(path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("BEGIN IMMEDIATE")
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema")}
        if not tables:
            for statement in _SCHEMA.split(";"):
                connection.execute(statement)
            facts = {"schema": _SCHEMA_VERSION, "set": set_id, "secret": secrets.token_hex(32)}
            connection.executemany("INSERT INTO facts VALUES (?, ?)", facts.items())
        connection.execute("COMMIT")
        _check(connection, path, set_id)
    except sqlite3.Error as error:
        raise InputError(
            f"{path}: not usable as a file of answers ({one_line(error)}); check the disk, or name "
            "another file"
        ) from error
    return connection


def _check(connection: sqlite3.Connection, path: Path, set_id: str) -> None:
    facts = dict(connection.execute("SELECT name, value FROM facts"))
    if facts.get("schema") != _SCHEMA_VERSION:
        raise InputError(f"{path}: answers of another version of imitbench; use that version")
    if facts.get("set") != set_id:
        raise InputError(f"{path}: answers to another set; name the answers file of this set")
    try:
        for row in connection.execute(f"SELECT {_COLUMNS} FROM answers"):
            _answer(row)
        for row in connection.execute(f"SELECT {', '.join(_NAMED)} FROM annotators"):
            _ANNOTATORS.validate_python(dict(zip(_NAMED, row, strict=True)))
            check_name(row[1])
    except ValidationError as error:
        raise InputError(
            f"{path}: has answers that the page cannot give "
            f"({first_problem(error)}); use an earlier copy"
        ) from None
