"""The pairs that a running training wants compared, as a set that grows.

The folder is that of `imitbench.algorithms.preference_comparisons.answer_queue`: the training
writes files of pairs, and reads `answers.jsonl`. The page adds to it

    label.json        pairs in the order in which they are shown, see `QueueHeader`
    clips/N.mp4       the clip of fragment N
    answers.sqlite    all answers, from which lines of answers.jsonl are made
"""

from __future__ import annotations

import functools
import hashlib
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field, ValidationError

from imitbench.algorithms.preference_comparisons import dataset_storage
from imitbench.algorithms.preference_comparisons.answer_queue import (
    ANSWERS,
    QueueAnswer,
    append_answer,
    read_answers,
)
from imitbench.algorithms.preference_comparisons.dataset_storage import (
    PreferenceArrays,
    pair_digest,
)
from imitbench.data.types import TrajectoryWithRew
from imitbench.errors import InputError
from imitbench.labelling.answers import AnswerStore, GivenAnswer
from imitbench.labelling.clips import TRACE_FPS, FragmentPainter, write_clip
from imitbench.labelling.label_set import (
    ANSWERS_FILE,
    CLIPS_FOLDER,
    LabelSet,
    Pair,
    Question,
    SetHeader,
)
from imitbench.labelling.schedule import PresentedPair, sequence
from imitbench.untrusted import gate
from imitbench.untrusted.files import read_content
from imitbench.util.files import atomic_write_bytes
from imitbench.util.text_line import one_line

QUEUE_FILE = "label.json"
PAIRS = "pairs-*.safetensors"
CHUNK = 10
"""Pairs that are shown as soon as their clips are there; repeats are drawn within a chunk."""

UNSHOWN = "imitbench"
"""Annotator who skips pairs that cannot be shown, so that the training does not wait for them."""


class QueueHeader(BaseModel, extra="forbid", strict=True, frozen=True):
    """The content of `label.json`."""

    version: Literal[1] = 1
    queue: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    question: Question
    goal: int = Field(ge=1)
    seed: int = Field(ge=0)
    rendered: bool
    env: Annotated[str, Field(max_length=200)] | None = None
    """The environment that draws the clips, if it was named."""
    fragments: int = Field(default=0, ge=0)
    read: list[Annotated[str, Field(max_length=80)]] = []
    """Files of pairs that were read, in order."""
    chunks: list[list[Pair]] = []


