"""Answers from outside: recorded ones in a file, and those of people through a folder.

The folder is a queue. The learner writes each set of pairs that it wants compared to a file
`pairs-<number>-<digest>.safetensors`, a preference data set whose preferences are all NaN. Whoever
answers, such as a page, appends lines to `answers.jsonl`:

    {"pair": digest, "preference": 0.0 to 1.0 or null, "annotator": name, "weight": positive number}

`digest` is `pair_digest` of the two fragments, `preference` the probability that the first is
preferred, `null` a skipped pair. `annotator` and `weight` may be missing. Of several lines of one
annotator for one pair the last counts, so that answers can be changed; `"withdrawn": true` takes an
answer back. Pairs of equal fragments are not asked about, since there is nothing to tell.
"""

from __future__ import annotations

import errno
import math
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import Field, ValidationError

from imitbench.algorithms.preference_comparisons import dataset_storage
from imitbench.algorithms.preference_comparisons.dataset import PreferenceDataset
from imitbench.algorithms.preference_comparisons.dataset_storage import (
    PreferenceArrays,
    fragment_digest,
    pair_digest,
)
from imitbench.algorithms.preference_comparisons.gatherers import (
    AnsweredPairs,
    PreferenceGatherer,
    Preferences,
)
from imitbench.data.types import TrajectoryWithRewPair
from imitbench.errors import InputError
from imitbench.records.runs import Record
from imitbench.util.files import fsync_directory
from imitbench.util.logger import HierarchicalLogger
from imitbench.util.text_line import one_line
from imitbench.util.validation_errors import first_problem

ANSWERS = "answers.jsonl"
"""Name of the file of answers in the folder of a queue."""

_LONGEST_LINE = 4096  # bytes


class QueueAnswer(Record):
    """A line of the file of answers."""

    pair: str = Field(pattern=r"^[0-9a-f]{64}$")
    preference: float | None = Field(ge=0, le=1)
    annotator: str = ""
    weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    withdrawn: bool = False


