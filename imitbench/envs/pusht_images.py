"""Demonstrations of PushT as images, drawn from recorded states.

Images of a data set of this task take hundreds of megabytes, its states two hundred kilobytes. The
environment's picture follows from the state, so that it can be drawn again, pixel by pixel, by
`gym-pusht` (extra `pusht`) itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from imitbench.cards.catalog import suite_directory
from imitbench.data.demonstrations import read_demonstrations
from imitbench.data.trajectories import TrajectoryWithRew
from imitbench.errors import InputError
from imitbench.util.extras import import_extra

if TYPE_CHECKING:
    from gym_pusht.envs.pusht import PushTEnv

ENV_ID = "gym_pusht/PushT-v0"
SIZE = 96
"""Height and width of an image, as in the published data sets."""

_SETS = {"images": ("pusht", "scripted-gym_pusht-PushT-v0")}
"""Suite and folder of the states of each set."""

_VERSION = "1"  # of the drawing, part of the digest of demonstrations
_STATE = 5  # position of the agent, position and angle of the block
_INSTANT = 1e-9  # seconds; enough for the simulator to see which bodies touch


@dataclass(frozen=True)
class DrawnStates:
    """A set of demonstrations that is drawn from states.

    Attributes:
        states: Folder of demonstrations whose observations are states.
        digest: SHA-256 of their files, and of the version of the drawing.
    """

    states: Path
    digest: str

    @property
    def demonstrations(self) -> list[TrajectoryWithRew]:
        """The demonstrations with images as observations.

        Raises:
            InputError: The extra `pusht` is missing, or the observations are no states.
        """
        found = read_demonstrations(self.states)
        with _drawing() as env:
            return [replace(episode, obs=draw(env, np.asarray(episode.obs))) for episode in found]


@cache
def drawn_states(name: str) -> DrawnStates:
    """Returns a set by its name; nothing is drawn yet.

    Raises:
        InputError: There is no such set, or its states are missing.
    """
    if name not in _SETS:
        raise InputError(f"demonstrations pusht:{name}: there is only {', '.join(_SETS)}")
    suite, repo = _SETS[name]
    folder = suite_directory(suite) / "demos" / repo
    files = sorted(folder.glob("data/*.parquet"))
    if not files:
        raise InputError(f"{folder}: no file data/*.parquet in it; install imitbench again")
    digest = hashlib.sha256(f"{_VERSION} {SIZE}".encode())
    for file in files:
        digest.update(file.read_bytes())
    return DrawnStates(folder, digest.hexdigest())


def draw(env: PushTEnv, states: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Draws states.

    Args:
        env: Environment whose observations are images.
        states: Shape (count, 5): position of the agent, position and angle of the block.

    Returns:
        What the environment shows in these states, shape (count, height, width, 3).

    Raises:
        InputError: The states have another shape.
    """
    if states.ndim != 2 or states.shape[1] != _STATE:
        raise InputError(
            f"states of PushT have {_STATE} numbers; these have shape {list(states.shape)}"
        )
    images = np.empty((len(states), *env.observation_space.shape), np.uint8)
    for image, state in zip(images, states.astype(np.float64), strict=True):
        _place(env, state)
        image[:] = env.get_obs()
    return images


def _place(env: PushTEnv, state: npt.NDArray[np.float64]) -> None:
    """Moves the bodies to where a state has them."""
    for body in (env.agent, env.block):
        body.velocity, body.angular_velocity = (0, 0), 0.0
    env.agent.position = state[:2].tolist()
    env.block.angle = float(state[4])  # first: it turns the block around its center of gravity
    env.block.position = state[2:4].tolist()
    env.space.step(_INSTANT)  # places where bodies touch are drawn, too


@contextmanager
def _drawing() -> Iterator[PushTEnv]:
    import_extra("gym_pusht", "pusht", "drawing demonstrations of PushT")
    env = gym.make(ENV_ID, obs_type="pixels", observation_width=SIZE, observation_height=SIZE)
    env.reset(seed=0)
    try:
        yield env.unwrapped
    finally:
        env.close()
