"""The answer file: each answer is on disk before the next question."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from imitbench.errors import InputError
from imitbench.util.files import fsync_directory
from imitbench.util.text_line import one_line

_START = b'{"pair":'

Choice = Literal["left", "right", "tie", "skip"]


class Answer(BaseModel):
    """The answer to one pair."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    choice: Choice
    swapped: bool
    """Whether the second fragment was shown on the left."""

    def preference(self) -> float:
        """Probability that the first fragment is preferred; NaN for a skipped pair."""
        if self.choice == "tie":
            return 0.5
        if self.choice == "skip":
            return float("nan")
        return float((self.choice == "left") != self.swapped)


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    pair: str = Field(min_length=1)
    answer: Answer | None
    """`None` removes an earlier answer."""


class AnswerFile:
    """Answers by the digest of their pair, in an append-only file of JSON lines.

    Each line is `{"pair": digest, "answer": {"choice": …, "swapped": …}}`; an answer `null` removes
    an earlier one. `record` returns after the line is on disk. An incomplete last line, from a
    crash during a write, is removed.

    Args:
        path: The file, which may be missing. Only one process at a time may use it.

    Raises:
        InputError: The file has another format.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._answers: dict[str, Answer] = {}
        content = path.read_bytes() if path.exists() else b""
        complete, newline, torn = content.rpartition(b"\n")
        for number, line in enumerate(complete.split(b"\n") if newline else [], start=1):
            self._read(line, number)
        if torn:
            self._cut_off(torn, len(content) - len(torn))

    def get(self, pair: str) -> Answer | None:
        """The current answer to a pair, if any."""
        return self._answers.get(pair)

    def latest(self, among: set[str]) -> str | None:
        """The pair in `among` that was answered last, if any."""
        return next((pair for pair in reversed(self._answers) if pair in among), None)

    def record(self, pair: str, answer: Answer | None) -> None:
        """Adds or removes an answer, and waits until it is on disk.

        Args:
            pair: Digest of the pair.
            answer: `None` removes the earlier answer.

        Raises:
            OSError: The file cannot be written.
        """
        created = not self.path.exists()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as stream:
            stream.write(_Line(pair=pair, answer=answer).model_dump_json().encode() + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
        if created:
            fsync_directory(self.path.parent)
        self._apply(pair, answer)

    def _read(self, line: bytes, number: int) -> None:
        try:
            entry = _Line.model_validate_json(line)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise InputError(
                f"{self.path}, line {number}: not an answer to a comparison "
                f"({one_line(where + ' ' + first['msg'].lower())}); choose another file or remove "
                "the line"
            ) from None
        self._apply(entry.pair, entry.answer)

    def _cut_off(self, torn: bytes, size: int) -> None:
        """Removes an incomplete last line, which a power failure may have padded with zeros."""
        written = torn.rstrip(b"\0")
        if not (written.startswith(_START) or _START.startswith(written)):
            raise InputError(
                f"{self.path}: the last line is not an answer to a comparison; choose another file"
            )
        os.truncate(self.path, size)

    def _apply(self, pair: str, answer: Answer | None) -> None:
        # Removing it first moves a new answer to the end; `latest` depends on that order.
        self._answers.pop(pair, None)
        if answer is not None:
            self._answers[pair] = answer