def read_answers(path: Path) -> dict[str, dict[str, QueueAnswer]]:
    """Reads a file of answers, which may be missing or still be written to.

    Args:
        path: The file. An incomplete last line is ignored.

    Returns:
        The latest answer of each annotator, by pair and by annotator.

    Raises:
        InputError: A line is not an answer.
    """
    if not path.is_file():
        return {}
    answers: dict[str, dict[str, QueueAnswer]] = {}
    complete, _, _ = path.read_bytes().rpartition(b"\n")
    for number, line in enumerate(complete.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            answer = QueueAnswer.model_validate_json(line)
        except ValidationError as error:
            raise InputError(
                f"{path}, line {number}: not an answer ({first_problem(error)}); "
                "correct or remove the line"
            ) from None
        given = answers.setdefault(answer.pair, {})
        given.pop(answer.annotator, None)
        if not answer.withdrawn:
            given[answer.annotator] = answer
    return {pair: given for pair, given in answers.items() if given}


def append_answer(path: Path, answer: QueueAnswer) -> None:
    """Appends an answer to a file of answers; returns when it is on disk.

    An incomplete last line, from a crash during a write, is removed.

    Args:
        path: The file, created if missing. Other programs may append to it, too.
        answer: The answer.

    Raises:
        OSError: It cannot be written.
    """
    line = answer.model_dump_json(exclude_defaults=True).encode() + b"\n"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        size = os.fstat(descriptor).st_size
        start = max(0, size - _LONGEST_LINE)
        torn = os.pread(descriptor, _LONGEST_LINE, start).rpartition(b"\n")[2]
        if torn:
            os.ftruncate(descriptor, size - len(torn))
        if os.write(descriptor, line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    fsync_directory(path.parent)


def combined(answers: Sequence[QueueAnswer]) -> tuple[float, float]:
    """Combines what several annotators say about one pair.

    Args:
        answers: One of each annotator.

    Returns:
        The mean preference, weighted by annotator, and the sum of these weights; NaN and 1 if all
        skipped the pair.
    """
    said = [
        (answer.weight, answer.preference) for answer in answers if answer.preference is not None
    ]
    if not said:
        return math.nan, 1.0
    total = sum(weight for weight, _ in said)
    return sum(weight * preference for weight, preference in said) / total, total


class RecordedGatherer(PreferenceGatherer):
    """Gives the comparisons of a preference data set, in order, instead of asking anybody.

    `gather` returns as many comparisons as it was asked about, the next ones of the data set,
    whatever the pairs were. A call looks pairs up, and skips those that are not recorded.

    Args:
        dataset: The comparisons.
        custom_logger: Where to log; a new logger when `None`.
    """

    def __init__(
        self, dataset: PreferenceDataset, custom_logger: HierarchicalLogger | None = None
    ) -> None:
        super().__init__(None, custom_logger)
        self.dataset = dataset
        self._given = 0
        pairs = zip(dataset.fragments1, dataset.fragments2, strict=True)
        self._indices = {pair_digest(*pair): index for index, pair in enumerate(pairs)}

    def __call__(self, fragment_pairs: Sequence[TrajectoryWithRewPair]) -> Preferences:
        """Looks pairs up; see `PreferenceGatherer`."""
        indices = [self._indices.get(pair_digest(*pair)) for pair in fragment_pairs]
        found = [
            math.nan if index is None else self.dataset.preferences[index] for index in indices
        ]
        return np.array(found, dtype=np.float32)

    def gather(self, fragment_pairs: Sequence[TrajectoryWithRewPair]) -> AnsweredPairs:
        """Gives the next comparisons; fewer, perhaps none, at the end."""
        rows = slice(self._given, self._given + len(fragment_pairs))
        (first, second), preferences = self.dataset[rows]
        self._given += len(preferences)
        pairs = list(zip(first, second, strict=True))
        return AnsweredPairs(pairs, preferences, self.dataset.weights[rows])

    def state_dict(self) -> dict[str, Any]:
        """Number of comparisons given so far."""
        return {"given": self._given}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        self._given = state["given"]


class QueueGatherer(PreferenceGatherer):
    """Puts pairs into a folder, and takes the answers of people from it.

    Answers are found by the contents of the fragments: a pair is never asked about twice, and a
    training that is repeated with the same seed gets the answers that are there.

    Args:
        folder: The queue, created if missing; see the module. Several trainings may share it.
        wait: Whether `gather` waits for answers to all of its pairs. Otherwise it returns what was
            answered since, of earlier pairs too, and waits only if there is no answer at all yet.
        poll_s: Seconds between two readings of the file of answers.
        timeout_s: Seconds without any new answer after which waiting ends with an error; `None`
            for no limit.
        while_waiting: Called between two readings; may raise to end the wait.
        custom_logger: Where to log; a new logger when `None`.

    Raises:
        ValueError: A number of seconds is not positive.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        wait: bool = True,
        poll_s: float = 0.5,
        timeout_s: float | None = None,
        while_waiting: Callable[[], object] | None = None,
        custom_logger: HierarchicalLogger | None = None,
    ) -> None:
        super().__init__(None, custom_logger)
        for name, value in (("poll_s", poll_s), ("timeout_s", timeout_s)):
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be positive, not {value}")
        self.folder = Path(folder)
        self.wait = wait
        self.poll_s = poll_s
        self.timeout_s = timeout_s
        self.while_waiting = while_waiting
        self._open: dict[str, TrajectoryWithRewPair] = {}
        self._answered = 0

    def __call__(self, fragment_pairs: Sequence[TrajectoryWithRewPair]) -> Preferences:
        """Waits for the answers to all pairs; see `PreferenceGatherer`."""
        return self._await_all(fragment_pairs)[:, 0].astype(np.float32)

    def gather(self, fragment_pairs: Sequence[TrajectoryWithRewPair]) -> AnsweredPairs:
        """Asks about pairs, and returns the pairs with answers.

        Raises:
            InputError: A line of the file of answers is invalid, or time is up.
            OSError: The folder cannot be written.
        """
        if self.wait:
            pairs, answers = list(fragment_pairs), self._await_all(fragment_pairs)
        else:
            different = [pair for pair in fragment_pairs if not _are_equal(pair)]
            self._open |= dict(zip(self._ask(different), different, strict=True))
            found = self._wait_for(
                set(self._open), 0 if self._answered else min(1, len(self._open))
            )
            answers = np.array(list(found.values())).reshape(-1, 2)
            pairs = [self._open.pop(digest) for digest in found]
        self._answered += len(pairs)
        preferences, weights = answers.astype(np.float32).T
        return AnsweredPairs(pairs, np.ascontiguousarray(preferences), weights)

    def _await_all(self, pairs: Sequence[TrajectoryWithRewPair]) -> npt.NDArray[np.float64]:
        """Preferences and weights of all pairs, shape `(b, 2)`; equal fragments are skipped."""
        asked = [index for index, pair in enumerate(pairs) if not _are_equal(pair)]
        digests = self._ask([pairs[index] for index in asked])
        found = self._wait_for(set(digests), len(set(digests)))
        answers = np.tile([math.nan, 1.0], (len(pairs), 1))
        answers[asked] = np.array([found[digest] for digest in digests]).reshape(-1, 2)
        return answers

    def _ask(self, pairs: Sequence[TrajectoryWithRewPair]) -> list[str]:
        """Writes the pairs without an answer; returns the digests of all."""
        digests = [pair_digest(*pair) for pair in pairs]
        known = self._read_answers()
        new = {key: pair for key, pair in zip(digests, pairs, strict=True) if key not in known}
        if new:
            self.folder.mkdir(parents=True, exist_ok=True)
            number = len(list(self.folder.glob("pairs-*.safetensors")))
            # The same set is not written twice, after an interruption.
            name = next(iter(new))[:16]
            if not list(self.folder.glob(f"pairs-*-{name}.safetensors")):
                file = self.folder / f"pairs-{number:05d}-{name}.safetensors"
                dataset_storage.write_file(file, _unanswered(new.values()))
            self.logger.log(f"{len(new)} pairs wait for answers in {self.folder}")
        return digests

    def _read_answers(self) -> dict[str, tuple[float, float]]:
        """Preference and weight of every pair with an answer."""
        answers = read_answers(self.folder / ANSWERS)
        return {pair: combined(list(given.values())) for pair, given in answers.items()}

    def _wait_for(self, digests: set[str], count: int) -> dict[str, tuple[float, float]]:
        """Waits until `count` of these pairs have answers; returns those that do, in order."""
        seen, since = -1, time.monotonic()
        while True:
            found = {
                digest: answer
                for digest, answer in self._read_answers().items()
                if digest in digests
            }
            if len(found) >= count:
                return found
            if len(found) != seen:
                seen, since = len(found), time.monotonic()
            if self.timeout_s is not None and time.monotonic() - since > self.timeout_s:
                raise InputError(
                    f"{self.folder}: {count - len(found)} pairs had no answer for "
                    f"{self.timeout_s:g} s; answer them and start again, nothing is lost"
                )
            if self.while_waiting is not None:
                self.while_waiting()
            time.sleep(self.poll_s)

    def state_dict(self) -> dict[str, Any]:
        """Pairs that wait for an answer, and the number of answers so far."""
        return {"open": _unanswered(self._open.values()), "answered": self._answered}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        content = dataset_storage.unpack(state["open"])
        pairs = zip(content.fragments1, content.fragments2, strict=True)
        self._open = {pair_digest(*pair): pair for pair in pairs}
        self._answered = state["answered"]


def _unanswered(pairs: Collection[TrajectoryWithRewPair]) -> dict[str, Any]:
    """Packs pairs as a preference data set whose preferences are all NaN."""
    first, second = ([pair[side] for pair in pairs] for side in (0, 1))
    unknown = np.full(len(pairs), np.nan, dtype=np.float32)
    return dataset_storage.pack(PreferenceArrays(first, second, unknown, None))


def _are_equal(pair: TrajectoryWithRewPair) -> bool:
    return fragment_digest(pair[0]) == fragment_digest(pair[1])


def answered_pairs(folder: str | Path) -> PreferenceDataset:
    """Collects the answers in a queue as a preference data set, to repeat a training with them.

    Args:
        folder: The queue.

    Returns:
        All pairs with an answer that is not a skip, in the order in which they were asked.

    Raises:
        InputError: A file is damaged, or there is no answer.
    """
    folder = Path(folder)
    answers = read_answers(folder / ANSWERS)
    dataset, done = PreferenceDataset(), set[str]()
    for path in sorted(folder.glob("pairs-*.safetensors")):
        try:
            content = dataset_storage.unpack(dataset_storage.read_file(path))
        except ValueError as error:
            raise InputError(f"{path}: not a set of pairs ({one_line(error)})") from error
        for pair in zip(content.fragments1, content.fragments2, strict=True):
            digest = pair_digest(*pair)
            if digest in answers and digest not in done:
                done.add(digest)
                said = np.array(combined(list(answers[digest].values())), dtype=np.float32)
                dataset.push([pair], said[:1], said[1:])
    if not len(dataset):
        raise InputError(f"{folder}: no pair has an answer yet; answer some, then try again")
    return dataset