class LabelQueue:
    """The queue of a training, as it grows; one process at a time may show it.

    Args:
        folder: The queue, created if missing: the training may start later.
        painter: Draws the clips.
        question: Question of a new queue.
        goal: Goal of a new queue.

    Attributes:
        folder: The queue.
        header: What is shown so far.

    Raises:
        InputError: The folder has other content, or is damaged.
    """

    def __init__(self, folder: Path, painter: FragmentPainter, *, question: str, goal: int) -> None:
        self.folder, self._painter = folder, painter
        try:
            (folder / CLIPS_FOLDER).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{folder}: cannot be written ({error.strerror})") from error
        if (folder / QUEUE_FILE).exists():
            self.header = _read_header(folder / QUEUE_FILE)
        else:
            self.header = QueueHeader(
                queue=secrets.token_hex(16), question=question, goal=goal, seed=0,
                rendered=painter.rendered, env=painter.env_id,
            )  # fmt: skip
            self._save(self.header)

    @property
    def set_id(self) -> str:
        """Identity of the queue."""
        return _identity(self.header)

    @property
    def answers_path(self) -> Path:
        """Path of the database of answers."""
        return self.folder / ANSWERS_FILE

    @property
    def lines_path(self) -> Path:
        """Path of the answers that the training reads."""
        return self.folder / ANSWERS

    def clip_path(self, fragment: int) -> Path:
        """Path of the clip of a fragment."""
        return self.folder / CLIPS_FOLDER / f"{fragment}.mp4"

    def presented(self, stream: int) -> list[PresentedPair]:
        """The sequence of an annotator so far; it only gets longer."""
        return _presented(self.header, stream)

    def grow(self) -> bool:
        """Draws the next chunk of pairs without an answer; returns whether there was one.

        Raises:
            InputError: A file of the training is damaged.
            OSError: A clip or the header cannot be written.
        """
        for path in sorted(self.folder.glob(PAIRS)):
            waiting = self._unread(path)
            if waiting is None:
                continue
            if waiting:
                self._show(waiting[:CHUNK])
            if len(waiting) <= CHUNK:
                self._save(self.header.model_copy(update={"read": [*self.header.read, path.name]}))
            return True
        return False

    def _unread(self, path: Path) -> list[tuple[str, TrajectoryWithRew, TrajectoryWithRew]] | None:
        """Pairs of a file that are neither answered nor shown; `None` if all were read earlier."""
        if path.name in self.header.read:
            return None
        content = _read_pairs(path)
        known = {pair.digest for chunk in self.header.chunks for pair in chunk}
        known |= set(read_answers(self.lines_path))
        found = {}
        for pair in zip(content.fragments1, content.fragments2, strict=True):
            digest = pair_digest(*pair)
            if digest not in known:
                found[digest] = (digest, *pair)
        return list(found.values())

    def _show(self, pairs: list[tuple[str, TrajectoryWithRew, TrajectoryWithRew]]) -> None:
        chunk, number = [], self.header.fragments
        for digest, first, second in pairs:
            problem = self._write_clip(first, second, number) or self._write_clip(
                second, first, number + 1
            )
            if problem is None:
                chunk.append(Pair(digest=digest, first=number, second=number + 1))
                number += 2
            else:
                skipped = QueueAnswer(pair=digest, preference=None, annotator=UNSHOWN)
                append_answer(self.lines_path, skipped)
        if chunk:
            chunks = [*self.header.chunks, chunk]
            self._save(self.header.model_copy(update={"chunks": chunks, "fragments": number}))

    def _write_clip(
        self, fragment: TrajectoryWithRew, beside: TrajectoryWithRew, number: int
    ) -> str | None:
        """Writes a clip, as a trace if pictures need too many bytes; or says why not."""
        problem = ""
        for draw in (self._painter.frames, self._painter.trace):
            try:
                write_clip(draw(fragment, [beside]), self.clip_path(number), self._painter.fps)
            except (InputError, ValueError) as error:
                problem = str(error)
            else:
                return None
        return problem

    def _save(self, header: QueueHeader) -> None:
        atomic_write_bytes(self.folder / QUEUE_FILE, header.model_dump_json(indent=1).encode())
        self.header = header


class QueueSet(LabelSet):
    """The pairs of a queue that were shown so far, as a set: for its status and its export.

    Args:
        folder: The queue.

    Raises:
        InputError: It is damaged, or shows no pair yet.
    """

    def __init__(self, folder: Path) -> None:
        if not (folder / QUEUE_FILE).is_file():
            raise InputError(
                f"{folder}: nobody has opened this queue yet; imitbench label {folder} --queue "
                "shows its pairs"
            )
        self.folder, self._queue = folder, _read_header(folder / QUEUE_FILE)
        self.set_id = _identity(self._queue)
        self.pairs = {pair.digest: pair for chunk in self._queue.chunks for pair in chunk}
        if not self.pairs:
            raise InputError(f"{folder}: the training has not asked about any pair yet")
        queue = self._queue
        self.header = SetHeader(
            version=1, env=queue.env, source="the queue of a training", question=queue.question,
            seed=queue.seed, fps=TRACE_FPS, rendered=queue.rendered, goal=queue.goal,
            fragments=queue.fragments, pairs=list(self.pairs.values()),
        )  # fmt: skip

    @property
    def shown_to_each(self) -> int:
        """Number of pairs that each annotator has been asked about, with repeats."""
        return len(_presented(self._queue, 0))

    @functools.cached_property
    def fragments(self) -> list[TrajectoryWithRew]:
        """The fragments, by number.

        Raises:
            InputError: A file of the training is damaged or missing.
        """
        asked: dict[str, tuple[TrajectoryWithRew, TrajectoryWithRew]] = {}
        for path in sorted(self.folder.glob(PAIRS)):
            content = _read_pairs(path)
            for both in zip(content.fragments1, content.fragments2, strict=True):
                asked.setdefault(pair_digest(*both), both)
        found: dict[int, TrajectoryWithRew] = {}
        for pair in self.header.pairs:
            if pair.digest not in asked:
                raise InputError(
                    f"{self.folder}: a file of pairs of the training is missing, which "
                    f"{QUEUE_FILE} names; put it back"
                )
            found[pair.first], found[pair.second] = asked[pair.digest]
        return [found[number] for number in range(self.header.fragments)]


