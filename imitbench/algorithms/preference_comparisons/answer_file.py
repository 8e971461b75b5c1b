"""Answers of a person, each on disk before the next question is asked."""

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
    """What was answered to one pair."""

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
    """`None` takes an earlier answer back."""


class AnswerFile:
    """Answers by the digest of their pair, in a file of JSON lines that only ever grows.

    Each line is `{"pair": digest, "answer": {"choice": …, "swapped": …}}`; an answer `null`
    takes back what was said of that pair before. A line is flushed to the disk before
    `record` returns. A last line that is torn, because the machine stopped while it was
    written, does not count and is cut off.

    Args:
        path: The file; it need not exist. One process at a time may use it.

    Raises:
        InputError: The file holds something else.
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
        """The answer that stands, if any."""
        return self._answers.get(pair)

    def latest(self, among: set[str]) -> str | None:
        """Of these pairs, the one answered last, if any was."""
        return next((pair for pair in reversed(self._answers) if pair in among), None)

    def record(self, pair: str, answer: Answer | None) -> None:
        """Adds an answer, or takes one back, and waits until the disk has it.

        Args:
            pair: Digest of the pair.
            answer: What was answered; `None` takes the answer back.

        Raises:
            OSError: The file system refused.
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
                f"{self.path}, line {number}: no answer to a comparison "
                f"({one_line(where + ' ' + first['msg'].lower())}); choose another file or remove "
                "the line"
            ) from None
        self._apply(entry.pair, entry.answer)

    def _cut_off(self, torn: bytes, size: int) -> None:
        """Removes the beginning of a line, which a power cut may have filled up with zeros."""
        written = torn.rstrip(b"\0")
        if not (written.startswith(_START) or _START.startswith(written)):
            raise InputError(
                f"{self.path}: the last line is no answer to a comparison; choose another file"
            )
        os.truncate(self.path, size)

    def _apply(self, pair: str, answer: Answer | None) -> None:
        # Taking it out first moves a new answer to the end, which `latest` relies on.
        self._answers.pop(pair, None)
        if answer is not None:
            self._answers[pair] = answer
