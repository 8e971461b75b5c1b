"""Reads plain arrays with one row per step, as scripts and robots record them.

`obs`, `acts` and `dones` have one row per step; `dones` is true at the last step of each episode.
`rewards` and `next_obs` are optional. They are the arrays of an `.npz` archive, or `.npy` files of
these names in a folder; `imitbench.data.csv_source` reads the same names as columns of a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from imitbench.data.npz_source import NpzMember, opened_npz
from imitbench.data.trajectories import Trajectory, trajectory_of
from imitbench.data.trajectory_source import LAST_REPEATED, EpisodeSource
from imitbench.errors import InputError, did_you_mean
from imitbench.untrusted.arrays import check_shape
from imitbench.untrusted.files import require_ordinary
from imitbench.util.parse_errors import DAMAGED_NPZ
from imitbench.util.text_line import one_line

Array = npt.NDArray[Any]

NAMES = ("obs", "acts", "dones", "rewards", "next_obs", "episode", "timeouts")
"""Names of the arrays. `episode` numbers the episodes, and `timeouts` is true where a time limit
ended one: both in place of `dones` or in addition."""

OTHER_NAMES = {
    "observations": "obs",
    "actions": "acts",
    "terminals": "dones",
    "next_observations": "next_obs",
    "episode_terminals": "timeouts",
}
"""Names that D4RL and d3rlpy use."""

LAYOUT = (
    "obs, acts and dones of one row per step, dones true at the end of an episode; optional "
    "rewards, next_obs, episode, timeouts; --rename NAME=obs for another name"
)
"""The arrays, for messages."""


def stored_names(found: Sequence[str], rename: Mapping[str, str], where: str) -> dict[str, str]:
    """Returns the name under which a file has each of `NAMES`, where it has one.

    Args:
        found: Names of the arrays in the file.
        rename: The user's own choices: names of `NAMES` by names in the file.
        where: Name of the file in messages.

    Raises:
        InputError: A choice is not possible.
    """
    for name, wanted in rename.items():
        typed = one_line(f"--rename {name}={wanted}", 80)
        if name not in found:
            raise InputError(f"{typed}: no array '{name}' in {where}; {did_you_mean(name, found)}")
        if wanted not in NAMES:
            raise InputError(f"{typed}: no such name; {did_you_mean(wanted, NAMES)}")
    own = {name: name for name in NAMES if name in found and name not in rename}
    others = {ours: theirs for theirs, ours in OTHER_NAMES.items() if theirs in found}
    chosen = others | own | {wanted: name for name, wanted in rename.items()}
    return {name: chosen[name] for name in NAMES if name in chosen}


NO_CHOICES: Mapping[str, str] = {}


class ArrayColumn(Protocol):
    """An array that is read in order."""

    def take(self, count: int) -> Array:
        """Returns the next `count` rows."""


class Reader(Protocol):
    """The arrays of a data set."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Shape of each array, by its name in `NAMES`."""

    @property
    def others(self) -> Sequence[str]:
        """Names of arrays that are not read."""

    def opened(self) -> AbstractContextManager[Mapping[str, ArrayColumn]]:
        """Opens the arrays at their first rows."""


class MemoryColumn:
    """An array in memory, or mapped into it, that is read in order."""

    def __init__(self, values: Array) -> None:
        self._values, self._position = values, 0

    def take(self, count: int) -> Array:
        """Returns a copy of the next `count` rows."""
        self._position += count
        return np.array(self._values[self._position - count : self._position])


class MemoryReader:
    """Arrays in memory.

    Args:
        arrays: Arrays by name, at least 1-D.
        others: Names of arrays that are not read.

    Attributes:
        shapes: Shape of each array.
    """

    def __init__(self, arrays: Mapping[str, Array], others: Sequence[str] = ()) -> None:
        self._arrays, self.others = arrays, others
        self.shapes = {name: values.shape for name, values in arrays.items()}

    @contextmanager
    def opened(self) -> Iterator[Mapping[str, MemoryColumn]]:
        """Opens the arrays at their first rows."""
        yield {name: MemoryColumn(values) for name, values in self._arrays.items()}


class NpzReader:
    """The arrays of an `.npz` archive, as `MemoryReader`; others than `NAMES` are not read.

    Args:
        path: The archive.
        rename: See `stored_names`.

    Raises:
        InputError: The archive is damaged.
    """

    def __init__(self, path: Path, rename: Mapping[str, str] = NO_CHOICES) -> None:
        self._path = path
        with opened_npz(path) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
            if not names:
                raise ValueError("no arrays in it")
            self._stored = stored_names(names, rename, str(path))
            self.others: Sequence[str] = sorted(set(names) - set(self._stored.values()))
            self.shapes = {
                name: NpzMember(archive, stored).shape for name, stored in self._stored.items()
            }

    @contextmanager
    def opened(self) -> Iterator[Mapping[str, NpzMember]]:
        """Opens the arrays at their first rows."""
        with opened_npz(self._path) as archive:
            yield {name: NpzMember(archive, stored) for name, stored in self._stored.items()}


