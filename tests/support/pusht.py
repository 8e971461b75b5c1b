"""Demonstrations of PushT as LeRobot publishes them: points of the block in place of its pose."""

from dataclasses import replace

import numpy as np

from imitbench.cards.catalog import suite_directory
from imitbench.data.demonstrations import read_demonstrations
from imitbench.data.lerobot_conversions import KEYPOINTS
from support.plain_sets import write_lerobot

KEYPOINTS_REPO = "lerobot/pusht_keypoints"
_RECORDINGS = {"observation.state": slice(0, 2), "observation.environment_state": slice(2, 18)}


def points_of(states):
    """The agent and the eight points of the block, shape (count, 18)."""
    cos, sin = np.cos(states[:, 4]), np.sin(states[:, 4])
    turns = np.stack([cos, sin, -sin, cos], axis=-1).reshape(-1, 2, 2)
    points = KEYPOINTS @ turns + states[:, None, 2:4]
    return np.column_stack([states[:, :2], points.reshape(len(states), -1)])


def write_keypoints(folder, *, rows=range(6), files=2):
    """Writes some of the bundled demonstrations by LeRobot's rules; returns these."""
    bundled = suite_directory("pusht") / "demos" / "scripted-gym_pusht-PushT-v0"
    made = read_demonstrations(bundled, rows=list(rows))
    seen = [replace(each, obs=points_of(each.obs.astype(np.float64))) for each in made]
    write_lerobot(folder, seen, files=files, recordings=_RECORDINGS, number="float32")
    return made
