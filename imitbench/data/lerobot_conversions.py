"""Converts sets of LeRobot that do not record what a suite's environment shows.

A suite card names the conversion beside the repository (`imitbench.cards.demonstrations.HubDemos`).
A copy in the layout of this package is made once, in the user's cache.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from imitbench.data.conversion import convert_demonstrations
from imitbench.data.lerobot_source import LeRobotSource, lerobot_files
from imitbench.data.trajectories import Trajectory
from imitbench.data.trajectory_source import EpisodeSource
from imitbench.errors import InputError
from imitbench.untrusted import gate
from imitbench.util.files import digest_files, make_once, user_cache

Array = npt.NDArray[np.float64]

KEYPOINTS = np.array(
    [(-60, 0), (60, 0), (60, 30), (-60, 30), (-15, 30), (15, 30), (15, 120), (-15, 120)], float
)
"""Points of PushT's block in its own frame, in `gym-pusht`'s order and pixels, shape (8, 2)."""

_MOST_PIXELS_OFF = 0.5  # float32 in data sets rounds to less than 0.0001


def states_of_keypoints(recorded: npt.NDArray[Any]) -> Array:
    """Returns what `gym_pusht/PushT-v0` shows, from points of the block.

    The pose is the rotation and translation that fit the points best, by least squares (Umeyama
    1991, in the plane and without a scale).

    Args:
        recorded: Position of the agent, then the eight points, in pixels, shape (count, 18).

    Returns:
        Position of the agent, position and angle of the block, shape (count, 5).

    Raises:
        ValueError: The points are not those of the block.
    """
    points = recorded[:, 2:].reshape(-1, *KEYPOINTS.shape).astype(np.float64)
    center, own_center = points.mean(axis=1), KEYPOINTS.mean(axis=0)
    x, y = np.moveaxis(points - center[:, None], -1, 0)
    own_x, own_y = (KEYPOINTS - own_center).T
    angle = np.arctan2(y @ own_x - x @ own_y, x @ own_x + y @ own_y)
    turned = np.stack([np.cos(angle), np.sin(angle), -np.sin(angle), np.cos(angle)], axis=-1)
    axes = turned.reshape(-1, 2, 2)  # rows: where the block's own axes point
    block = center - own_center @ axes
    off = np.abs(block[:, None] + KEYPOINTS @ axes - points).max(axis=(1, 2))
    if not (off <= _MOST_PIXELS_OFF).all():
        raise ValueError(f"points are {off.max():.3g} pixels away from those of PushT's block")
    return np.column_stack([recorded[:, :2], block, angle % (2 * np.pi)])


@dataclass(frozen=True)
class _Rule:
    """How to convert a set.

    Attributes:
        recordings: Columns of the frames, in the order in which `observe` needs them.
        size: How many numbers these are.
        observe: Turns them into observations, row by row.
        version: Changes with the numbers that `observe` returns, and is part of digests.
    """

    recordings: tuple[str, ...]
    size: int
    observe: Callable[[npt.NDArray[Any]], Array]
    version: str = "1"


_RULES: Mapping[str, _Rule] = {
    "pusht_keypoints": _Rule(
        ("observation.state", "observation.environment_state"), 18, states_of_keypoints
    )
}


class ConvertedSource(EpisodeSource):
    """A set of LeRobot with the observations of an environment.

    Args:
        folder: Folder of the set.
        conversion: Name of how to convert it.

    Raises:
        InputError: The set is damaged, or records something else.
    """

    form = "LeRobot"

    def __init__(self, folder: Path, conversion: str) -> None:
        self.where = str(folder)
        self._conversion, self._rule = conversion, _RULES[conversion]
        self._source = LeRobotSource(folder, self._rule.recordings)
        self.notes = self._source.notes[1:]  # the first says what its observations are

    def __len__(self) -> int:
        """Number of trajectories."""
        return len(self._source)

    def episodes(self, *, with_infos: bool) -> Iterator[Trajectory]:
        """See `EpisodeSource.episodes`."""
        for number, episode in enumerate(self._source.episodes(with_infos=with_infos)):
            recorded = np.asarray(episode.obs)
            try:
                if recorded.shape[1] != self._rule.size:
                    raise ValueError(f"{recorded.shape[1]} numbers instead of {self._rule.size}")
                observed = self._rule.observe(recorded)
            except ValueError as error:
                raise InputError(
                    f"{self.where}, trajectory {number}: is no data for conversion "
                    f"{self._conversion} ({error}); check the repository on the suite's card"
                ) from error
            yield replace(episode, obs=observed)


@cache
def digest_of_conversion(folder: Path, conversion: str) -> str:
    """Returns the SHA-256 of a set's files and of how it is converted.

    It does not depend on the copy, whose bytes differ between versions of pyarrow.

    Args:
        folder: Folder of the set.
        conversion: Name of how to convert it.

    Raises:
        InputError: There are no files.
    """
    content = digest_files(folder, lerobot_files(folder))
    made = f"{conversion} {_RULES[conversion].version} {content}"
    return hashlib.sha256(made.encode()).hexdigest()


@cache
def converted_copy(folder: Path, conversion: str) -> Path:
    """Converts a set of LeRobot into the cache, unless it is there.

    Several processes may do so at the same time.

    Args:
        folder: Folder of the set.
        conversion: Name of how to convert it.

    Returns:
        The copy, in a folder named after the digest.

    Raises:
        InputError: The set is damaged, or records something else.
    """
    copy = user_cache() / "lerobot" / digest_of_conversion(folder, conversion)[:32]

    def convert() -> None:
        def read() -> object:
            return list(ConvertedSource(folder, conversion).chunks(with_infos=False))

        gate.try_reading(read, folder)
        convert_demonstrations(ConvertedSource(folder, conversion), copy)

    return make_once(copy, convert)