def open_npy_folder(folder: Path, *, single: bool = False) -> ArraysSource:
    """Opens `.npy` files of the names `NAMES` in a folder, without reading them into memory.

    Args:
        folder: The folder.
        single: See `ArraysSource`.

    Raises:
        InputError: A file is damaged, or does not hold numbers; or see `ArraysSource`.
    """
    arrays = {}
    for name in NAMES:
        file = folder / f"{name}.npy"
        if not file.is_file():
            continue
        try:
            require_ordinary(file, inside=folder)
            values = np.load(file, mmap_mode="r", allow_pickle=False)
            check_shape(values.shape, rows=True)
        except (*DAMAGED_NPZ, OverflowError) as error:
            raise InputError(
                f"{file}: not a readable .npy file of numbers ({one_line(error, 120)}): write it "
                "with numpy.save"
            ) from error
        if values.dtype.kind not in "fiub" or not values.ndim:
            raise InputError(
                f"{file}: holds {one_line(values.dtype)} of shape {values.shape}, not numbers of "
                "one row per step"
            )
        arrays[name] = values
    return ArraysSource(MemoryReader(arrays), where=str(folder), form=".npy arrays", single=single)


_ENDS = {"dones", "episode", "timeouts"}  # any of them says where episodes end


class ArraysSource(EpisodeSource):
    """Plain arrays of one row per step.

    Without `next_obs`, the observation after the last step of an episode is unknown; the last
    known one is repeated in its place, which a note says.

    Args:
        reader: The arrays.
        where: Name of the data set in messages.
        form: Name of the format.
        single: Whether the arrays are a single episode if they do not say where episodes end;
            `obs` may then have one row more than `acts`.
        untyped: See `TrajectorySource`.

    Raises:
        InputError: An array is missing, or their numbers of rows differ.
    """

    def __init__(
        self,
        reader: Reader,
        *,
        where: str,
        form: str,
        single: bool = False,
        untyped: bool = False,
    ) -> None:
        self.where, self.form, self.untyped = where, form, untyped
        self._reader = reader
        self._check_names(single)
        steps = reader.shapes["acts"][0]
        ends = _ENDS & set(reader.shapes)
        self._has_last = not ends and reader.shapes["obs"][0] == steps + 1
        self._check_rows(steps)
        self._ends, self._terminal = self._cut(steps)
        self.notes = self._remarks()

    def __len__(self) -> int:
        """Number of trajectories."""
        return len(self._ends)

    def episodes(self, *, with_infos: bool) -> Iterator[Trajectory]:
        """See `EpisodeSource.episodes`."""
        start = 0
        with self._reader.opened() as columns:
            for end, terminal in zip(self._ends, self._terminal, strict=True):
                length, start = int(end) - start, int(end)
                obs = columns["obs"].take(length + self._has_last)
                if not self._has_last:
                    later = columns["next_obs"].take(length) if "next_obs" in columns else obs
                    obs = np.concatenate([obs, later[-1:]])
                acts = columns["acts"].take(length)
                rewards = None
                if "rewards" in columns:
                    rewards = columns["rewards"].take(length).reshape(-1).astype(np.float64)
                yield trajectory_of(obs, acts, bool(terminal), rewards)

    def _check_names(self, single: bool) -> None:
        found = self._reader.shapes
        missing = [name for name in ("obs", "acts") if name not in found]
        if not single and not _ENDS & set(found):
            missing.append("dones")
        if missing:
            names = [*found, *self._reader.others]
            near = did_you_mean(missing[0], names).partition("? ")
            hint = f"{near[0]}? " if near[1] else ""
            raise InputError(
                f"{self.where}: no {' and no '.join(missing)} among "
                f"{one_line(', '.join(names), 120) or 'nothing'}; {hint}needed are {LAYOUT}"
            )

    def _check_rows(self, steps: int) -> None:
        for name, shape in self._reader.shapes.items():
            due = steps + (self._has_last and name == "obs")
            if shape[0] != due:
                raise InputError(
                    f"{self.where}: {name} has {shape[0]} rows and acts {steps}: store one row of "
                    "each per step"
                )
            if name in (*_ENDS, "rewards") and shape[1:] not in ((), (1,)):
                raise InputError(
                    f"{self.where}: {name} has shape {shape}: store one number per step"
                )
        shapes = self._reader.shapes
        if "next_obs" in shapes and shapes["next_obs"] != shapes["obs"]:
            raise InputError(
                f"{self.where}: next_obs has shape {shapes['next_obs']} and obs {shapes['obs']}: "
                "store the same kind of observation in both"
            )
        if not steps:
            raise InputError(f"{self.where}: has no steps: record some first")

    def _cut(self, steps: int) -> tuple[Array, Array]:
        """Returns where episodes end, and whether each is marked as a whole one."""
        with self._reader.opened() as columns:
            number, *marks = (
                columns[name].take(steps).reshape(-1) if name in columns else None
                for name in ("episode", "dones", "timeouts")
            )
        last = np.zeros(steps, bool)
        last[-1] = True
        if number is not None:
            last[:-1] |= number[1:] != number[:-1]
        done = np.zeros(steps, bool)
        for name, values in zip(("dones", "timeouts"), marks, strict=True):
            if values is None:
                continue
            odd = np.flatnonzero(~np.isin(values, (0, 1)))
            if len(odd):
                raise InputError(
                    f"{self.where}: {name} is {values[odd[0]]} at step {odd[0]}: it must be 1 at "
                    "the last step of each episode and 0 elsewhere"
                )
            done |= values.astype(bool)
        if all(values is None for values in marks):
            return np.flatnonzero(last) + 1, np.ones(int(last.sum()), bool)
        last |= done
        return np.flatnonzero(last) + 1, done[last]

    def _remarks(self) -> tuple[str, ...]:
        remarks = []
        if not self._has_last and "next_obs" not in self._reader.shapes:
            remarks.append(f"without next_obs, {LAST_REPEATED}")
        if self._reader.others:
            remarks.append(f"not read: {one_line(', '.join(self._reader.others), 120)}")
        return tuple(remarks)
