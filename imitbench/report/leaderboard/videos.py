"""Chooses videos for the pages of methods: of the run with the median score, and of the worst."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from imitbench.errors import InputError
from imitbench.report.leaderboard.model import Board, BoardRun, OnBoard, methods

FOLDER = "videos"
MOST_BYTES = 2 * 2**20
"""Size of the largest video that a site includes."""

_RUN_ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{12}(?![0-9a-f])")
_MARK = b"ftyp"  # at the start of every MP4 file, after four bytes


@dataclass(frozen=True)
class Video:
    """A video of one run.

    Attributes:
        file: Where it is now.
        run: The run.
        which: Why it is shown: `median` or `worst`.
    """

    file: Path
    run: BoardRun
    which: str

    @property
    def site_path(self) -> str:
        """Its path in the site."""
        return f"{FOLDER}/{self.run.run.spec.run_id}.mp4"


@dataclass(frozen=True)
class Videos:
    """Videos of a site.

    Attributes:
        shown: By the id of the run's row.
        notes: What was left out, and why.
    """

    shown: Mapping[str, Video] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def of(self, entry: OnBoard) -> list[Video]:
        """Returns the videos of a row, by environment, the median before the worst."""
        found = (self.shown.get(run.row.run_id) for run in entry.row.runs)
        return sorted(
            (video for video in found if video is not None),
            key=lambda video: (video.run.row.env, video.which),
        )


def choose_videos(board: Board, folder: Path) -> Videos:
    """Chooses the videos of a folder that the site shows.

    Of each method on each environment of a table, these are the run with the median score (the
    lower one of two) and that with the lowest. Videos of other runs are not shown.

    Args:
        board: The whole leaderboard.
        folder: Folder with MP4 files, at any depth, whose names, or those of their folders, have
            the ids of their runs.

    Raises:
        InputError: There is no such folder, or it has no video of these runs.
    """
    if not folder.is_dir():
        raise InputError(f"--videos {folder}: no such folder; check the path")
    files, notes = _files(folder)
    wanted = [pair for rows in methods(board).values() for row in rows for pair in _wanted(row)]
    shown = {
        run.row.run_id: Video(files[run.run.spec.run_id], run, which)
        for which, run in wanted
        if run.run.spec.run_id in files
    }
    if not shown:
        example = f", such as {wanted[0][1].run.spec.run_id}.mp4" if wanted else ""
        raise InputError(
            f"--videos {folder}: has no video of a median or worst run{example}; `imitbench eval "
            "RUN --video FOLDER/RUN_ID.mp4` records one"
        )
    needed = len({run.row.run_id for _, run in wanted})  # a run may be both, and in several tables
    missing = needed - len(shown)
    notes += [f"{folder}: {missing} of {needed} videos are missing"] * bool(missing)
    return Videos(shown, tuple(notes))


def _wanted(entry: OnBoard) -> Iterator[tuple[str, BoardRun]]:
    runs: dict[str, list[BoardRun]] = defaultdict(list)
    for run in entry.row.runs:
        runs[run.row.env].append(run)
    for own in runs.values():
        ordered = sorted(own, key=lambda run: (run.row.score, run.row.run_id))
        yield "worst", ordered[0]
        # A single run is the median.
        yield "median", ordered[(len(ordered) - 1) // 2]


def _files(folder: Path) -> tuple[dict[str, Path], list[str]]:
    """Returns files by run, and notes on files that cannot be included."""
    found, notes = {}, []
    for path in sorted(folder.rglob("*.mp4")):
        names = _RUN_ID.findall(path.stem) or _RUN_ID.findall(path.parent.name)
        if not names:
            continue
        try:
            reason = _unfit(path)
        except OSError as error:
            reason = f"cannot be read ({error.strerror})"
        if reason:
            notes.append(f"left out: {path}: {reason}")
        else:
            found[names[-1]] = path
    return found, notes


def _unfit(path: Path) -> str | None:
    if path.is_symlink() or not path.is_file():
        return "is not a file"
    if (size := path.stat().st_size) > MOST_BYTES:
        return f"has {size:,} bytes; at most {MOST_BYTES:,} are included, so make it shorter"
    with path.open("rb") as stream:
        return None if stream.read(8)[4:] == _MARK else "is not an MP4 file"
