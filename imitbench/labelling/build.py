"""Makes a set to label: from policies that act, stored demonstrations, or pairs in a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from imitbench.errors import InputError
from imitbench.experts.video import check_rendering
from imitbench.labelling.clips import TraceScale, draw_trace, write_clip
from imitbench.labelling.fragments import Actor, Fragment, act_out, of_demonstrations
from imitbench.labelling.label_set import CLIPS_FOLDER, MOST_PAIRS, SetHeader, stored, write_set
from imitbench.labelling.pair_files import read_pairs
from imitbench.labelling.pairing import make_pairs, recorded_pairs
from imitbench.labelling.posing import FragmentPainter
from imitbench.records.runs import EnvironmentSpec
from imitbench.util.files import new_folder

DEFAULT_QUESTION = "Which clip shows better behavior?"
_TRACE_FPS, _FASTEST_FPS = 20.0, 30.0

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class SetRequest:
    """What a set is made from.

    Attributes:
        env: The environment; `None` if it is not known, for demonstrations and recorded pairs.
        actors: Policies that act; empty for the others.
        demos: Stored episodes; `None` for the others.
        recorded: File of pairs, see `read_pairs`; `None` for the others.
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
        return "episodes of " + ", ".join(actor.label for actor in self.actors)


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
        InputError: The folder exists, episodes are too short or too few, there is nothing to tell
            apart, or an extra is missing.
    """
    if not 1 <= request.pairs <= MOST_PAIRS // 2:
        raise InputError(f"--pairs {request.pairs}: must be from 1 to {MOST_PAIRS // 2}")
    with new_folder(folder) as draft:
        fragments, fps, unrendered = _fragments(request, progress)
        steps = [stored(fragment.steps) for fragment in fragments]
        if request.recorded is not None:
            pairs = recorded_pairs(steps, request.seed)
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
            source=request.source,
            question=request.question,
            seed=request.seed,
            fps=fps,
            rendered=unrendered is None,
            goal=request.goal,
            fragments=len(steps),
            pairs=pairs,
        )
        _write_clips(fragments, draft / CLIPS_FOLDER, fps, progress)
        write_set(draft, header, steps)
    return BuiltSet(header, unrendered)


def _fragments(request: SetRequest, progress: Progress) -> tuple[list[Fragment], float, str | None]:
    count = 2 * request.pairs
    if request.recorded is not None:
        return _recorded(request.recorded, request.env)
    if request.demos is not None:
        found = of_demonstrations(
            request.demos, count=count, length=request.length, seed=request.seed
        )
        return found, _TRACE_FPS, "stored episodes have no frames"
    assert request.env is not None, "policies act in an environment"
    spec, fps, unrendered = request.env, _TRACE_FPS, None
    try:
        rendered = check_rendering(request.env)
        spec, fps = rendered.spec, min(rendered.fps, _FASTEST_FPS)
    except InputError as error:
        unrendered = str(error)
    found = act_out(
        spec,
        request.actors,
        count=count,
        length=request.length,
        seed=request.seed,
        render=unrendered is None,
        progress=lambda done, total: progress("fragments", done, total),
    )
    return found, fps, unrendered


def _recorded(place: Path, env: EnvironmentSpec | None) -> tuple[list[Fragment], float, str | None]:
    steps = [fragment for pair in read_pairs(place) for fragment in pair]
    painter = FragmentPainter(env)
    try:
        if not painter.rendered:
            why = "its states cannot be rendered" if env else "add --env ID to render them"
            return [Fragment(each, None) for each in steps], painter.fps, why
        return [Fragment(each, painter.frames(each)) for each in steps], painter.fps, None
    finally:
        painter.close()


def _write_clips(
    fragments: Sequence[Fragment], folder: Path, fps: float, progress: Progress
) -> None:
    folder.mkdir()
    scale = (
        TraceScale(fragment.steps for fragment in fragments if fragment.frames is None)
        if any(fragment.frames is None for fragment in fragments)
        else None
    )
    for number, fragment in enumerate(fragments):
        frames = fragment.frames
        if frames is None:
            assert scale is not None, "there are fragments without frames"
            frames = draw_trace(fragment.steps, scale)
        write_clip([np.ascontiguousarray(f) for f in frames], folder / f"{number}.mp4", fps)
        progress("clips", number + 1, len(fragments))
