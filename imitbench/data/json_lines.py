"""Reads and writes demonstrations as JSON lines, one episode per line.

A line is `{"obs": […], "acts": […], "rewards": […], "terminal": true}`. There is one observation
more than actions, `rewards` is optional, and `terminal` says whether the episode ended there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from imitbench.data.arrow_table import TableRow
from imitbench.data.trajectories import Trajectory
from imitbench.data.trajectory_source import EpisodeSource
from imitbench.errors import InputError, did_you_mean
from imitbench.untrusted.files import open_ordinary
from imitbench.util.text_line import one_line

_NEEDED = ("obs", "acts")
_KEYS = (*_NEEDED, "rewards", "terminal")


class JsonLinesSource(EpisodeSource):
    """A file with one episode per line.

    Args:
        path: A text file in UTF-8.

    Raises:
        InputError: The file is empty or cannot be read.
    """

    form = "JSON lines"
    untyped = True

    def __init__(self, path: Path) -> None:
        self.where, self._path = str(path), path
        self._count = sum(1 for _ in self._lines())
        if not self._count:
            raise InputError(f"{path}: is empty: write one episode per line")

    def __len__(self) -> int:
        """Number of trajectories."""
        return self._count

    def episodes(self, *, with_infos: bool) -> Iterator[Trajectory]:
        """See `EpisodeSource.episodes`."""
        for number, (line, text) in enumerate(self._lines()):
            row = _read(text, f"{self.where}, line {line}")
            yield row.trajectory(infos=None, where=self.where, number=number)

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        try:
            with open_ordinary(self._path) as stream:
                for number, text in enumerate(stream, start=1):
                    if text.strip():
                        yield number, text
        except OSError as error:
            raise InputError(f"{self._path}: cannot be read ({error.strerror})") from error


def json_line(row: TableRow) -> str:
    """Returns the line of one episode, with all digits of its numbers.

    Raises:
        InputError: A number is not finite, which JSON cannot hold.
    """
    document: dict[str, Any] = {"obs": row.obs.tolist(), "acts": row.acts.tolist()}
    if row.rews is not None:
        document["rewards"] = row.rews.tolist()
    document["terminal"] = bool(row.terminal)
    try:
        return json.dumps(document, allow_nan=False, separators=(",", ":")) + "\n"
    except ValueError as error:
        raise InputError("a number is not finite, which JSON cannot hold") from error


def _read(text: bytes, where: str) -> TableRow:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: is not JSON ({one_line(error, 80)}): write it again") from error
    if not isinstance(document, dict):
        raise InputError(f"{where}: is not an object with obs and acts: write one per episode")
    for name in document:
        if name not in _KEYS:
            raise InputError(
                f"{where}: unknown key '{one_line(name, 40)}'; {did_you_mean(name, _KEYS)}"
            )
    missing = [name for name in _NEEDED if name not in document]
    if missing:
        raise InputError(f"{where}: no {' and no '.join(missing)}: write both")
    terminal = document.get("terminal", True)
    if not isinstance(terminal, bool):
        raise InputError(f"{where}: terminal is {one_line(terminal, 40)}: write true or false")
    rewards = document.get("rewards")
    return TableRow(
        _array(document["obs"], "obs", where),
        _array(document["acts"], "acts", where),
        terminal,
        None if rewards is None else _array(rewards, "rewards", where).astype(np.float64),
    )


def _array(values: Any, name: str, where: str) -> npt.NDArray[Any]:
    try:
        array = np.array(values if isinstance(values, list) else None)
    except (ValueError, OverflowError):  # ragged lists, numbers beyond 64 bits
        array = np.empty(0, object)
    if array.dtype.kind not in "fib":  # unsigned ones are beyond int64
        raise InputError(f"{where}: {name} is not a list of numbers or of equally long lists")
    return array.astype(np.int64) if array.dtype.kind in "ib" else array
