"""A set of pairs to label: a folder with fragments, clips and the pairs themselves.

    set.json          header and pairs, see `SetHeader`
    fragments.parquet one fragment per row, in the columns of demonstrations
    clips/N.mp4       the clip of fragment N
    answers.sqlite    the answers, see `imitbench.labelling.answers`

Everything but the answers is written once, atomically. Folders of other people are data: paths in
them are never followed, and clips are files with fixed names.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

import pyarrow.parquet as pq
from pydantic import BaseModel, Field, ValidationError, model_validator

from imitbench.algorithms.preference_comparisons.dataset_storage import pair_digest
from imitbench.data.arrow_table import trajectories_to_table
from imitbench.data.demonstrations import PARQUET_OPTIONS, read_demonstrations
from imitbench.data.types import TrajectoryWithRew
from imitbench.errors import InputError
from imitbench.untrusted import gate
from imitbench.untrusted.files import open_ordinary
from imitbench.util.files import atomic_write_bytes
from imitbench.util.text_line import encodable, one_line

SET_FILE = "set.json"
FRAGMENTS_FILE = "fragments.parquet"
CLIPS_FOLDER = "clips"
ANSWERS_FILE = "answers.sqlite"
MOST_PAIRS = 20_000
MOST_GOAL = MOST_PAIRS
MOST_CLIP_BYTES = 2**20
"""Largest clip that is served; `imitbench.labelling.clips` writes smaller ones."""

_MP4_MARK, _MP4_MARK_AT = b"ftyp", 4
_MOST_HEADER_BYTES = 16 * 2**20

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
LONGEST_TEXT = 400
Text = Annotated[str, Field(max_length=LONGEST_TEXT)]
Question = Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)]


class Pair(BaseModel, extra="forbid", strict=True, frozen=True):
    """Two fragments to compare."""

    digest: Digest
    """Digest of both fragments in this order, as `pair_digest` computes it."""
    first: int = Field(ge=0)
    second: int = Field(ge=0)
    expected: Literal["first", "second"] | None = None
    """For obvious pairs, the fragment that nearly everybody prefers."""


class SetHeader(BaseModel, extra="forbid", strict=True, frozen=True):
    """The content of `set.json`."""

    version: Literal[1]
    env: Annotated[str, Field(max_length=200)] | None
    source: Text
    """Origin of the fragments."""
    question: Question
    seed: int = Field(ge=0)
    fps: float = Field(gt=0, le=240)
    rendered: bool
    """Whether clips show the environment; otherwise they are traces of the observations."""
    goal: int = Field(ge=1)
    """Number of answers after which the page suggests a break."""
    fragments: int = Field(ge=2)
    pairs: list[Pair] = Field(min_length=1, max_length=MOST_PAIRS)

    @model_validator(mode="after")
    def _check_pairs(self) -> SetHeader:
        for number, pair in enumerate(self.pairs):
            if max(pair.first, pair.second) >= self.fragments or pair.first == pair.second:
                raise ValueError(f"pair {number} has no two fragments of the set")
        if len({pair.digest for pair in self.pairs}) < len(self.pairs):
            raise ValueError("a pair is there twice")
        return self


class LabelSet:
    """An opened set.

    Args:
        folder: The folder.

    Attributes:
        folder: The folder.
        header: Its validated header.
        set_id: Digest of the header: sets with the same pairs of the same fragments, the same
            question and seed have the same one.

    Raises:
        InputError: The folder is not a set, or is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        gate.try_reading(lambda: _parse_quietly(folder), folder / SET_FILE)
        content = _read(folder / SET_FILE, folder)
        try:
            self.header = SetHeader.model_validate_json(content)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            if where == "pairs":
                raise InputError(
                    f"{folder}: a set without pairs ({one_line(first['msg'], 80)}); make it again "
                    "with imitbench label --env"
                ) from None
            raise InputError(
                f"{folder / SET_FILE}: not a set to label ({one_line(where + ' ' + first['msg'])})"
                "; make it again"
            ) from None
        self.set_id = hashlib.sha256(self.header.model_dump_json().encode()).hexdigest()
        self.pairs = {pair.digest: pair for pair in self.header.pairs}

    @property
    def answers_path(self) -> Path:
        """Path of the database of answers."""
        return self.folder / ANSWERS_FILE

    def clip_path(self, fragment: int) -> Path:
        """Path of the clip of a fragment."""
        return self.folder / CLIPS_FOLDER / f"{fragment}.mp4"

    def check_clips(self) -> None:
        """Checks that each clip of a pair exists, is small and a complete video.

        Raises:
            InputError: A clip is missing, too large, cut off, or no video.
        """
        for number in sorted({n for pair in self.header.pairs for n in (pair.first, pair.second)}):
            path = self.clip_path(number)
            problem = clip_problem(path)
            if problem is not None:
                raise InputError(f"{path}: {problem}; make the set again")

    @functools.cached_property
    def fragments(self) -> list[TrajectoryWithRew]:
        """The fragments, by number, with NaN as rewards where none were recorded.

        Raises:
            InputError: The file is damaged, or does not belong to the header.
        """
        path = self.folder / FRAGMENTS_FILE
        found = gate.checked(lambda: read_demonstrations(path), path)
        if len(found) != self.header.fragments:
            raise InputError(
                f"{path}: has {len(found)} fragments, but {SET_FILE} names "
                f"{self.header.fragments}; make the set again"
            )
        for pair in self.header.pairs:
            if pair_digest(found[pair.first], found[pair.second]) != pair.digest:
                raise InputError(
                    f"{path}: fragments {pair.first} and {pair.second} are not those of "
                    f"{SET_FILE}; make the set again"
                )
        return found


