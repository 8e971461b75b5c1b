"""Opens HDF5 files: of robomimic, or with plain arrays as D4RL and d3rlpy write them.

D4RL's files, and those of d3rlpy's version 1, have `observations`, `actions`, `rewards`,
`terminals` and perhaps `timeouts` or `episode_terminals`, with one row per step: see
`imitbench.data.plain_arrays`. Those of d3rlpy's version 2 have arrays for each episode,
`observations_0`, `actions_0` and so on. h5py is an optional extra.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from imitbench.data.hdf5 import array_of, numbers_of, opened_hdf5
from imitbench.data.plain_arrays import ArraysSource, stored_names
from imitbench.data.robomimic_source import RobomimicSource
from imitbench.data.trajectories import Trajectory, trajectory_of
from imitbench.data.trajectory_source import LAST_REPEATED, EpisodeSource
from imitbench.errors import InputError
from imitbench.untrusted.arrays import check_shape
from imitbench.util.text_line import one_line

Array = npt.NDArray[Any]


def open_hdf5(
    path: Path, obs: Sequence[str], rename: Mapping[str, str]
) -> RobomimicSource | ArraysSource | NumberedArraysSource:
    """Opens an HDF5 file by what it holds.

    Args:
        path: The file.
        obs: See `RobomimicSource`.
        rename: See `stored_names`.

    Raises:
        InputError: h5py is missing; or the file is damaged, has none of the layouts, or refers to
            other files.
    """
    with opened_hdf5(path) as file:
        names = sorted(file)
    if "data" in names and not rename:
        return RobomimicSource(path, obs)
    if "actions_0" in names:
        return NumberedArraysSource(path)
    if not {"obs", "acts"} & set(stored_names(names, rename, str(path))):
        held = one_line(", ".join(names), 80) or "nothing"
        raise InputError(
            f"{path}: holds {held} and no group 'data', so it is not of robomimic, and no "
            "observations and actions, so it is not of D4RL or d3rlpy; name them with --rename "
            "NAME=obs; for a Minari data set, pass minari:NAME"
        )
    return ArraysSource(Hdf5Reader(path, rename), where=str(path), form="HDF5 arrays")


class Hdf5Reader:
    """The arrays of an HDF5 file, as `imitbench.data.plain_arrays.Reader`.

    Args:
        path: The file.
        rename: See `stored_names`.

    Raises:
        InputError: The file is damaged, or an array is a link or does not hold numbers.
    """

    def __init__(self, path: Path, rename: Mapping[str, str]) -> None:
        self._path, self._where = path, str(path)
        with opened_hdf5(path) as file:
            self._stored = stored_names(sorted(file), rename, self._where)
            self.others: Sequence[str] = sorted(set(file) - set(self._stored.values()))
            self.shapes: dict[str, tuple[int, ...]] = {
                name: check_shape(array_of(file, stored, self._where).shape, rows=True)
                for name, stored in self._stored.items()
            }

    @contextmanager
    def opened(self) -> Iterator[Mapping[str, _Column]]:
        """Opens the arrays at their first rows."""
        with opened_hdf5(self._path) as file:
            yield {
                name: _Column(array_of(file, stored, self._where))
                for name, stored in self._stored.items()
            }


class _Column:
    def __init__(self, values: Any) -> None:
        self._values, self._position = values, 0

    def take(self, count: int) -> Array:
        """Returns the next `count` rows."""
        self._position += count
        return np.asarray(self._values[self._position - count : self._position])


class NumberedArraysSource(EpisodeSource):
    """An HDF5 file of d3rlpy's version 2, with arrays for each episode; all count as whole ones.

    Args:
        path: The file.

    Raises:
        InputError: The file is damaged.
    """

    form = "d3rlpy HDF5"
    notes = (LAST_REPEATED,)

    def __init__(self, path: Path) -> None:
        self.where, self._path = str(path), path
        with opened_hdf5(path) as file:
            numbers = (re.fullmatch(r"actions_(\d{1,9})", name) for name in file)
            self._numbers = sorted(int(found[1]) for found in numbers if found)
            self._has_rewards = any(f"rewards_{number}" in file for number in self._numbers)

    def __len__(self) -> int:
        """Number of trajectories."""
        return len(self._numbers)

    def episodes(self, *, with_infos: bool) -> Iterator[Trajectory]:
        """See `EpisodeSource.episodes`."""
        with opened_hdf5(self._path) as file:
            for number in self._numbers:
                where = f"{self.where}, episode {number}"
                obs = numbers_of(file, f"observations_{number}", where)
                acts = numbers_of(file, f"actions_{number}", where)
                if len(obs) != len(acts) or not len(acts):
                    raise InputError(
                        f"{where}: {len(obs)} observations for {len(acts)} actions: remove the "
                        "episode"
                    )
                rewards = None
                if self._has_rewards:
                    if f"rewards_{number}" not in file:
                        raise InputError(
                            f"{where}: has no rewards, but other episodes have: remove either"
                        )
                    given = numbers_of(file, f"rewards_{number}", where)
                    rewards = given.reshape(-1).astype(np.float64)
                try:
                    yield trajectory_of(np.concatenate([obs, obs[-1:]]), acts, True, rewards)
                except ValueError as error:
                    raise InputError(f"{where}: {error}: remove the episode") from error