def _identity(header: QueueHeader) -> str:
    return hashlib.sha256(header.queue.encode()).hexdigest()


def _presented(header: QueueHeader, stream: int) -> list[PresentedPair]:
    found: list[PresentedPair] = []
    for number, chunk in enumerate(header.chunks):
        shown = sequence(chunk, [header.seed, stream, number])
        found += [
            PresentedPair(len(found) + t.position, t.pair, t.purpose, t.swapped) for t in shown
        ]
    return found


def _read_pairs(path: Path) -> PreferenceArrays:
    try:
        return gate.checked(lambda: dataset_storage.unpack(dataset_storage.read_file(path)), path)
    except ValueError as error:
        raise InputError(f"{path}: not a set of pairs ({one_line(error)})") from error


def _read_header(path: Path) -> QueueHeader:
    try:
        return QueueHeader.model_validate_json(read_content(path))
    except (OSError, ValidationError) as error:
        raise InputError(
            f"{path}: not the state of a queue ({one_line(error, 80)}); remove the file, and the "
            "pairs without an answer are shown again"
        ) from None


class QueueAnswers:
    """Passes answers on to the training.

    Args:
        labels: The queue.
        store: All answers to it.
    """

    def __init__(self, labels: LabelQueue, store: AnswerStore) -> None:
        self._labels, self._store = labels, store
        self._lock = threading.Lock()

    def pass_on(self) -> None:
        """Makes the lines agree with the answers of this page that stand.

        Raises:
            OSError: The lines cannot be written.
        """
        with self._lock:
            self._update_lines()

    def _update_lines(self) -> None:
        standing: dict[tuple[str, str], QueueAnswer] = {}
        for given in self._store.answers():
            if given.purpose != "repeat":
                answer = _line(given)
                standing[answer.pair, answer.annotator] = answer
        path = self._labels.lines_path
        lines = read_answers(path)
        for (pair, name), answer in standing.items():
            if lines.get(pair, {}).get(name) != answer:
                append_answer(path, answer)
        own = {_name(person.number) for person in self._store.annotators()}
        for pair, given_lines in lines.items():
            for name in given_lines.keys() & own:
                if (pair, name) not in standing:
                    gone = QueueAnswer(pair=pair, preference=None, annotator=name, withdrawn=True)
                    append_answer(path, gone)


def _name(annotator: int) -> str:
    return f"annotator-{annotator}"


def _line(given: GivenAnswer) -> QueueAnswer:
    preference = None if given.choice == "skip" else given.preference
    return QueueAnswer(pair=given.pair, preference=preference, annotator=_name(given.annotator))


@contextmanager
def queue_growing(
    labels: LabelQueue, notify: Callable[[str], None], every_s: float = 1.0
) -> Iterator[None]:
    """Context in which a queue grows, in a thread of its own.

    Args:
        labels: The queue.
        notify: Called with one line about a problem.
        every_s: Seconds between two readings of the folder.
    """
    end = threading.Event()

    def grow() -> None:
        problem: str | None = None
        while not end.is_set():
            try:
                if labels.grow():
                    continue
                problem = None
            except (InputError, OSError) as error:
                if str(error) != problem:
                    problem = str(error)
                    notify(problem)
            end.wait(every_s)

    thread = threading.Thread(target=grow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def is_queue(folder: Path) -> bool:
    """Whether a folder is the queue of a training, or was opened as one."""
    return (folder / QUEUE_FILE).is_file() or any(folder.glob(PAIRS))
