"""Reads a folder with a file or a folder of plain arrays for each episode."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from imitbench.data.csv_source import open_csv
from imitbench.data.json_lines import JsonLinesSource
from imitbench.data.plain_arrays import ArraysSource, NpzReader, open_npy_folder
from imitbench.data.trajectories import Trajectory
from imitbench.data.trajectory_source import EpisodeSource
from imitbench.errors import InputError
from imitbench.untrusted.files import require_inside
from imitbench.util.text_line import one_line

_FILES = (".csv", ".jsonl", ".npz")


def is_array_folder(folder: Path) -> bool:
    """Whether a folder holds arrays as `.npy` files."""
    return (folder / "obs.npy").is_file() or (folder / "acts.npy").is_file()


def episode_paths(folder: Path) -> list[Path]:
    """Returns the episodes of a folder in natural order: 2 before 10; empty if there are none."""
    paths = [
        path
        for path in folder.iterdir()
        if not path.name.startswith(".")
        and (path.suffix in _FILES if path.is_file() else path.is_dir() and is_array_folder(path))
    ]
    return sorted(paths, key=lambda path: natural(path.name))


def natural(name: str) -> list[tuple[int, str]]:
    """Returns a sort key that puts `episode_10` after `episode_2`."""
    parts = re.split(r"(\d{1,18})", name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


class EpisodeFolder(EpisodeSource):
    """A folder with one file or folder per episode.

    Each is a `.csv`, `.npz` or `.jsonl` file or a folder of `.npy` files. Without `dones`, it is a
    single episode; its `obs` may then have one row more than its `acts`.

    Args:
        folder: The folder; entries that are none of these are not read.

    Raises:
        InputError: An episode is damaged or a link that leads out of the folder, or they are of
            several formats.
    """

    def __init__(self, folder: Path) -> None:
        self.where = str(folder)
        paths = episode_paths(folder)
        for path in paths:
            require_inside(path, folder)
        kinds = sorted({path.suffix if path.is_file() else "folder of .npy" for path in paths})
        if len(kinds) > 1:
            raise InputError(
                f"{folder}: holds episodes as {' and '.join(kinds)}: convert one format at a time"
            )
        self._files = [_open(path) for path in paths]
        self.form = f"{len(paths)} episodes, {self._files[0].form}"
        self.untyped = self._files[0].untyped
        others = sorted(p.name for p in folder.iterdir() if p not in paths)
        notes = dict.fromkeys(note for episode in self._files for note in episode.notes)
        if others:
            notes[f"not read: {one_line(', '.join(others), 120)}"] = None
        self.notes = tuple(notes)

    def __len__(self) -> int:
        """Number of trajectories."""
        return sum(map(len, self._files))

    def episodes(self, *, with_infos: bool) -> Iterator[Trajectory]:
        """See `EpisodeSource.episodes`."""
        for episode in self._files:
            yield from episode.episodes(with_infos=False)


def _open(path: Path) -> EpisodeSource:
    if path.is_dir():
        return open_npy_folder(path, single=True)
    if path.suffix == ".csv":
        return open_csv(path, single=True)
    if path.suffix == ".jsonl":
        return JsonLinesSource(path)
    return ArraysSource(NpzReader(path), where=str(path), form=".npz arrays", single=True)
