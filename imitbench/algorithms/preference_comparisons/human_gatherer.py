"""Asks a human at the terminal which of two videos shows the better behavior."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TextIO, get_args

import numpy as np
from pydantic import Field, ValidationError

from imitbench.algorithms.preference_comparisons.dataset_storage import pair_digest
from imitbench.algorithms.preference_comparisons.gatherers import PreferenceGatherer, Preferences
from imitbench.data.render_wrapper import RENDERED_KEY, load_frame
from imitbench.data.types import AnyPath, Trajectory, TrajectoryWithRewPair
from imitbench.errors import InputError
from imitbench.records.runs import Record
from imitbench.util.files import fsync_directory
from imitbench.util.logger import HierarchicalLogger
from imitbench.util.validation_errors import first_problem
from imitbench.util.video_wrapper import import_encoder

# The encoder halves the resolution of colors, so both sides must be even.
_EVEN_SIDES = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2"]


def has_frames(fragment: Trajectory) -> bool:
    """Whether each step has a frame, see `imitbench.data.render_wrapper`."""
    return fragment.infos is not None and all(RENDERED_KEY in info for info in fragment.infos)


def write_fragment_video(fragment: Trajectory, path: Path, fps: float) -> None:
    """Writes the outcome of each step as one frame of an H.264 file.

    Frames are read and encoded one at a time. The file is renamed to `path` when complete.

    Args:
        fragment: Fragment whose infos have frames of equal size.
        path: File to write, ending in `.mp4`; its folder exists. A black line is added to a side of
            odd length.
        fps: Frame rate, in frames per second.

    Raises:
        ValueError: Frames are missing or differ in size.
        InputError: The encoder is not installed, or the file of a frame is missing.
    """
    if not has_frames(fragment):
        raise ValueError(
            f"fragment: an info has no '{RENDERED_KEY}'; wrap the environment in "
            "imitbench.data.render_wrapper.RenderImageInfoWrapper and keep the infos"
        )
    assert fragment.infos is not None, "checked by has_frames"
    partial = path.with_name(f".{path.stem}.partial{path.suffix}")
    writer = import_encoder("writing videos").get_writer(
        partial, fps=fps, codec="libx264", macro_block_size=1, output_params=_EVEN_SIDES
    )
    try:
        with writer:
            for info in fragment.infos:
                writer.append_data(load_frame(info[RENDERED_KEY]))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


_START = b'{"pair":'

Choice = Literal["left", "right", "tie", "skip"]


class Answer(Record):
    """The answer to one pair."""

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


class _Line(Record):
    pair: str = Field(min_length=1)
    answer: Answer | None
    """`None` removes an earlier answer."""


class AnswerFile:
    """Answers by the digest of their pair, in an append-only file of JSON lines.

    Each line is `{"pair": digest, "answer": {"choice": …, "swapped": …}}`; an answer `null` removes
    an earlier one. `record` returns after the line is on disk. An incomplete last line, from a
    crash during a write, is removed.

    Args:
        path: The file, which may be missing. Only one process at a time may write it.
        read_only: Whether to leave an incomplete last line where it is.

    Raises:
        InputError: The file has another format.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self._answers: dict[str, Answer] = {}
        content = path.read_bytes() if path.exists() else b""
        complete, newline, torn = content.rpartition(b"\n")
        for number, line in enumerate(complete.split(b"\n") if newline else [], start=1):
            self._read(line, number)
        if torn and not read_only:
            self._cut_off(torn, len(content) - len(torn))

    def get(self, pair: str) -> Answer | None:
        """The current answer to a pair, if any."""
        return self._answers.get(pair)

    def items(self) -> list[tuple[str, Answer]]:
        """Digests of pairs with their current answers."""
        return list(self._answers.items())

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
            raise InputError(
                f"{self.path}, line {number}: not an answer to a comparison "
                f"({first_problem(error)}); choose another file or remove "
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


_Command = Choice | Literal["undo", "quit"]
_COMMANDS: dict[str, _Command] = {
    name: command
    for command in (*get_args(Choice), "undo", "quit")
    for name in (command, command[0])
}
_QUESTION = "Which is better? (l)eft, (r)ight, (t)ie, (s)kip, (u)ndo, (q)uit: "
_NAME_LENGTH = 16


class GatheringStoppedError(RuntimeError):
    """The user quit, or the input ended, before all pairs were answered.

    All answers so far are on disk. A gatherer with the same answer file, called with the same
    pairs, asks only about the others.
    """


class SynchronousHumanGatherer(PreferenceGatherer):
    """Shows each pair as two videos and waits for an answer.

    For each pair, `<digest>-left.mp4` and `<digest>-right.mp4` are written to `video_dir` and their
    paths printed. Answers are `left`, `right`, `tie`, `skip`, or their first letters; `undo`
    removes the latest answer to a pair of this call and asks again; `quit` stops. The answer to the
    last pair ends the call. Each answer is on disk before the next question, under a digest of the
    fragments' contents: the same pair is never asked twice, even after a restart.

    Args:
        video_dir: Folder of the videos, created if missing. Videos are kept.
        video_fps: Frame rate, in frames per second.
        custom_logger: Where to log; a new logger when `None`.
        rng: Draws for each pair of a call, answered before or not, which fragment is shown on the
            left, against a bias for one side; always the first when `None`. The answer file records
            it.
        answers: The answer file; `answers.jsonl` in `video_dir` when `None`.
        show: Called with the paths of the left and right video before each question, to open
            them in a player or a notebook.
        input_stream: Source of answers, one per line; Python's `input` when `None`, for terminals
            and notebooks.
        output_stream: Destination of questions; standard output when `None`.

    Raises:
        ValueError: `video_fps` is not positive.
        InputError: The answer file has another format.
    """

    def __init__(
        self,
        video_dir: AnyPath,
        video_fps: float = 20,
        custom_logger: HierarchicalLogger | None = None,
        rng: np.random.Generator | None = None,
        *,
        answers: AnyPath | None = None,
        show: Callable[[Path, Path], object] | None = None,
        input_stream: TextIO | None = None,
        output_stream: TextIO | None = None,
    ) -> None:
        super().__init__(rng, custom_logger)
        if not video_fps > 0:
            raise ValueError(f"video_fps must be positive, not {video_fps}")
        self.video_dir = Path(os.fsdecode(video_dir))
        self.video_dir.mkdir(parents=True, exist_ok=True)
        self.video_fps = video_fps
        file = self.video_dir / "answers.jsonl" if answers is None else os.fsdecode(answers)
        self._answers = AnswerFile(Path(file))
        self._show = show
        self._input, self._output = input_stream, output_stream

    def __call__(self, fragment_pairs: Sequence[TrajectoryWithRewPair]) -> Preferences:
        """Asks about each pair without an answer.

        Args:
            fragment_pairs: `b` pairs of fragments, whose infos have frames; see
                `imitbench.data.render_wrapper.RenderImageInfoWrapper`.

        Returns:
            See `PreferenceGatherer`.

        Raises:
            ValueError: A fragment to show has no frames.
            GatheringStoppedError: The user quit, or the input ended.
            InputError: Videos cannot be written, or the file of a frame is missing.
        """
        digests = [pair_digest(first, second) for first, second in fragment_pairs]
        swaps = [False] * len(digests)
        if self.rng is not None:
            swaps = self.rng.integers(2, size=len(digests)).astype(bool).tolist()
        where: dict[str, int] = {}
        for index, digest in enumerate(digests):
            where.setdefault(digest, index)
        pending = [digest for digest in where if self._answers.get(digest) is None]
        for digest in pending:
            _check_frames(fragment_pairs[where[digest]], where[digest])
        while pending:
            index = where[pending[0]]
            self._write(f"Pair {index + 1} of {len(digests)}, {len(pending)} to go.\n")
            self._display(fragment_pairs[index], pending[0], swaps[index])
            command = self._ask()
            if command == "quit":
                raise GatheringStoppedError("stopped; all answers so far are kept")
            if command == "undo":
                self._take_back(pending, where, fragment_pairs)
            else:
                answer = Answer(choice=command, swapped=swaps[index])
                self._answers.record(pending.pop(0), answer)
        answers = dict(self._answers.items())
        return np.array([answers[digest].preference() for digest in digests], dtype=np.float32)

    def _take_back(
        self,
        pending: list[str],
        where: Mapping[str, int],
        fragment_pairs: Sequence[TrajectoryWithRewPair],
    ) -> None:
        """Moves the pair that was answered last to the front of `pending`."""
        latest = self._answers.latest(set(where))
        if latest is None:
            self._write("No pair of this round has an answer to undo.\n")
        elif not all(map(has_frames, fragment_pairs[where[latest]])):
            self._write("The pair answered last has no frames, so it cannot be shown again.\n")
        else:
            self._answers.record(latest, None)
            pending.insert(0, latest)

    def _display(self, pair: TrajectoryWithRewPair, digest: str, swapped: bool) -> None:
        name = digest[:_NAME_LENGTH]
        left, right = (self.video_dir / f"{name}-{side}.mp4" for side in ("left", "right"))
        shown = pair[::-1] if swapped else pair
        write_fragment_video(shown[0], left, self.video_fps)
        write_fragment_video(shown[1], right, self.video_fps)
        self._write(f"  left:  {left}\n  right: {right}\n")
        if self._show is not None:
            self._show(left, right)

    def _ask(self) -> _Command:
        while True:
            said = self._read()
            if said in _COMMANDS:
                return _COMMANDS[said]
            self._write(f"'{said}' is not an answer.\n")

    def _read(self) -> str:
        try:
            if self._input is None:
                line = input(_QUESTION)
            else:
                self._write(_QUESTION)
                line = self._input.readline()
                if not line:
                    raise EOFError
        except EOFError:
            raise GatheringStoppedError("the input ended; all answers so far are kept") from None
        return line.strip().lower()

    def _write(self, text: str) -> None:
        out = self._output if self._output is not None else sys.stdout
        out.write(text)
        out.flush()


def _check_frames(pair: TrajectoryWithRewPair, index: int) -> None:
    for side, fragment in enumerate(pair, start=1):
        if not has_frames(fragment):
            raise ValueError(
                f"fragment_pairs: fragment {side} of pair {index} has no frames to show; wrap the "
                "environment in imitbench.data.render_wrapper.RenderImageInfoWrapper and keep the "
                "infos of its trajectories"
            )