def check_texts(question: str | None, goal: int) -> None:
    """Checks what a new set or queue tells annotators, before anything is made.

    Args:
        question: The question on the page; `None` for the usual one.
        goal: Number of answers after which the page suggests a break.

    Raises:
        InputError: The question is blank, too long or no Unicode text, or the goal is out of range.
    """
    if question is not None:
        if not question.strip():
            raise InputError("--question: is blank; say what annotators decide, or leave it out")
        if len(question) > LONGEST_TEXT:
            raise InputError(
                f"--question: has {len(question)} characters; shorten it to {LONGEST_TEXT} at most"
            )
        if encodable(question) != question:
            raise InputError("--question: is not UTF-8 text; type it again")
    if not 1 <= goal <= MOST_GOAL:
        raise InputError(f"--goal {goal}: must be from 1 to {MOST_GOAL}")


def write_set(folder: Path, header: SetHeader, fragments: Sequence[TrajectoryWithRew]) -> None:
    """Writes header and fragments of a set into a folder that has its clips already.

    Args:
        folder: The folder, usually of `imitbench.util.files.new_folder`.
        header: The header.
        fragments: The fragments, as `stored` returns them.
    """
    table = trajectories_to_table(fragments)
    pq.write_table(table, folder / FRAGMENTS_FILE, **PARQUET_OPTIONS)
    atomic_write_bytes(folder / SET_FILE, header.model_dump_json(indent=1).encode() + b"\n")


def stored(fragment: TrajectoryWithRew) -> TrajectoryWithRew:
    """The fragment as a set stores it: without infos, and with rewards in float64."""
    return TrajectoryWithRew(
        fragment.obs, fragment.acts, None, bool(fragment.terminal), fragment.rews.astype(float)
    )


def _read(path: Path, folder: Path) -> bytes:
    try:
        with open_ordinary(path) as stream:
            content = stream.read(_MOST_HEADER_BYTES + 1)
    except OSError as error:
        raise InputError(
            f"{folder}: not a set to label ({SET_FILE}: {error.strerror}); make one with "
            "imitbench label --env ID --to DIR"
        ) from error
    if len(content) > _MOST_HEADER_BYTES:
        raise InputError(f"{path}: is larger than any set; make it again")
    return content


def _parse_quietly(folder: Path) -> None:
    """Parses a header; what is wrong in it is told later."""
    with suppress(ValidationError):
        SetHeader.model_validate_json(_read(folder / SET_FILE, folder))


def clip_problem(path: Path) -> str | None:
    """Why a browser cannot show a clip, in words; `None` if its structure is that of a video."""
    try:
        with open_ordinary(path) as stream:
            content = stream.read(MOST_CLIP_BYTES + 1)
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if content[_MP4_MARK_AT : _MP4_MARK_AT + len(_MP4_MARK)] != _MP4_MARK:
        return "is not a clip that browsers can show"
    if len(content) > MOST_CLIP_BYTES:
        return f"is larger than {MOST_CLIP_BYTES // 2**20} MiB"
    return None if _is_complete(content) else "is a clip that is cut off"


def _is_complete(content: bytes) -> bool:
    """Whether all boxes of an MP4 file are there, with the one that describes the film.

    Source: ISO/IEC 14496-12, section 4.2: a box is its size (4 bytes), its type, and its content.
    """
    at, kinds = 0, set()
    while at + 8 <= len(content):
        size = int.from_bytes(content[at : at + 4])
        kinds.add(content[at + 4 : at + 8])
        if size < 8:
            return False
        at += size
    return at == len(content) and b"moov" in kinds
