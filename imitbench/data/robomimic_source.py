"""Reads HDF5 files of robomimic: one group per demonstration, `data/demo_0` and so on.

Each group has `actions`, a group `obs` with one array per sensor, and perhaps `next_obs` and
`rewards`. See robomimic's documentation, "Dataset structure". h5py is an optional extra.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from imitbench.data.episode_folder import natural
from imitbench.data.hdf5 import group_of, import_h5py, numbers_of, opened_hdf5
from imitbench.data.trajectories import Trajectory, trajectory_of
from imitbench.data.trajectory_source import (
    LAST_REPEATED,
    EpisodeSource,
    choice_note,
    choose_features,
)
from imitbench.errors import InputError
from imitbench.util.text_line import one_line

Array = npt.NDArray[Any]


class RobomimicSource(EpisodeSource):
    """An HDF5 file of robomimic.

    Args:
        path: The file.
        obs: Sensors whose numbers are the observation, in this order; empty for all of flat
            numbers, sorted by name.

    Raises:
        InputError: h5py is missing; or the file is damaged, or refers to other files.
    """

    form = "robomimic HDF5"

    def __init__(self, path: Path, obs: Sequence[str] = ()) -> None:
        self.where, self._path = str(path), path
        with opened_hdf5(self._path) as file:
            data = group_of(file, "data", self.where)
            self._demos = sorted(data, key=natural)
            if not self._demos:
                raise InputError(f"{path}: no demonstrations in group 'data': record some first")
            self.environment_id = _environment_id(data)
            first = group_of(data, self._demos[0], self.where)
            if "obs" not in first:
                raise InputError(
                    f"{path}, {self._demos[0]}: no group 'obs'; extract observations with "
                    "robomimic's dataset_states_to_obs.py"
                )
            sensors = group_of(first, "obs", self.where)
            sizes = {name: _flat_size(sensors, name) for name in sensors}
            self._sensors = choose_features(obs, sizes, where=self.where)
            self._has_next = "next_obs" in first
        self.notes = (choice_note(self._sensors, sizes),)
        if not self._has_next:
            self.notes += (f"without next_obs, {LAST_REPEATED}",)

    def __len__(self) -> int:
        """Number of trajectories."""
        return len(self._demos)

    def episodes(self, *, with_infos: bool) -> Iterator[Trajectory]:
        """See `EpisodeSource.episodes`."""
        with opened_hdf5(self._path) as file:
            for name in self._demos:
                where = f"{self.where}, {one_line(name, 40)}"
                demo = group_of(group_of(file, "data", where), name, where)
                acts = numbers_of(demo, "actions", where)
                obs = self._observations(demo, "obs", where)
                later = self._observations(demo, "next_obs", where) if self._has_next else obs
                if not len(acts) == len(obs) == len(later) or not len(acts):
                    raise InputError(
                        f"{where}: {len(obs)} observations and {len(later)} next ones for "
                        f"{len(acts)} actions: remove the demonstration"
                    )
                obs = np.concatenate([obs, later[-1:]])
                rewards = None
                if "rewards" in demo:
                    rewards = numbers_of(demo, "rewards", where).astype(np.float64)
                try:
                    trajectory = trajectory_of(obs, acts, True, rewards)
                except ValueError as error:
                    raise InputError(f"{where}: {error}: remove the demonstration") from error
                yield trajectory

    def _observations(self, demo: Any, part: str, where: str) -> Array:
        group = group_of(demo, part, where)
        parts = [numbers_of(group, name, where) for name in self._sensors]
        if len({len(values) for values in parts}) > 1:
            raise InputError(f"{where}: sensors of {part} differ in length: remove it")
        return np.column_stack(parts)


def _flat_size(sensors: Any, name: str) -> int | None:
    """Returns numbers per step; `None` for images, texts, groups and links."""
    if not isinstance(sensors.get(name, getlink=True), import_h5py().HardLink):
        return None
    sensor = sensors[name]
    kind = getattr(getattr(sensor, "dtype", None), "kind", "")
    if kind not in ("f", "i", "u", "b") or sensor.ndim not in (1, 2):
        return None
    return 1 if sensor.ndim == 1 else int(sensor.shape[1])


def _environment_id(data: Any) -> str | None:
    try:
        name = json.loads(data.attrs["env_args"])["env_name"]
    except (LookupError, ValueError, TypeError, RecursionError):
        return None
    return one_line(name, 80) if isinstance(name, str) else None
