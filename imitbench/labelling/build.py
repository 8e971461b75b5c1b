"""Makes a set to label: from policies that act, stored demonstrations, or pairs in a file."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from imitbench.algorithms.preference_comparisons.dataset import PreferenceDataset
from imitbench.algorithms.preference_comparisons.dataset_storage import pair_digest
from imitbench.bench.seeding import derive_seed
from imitbench.data.preference_table import read_preferences
from imitbench.data.trajectories import TrajectoryWithRew, with_rewards
from imitbench.errors import InputError
from imitbench.experts.video import check_rendering
from imitbench.labelling.clips import (
    FASTEST_FPS,
    TRACE_FPS,
    FragmentPainter,
    Frame,
    TraceScale,
    draw_trace,
    write_clip,
)
from imitbench.labelling.exchange import DATA_FILE
from imitbench.labelling.fragments import Actor, Fragment, act_out, of_demonstrations
from imitbench.labelling.label_set import (
    CLIPS_FOLDER,
    LONGEST_TEXT,
    MOST_PAIRS,
    Pair,
    SetHeader,
    check_texts,
    stored,
    write_set,
)
from imitbench.labelling.schedule import OBVIOUS_SHARE
from imitbench.records.runs import EnvironmentSpec
from imitbench.untrusted import gate
from imitbench.util.files import new_folder
from imitbench.util.text_line import one_line

DEFAULT_QUESTION = "Which clip shows better behavior?"
_ENCODERS = 2
_TAIL = 0.2  # obvious pairs compare fragments of the best fifth with those of the worst

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class SetRequest:
    """What a set is made from.

    Attributes:
        env: The environment; `None` if it is not known, for demonstrations and recorded pairs.
        actors: Policies that act; empty for the others.
        demos: Stored episodes; `None` for the others.
        recorded: File of pairs, see `_read_pairs`; `None` for the others.
        pairs: Number of ordinary pairs; not for recorded ones, of which all are taken.
        length: Steps of each fragment; not for recorded pairs.
        seed: Determines everything drawn.
        question: The question on the page.
        goal: Number of answers after which the page suggests a break.
    """

    env: EnvironmentSpec | None
    actors: Sequence[Actor] = ()
    demos: Path | None = None
    recorded: Path | None = None
    pairs: int = 40
    length: int = 50
    seed: int = 0
    question: str = DEFAULT_QUESTION
    goal: int = 20

    @property
    def source(self) -> str:
        """Origin of the fragments, in words."""
        if self.recorded is not None:
            return f"pairs of {self.recorded.resolve().name}"
        if self.demos is not None:
            return f"demonstrations {self.demos.resolve().name}"
        return "episodes of " + ", ".join(actor.name for actor in self.actors)


@dataclass(frozen=True)
class BuiltSet:
    """A new set.

    Attributes:
        header: What was written.
        unrendered: Reason why clips are traces; `None` if they show the environment.
    """

    header: SetHeader
    unrendered: str | None


def build_set(request: SetRequest, folder: Path, progress: Progress = lambda *_: None) -> BuiltSet:
    """Makes a set; the folder appears when it is complete.

    Args:
        request: What to make it from.
        folder: Folder to create.
        progress: Called with a step of the work, and how much of it is done and in total.

    Raises:
        InputError: The folder exists, the question or a number is out of range, episodes are too
            short or too few, there is nothing to tell apart, or an extra is missing.
    """
    if not 1 <= request.pairs <= MOST_PAIRS // 2:
        raise InputError(f"--pairs {request.pairs}: must be from 1 to {MOST_PAIRS // 2}")
    check_texts(request.question, request.goal)
    with new_folder(folder) as draft:
        source = _open(request)
        steps = _write_clips(source, draft / CLIPS_FOLDER, progress)
        if request.recorded is not None:  # each fragment at an even index with the next one
            chosen = [(first, first + 1) for first in range(0, len(steps), 2)]
            pairs = _with_obvious(steps, chosen, _pair_generator(request.seed))
        else:
            pairs = make_pairs(steps, request.pairs, request.seed)
        if not pairs:
            raise InputError(
                f"{request.source}: all fragments are equal, so that there is nothing to compare; "
                "name other policies or another seed"
            )
        header = SetHeader(
            version=1,
            env=None if request.env is None else request.env.id,
            source=one_line(request.source, LONGEST_TEXT),
            question=request.question,
            seed=request.seed,
            fps=source.fps,
            rendered=source.unrendered is None,
            goal=request.goal,
            fragments=len(steps),
            pairs=pairs,
        )
        write_set(draft, header, steps)
    return BuiltSet(header, source.unrendered)


@dataclass(frozen=True)
class _Source:
    """Fragments, drawn one by one: their frames take far more memory than their steps."""

    fragments: Iterable[Fragment]
    count: int
    fps: float
    unrendered: str | None


def _open(request: SetRequest) -> _Source:
    count = 2 * request.pairs
    if request.recorded is not None:
        return _recorded(request.recorded, request.env)
    if request.demos is not None:
        cut = of_demonstrations(
            request.demos, count=count, length=request.length, seed=request.seed
        )
        return _Source(cut, count, TRACE_FPS, "stored episodes have no frames")
    assert request.env is not None, "policies act in an environment"
    spec, fps, unrendered = request.env, TRACE_FPS, None
    try:
        rendered = check_rendering(request.env)
        spec, fps = rendered.spec, min(rendered.fps, FASTEST_FPS)
    except InputError as error:
        unrendered = str(error)
    found = act_out(
        spec,
        request.actors,
        count=count,
        length=request.length,
        seed=request.seed,
        render=unrendered is None,
    )
    return _Source(found, count, fps, unrendered)


def _recorded(path: Path, env: EnvironmentSpec | None) -> _Source:
    steps = [fragment for pair in _read_pairs(path) for fragment in pair]
    painter = FragmentPainter(env)
    if not painter.rendered:
        why = "its states cannot be rendered" if env else "add --env ID to render them"
        return _Source([Fragment(s, None) for s in steps], len(steps), painter.fps, why)

    def drawn() -> Iterator[Fragment]:
        try:
            yield from (Fragment(fragment, painter.frames(fragment)) for fragment in steps)
        finally:
            painter.close()

    return _Source(drawn(), len(steps), painter.fps, None)


def _write_clips(source: _Source, folder: Path, progress: Progress) -> list[TrajectoryWithRew]:
    """Writes the clip of each fragment as soon as it is drawn; returns the steps of each."""
    folder.mkdir()
    steps: list[TrajectoryWithRew] = []
    with _Encoders(folder, source, progress) as encoders:
        bare = []
        for number, fragment in enumerate(source.fragments):
            steps.append(stored(fragment.steps))
            if fragment.frames is None:
                bare.append(number)
            else:
                encoders.write(number, fragment.frames)
        scale = TraceScale(steps[number] for number in bare) if bare else None
        for number in bare:
            assert scale is not None, "there are fragments without frames"
            encoders.write(number, draw_trace(steps[number], scale))
    return steps


class _Encoders:
    """Encodes clips while the next ones are drawn; few wait at a time."""

    def __init__(self, folder: Path, source: _Source, progress: Progress) -> None:
        self._folder, self._source, self._progress = folder, source, progress
        self._pool = ThreadPoolExecutor(_ENCODERS)
        self._waiting: deque[Future[None]] = deque()
        self._done = 0

    def __enter__(self) -> _Encoders:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            while self._waiting and kind is None:
                self._finish_one()
        finally:
            self._pool.shutdown(cancel_futures=True)

    def write(self, number: int, frames: Sequence[Frame]) -> None:
        """Encodes a clip, perhaps later.

        Raises:
            InputError: An earlier clip cannot be encoded.
        """
        if len(self._waiting) > _ENCODERS:
            self._finish_one()
        path = self._folder / f"{number}.mp4"
        shown = [np.ascontiguousarray(frame) for frame in frames]
        self._waiting.append(self._pool.submit(write_clip, shown, path, self._source.fps))

    def _finish_one(self) -> None:
        self._waiting.popleft().result()
        self._done += 1
        self._progress("clips", self._done, self._source.count)


def make_pairs(fragments: Sequence[TrajectoryWithRew], count: int, seed: int) -> list[Pair]:
    """Pairs fragments at random, and adds obvious pairs of the best and the worst ones.

    Args:
        fragments: `2 * count` fragments or more; the further ones are not used.
        count: Number of ordinary pairs.
        seed: Determines the pairs.

    Returns:
        Ordinary pairs, then obvious ones: one for 20 ordinary pairs, at least one, and none if the
        rewards are unknown or do not tell the fragments apart.
    """
    rng = _pair_generator(seed)
    order = rng.permutation(2 * count)
    chosen = [(int(order[2 * i]), int(order[2 * i + 1])) for i in range(count)]
    return _with_obvious(fragments, chosen, rng)


def _pair_generator(seed: int) -> np.random.Generator:
    return np.random.default_rng([derive_seed(seed, "labelling"), 1])


def _with_obvious(
    fragments: Sequence[TrajectoryWithRew],
    chosen: Sequence[tuple[int, int]],
    rng: np.random.Generator,
) -> list[Pair]:
    """Returns the chosen pairs, equal ones once, and then obvious ones."""
    pairs: dict[str, Pair] = {}
    for first, second in chosen:
        pair = _pair(fragments, first, second, None)
        pairs.setdefault(pair.digest, pair)
    for better, worse in _obvious(fragments, rng, max(1, round(OBVIOUS_SHARE * len(chosen)))):
        first, second = (better, worse) if rng.integers(2) else (worse, better)
        pair = _pair(fragments, first, second, "first" if first == better else "second")
        pairs.setdefault(pair.digest, pair)
    return list(pairs.values())


def _pair(
    fragments: Sequence[TrajectoryWithRew], first: int, second: int, expected: str | None
) -> Pair:
    digest = pair_digest(fragments[first], fragments[second])
    return Pair.model_validate(
        {"digest": digest, "first": first, "second": second, "expected": expected}
    )


def _obvious(
    fragments: Sequence[TrajectoryWithRew], rng: np.random.Generator, count: int
) -> list[tuple[int, int]]:
    """Draws pairs of a much better and a much worse fragment, by the environment's reward."""
    returns: npt.NDArray[np.float64] = np.array([fragment.rews.sum() for fragment in fragments])
    if not np.isfinite(returns).all():
        return []
    tail = max(1, round(_TAIL * len(returns)))
    order = np.argsort(returns, kind="stable")
    worst, best = order[:tail], order[-tail:]
    spread = float(returns.std())
    drawn = []
    for _ in range(20 * count):
        better, worse = int(rng.choice(best)), int(rng.choice(worst))
        if returns[better] - returns[worse] > spread and (better, worse) not in drawn:
            drawn.append((better, worse))
        if len(drawn) == count:
            break
    return drawn


_RecordedPair = tuple[TrajectoryWithRew, TrajectoryWithRew]


def _read_pairs(path: Path) -> list[_RecordedPair]:
    """Reads pairs, with NaN as rewards where none were recorded; leaves out their preferences.

    The path is that of preferences in Parquet, or a folder of `imitbench label export`; or of a
    `PreferenceDataset` in safetensors.
    """
    file = path / DATA_FILE if path.is_dir() else path
    pairs = gate.checked(lambda: _pairs_in(file), file)
    if not 1 <= len(pairs) <= MOST_PAIRS // 2:
        raise InputError(f"{path}: has {len(pairs)} pairs; a set has 1 to {MOST_PAIRS // 2}")
    return pairs


def _pairs_in(file: Path) -> list[_RecordedPair]:
    if not file.is_file():
        raise InputError(
            f"{file}: no such file; name preferences in Parquet, as imitbench label export writes "
            "them, or a PreferenceDataset in safetensors"
        )
    if file.suffix == ".safetensors":
        dataset = PreferenceDataset.load(file)
        return list(zip(dataset.fragments1, dataset.fragments2, strict=True))
    return [(with_rewards(row.first), with_rewards(row.second)) for row in read_preferences(file)]
