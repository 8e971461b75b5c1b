"""Do demonstrations fit an environment? Told per row, before anything trains on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from imitbench.data.observations import DictObs
from imitbench.data.trajectories import TrajectoryWithRew
from imitbench.errors import InputError

Array = npt.NDArray[Any]


def validate_demonstrations(
    trajectories: Sequence[TrajectoryWithRew],
    observation_space: gym.Space[Any],
    action_space: gym.Space[Any],
    *,
    where: str,
) -> None:
    """Checks demonstrations against the spaces of an environment.

    Lengths, finite numbers, shapes, kinds of data type, and the range of discrete values are
    checked. Values of a box may leave its bounds: recorded observations do, by rounding, and
    experts' actions may be recorded before clipping.

    Args:
        trajectories: To be checked.
        observation_space: Of the environment; Box, Discrete, MultiDiscrete or MultiBinary.
        action_space: Of the environment; of the same kinds.
        where: Where the trajectories are from, such as a path.

    Raises:
        InputError: The first thing that does not fit, with its row.
    """
    if not trajectories:
        raise InputError(f"{where}: no trajectories: record or fetch demonstrations first")
    for row, trajectory in enumerate(trajectories):
        problem = (
            _length_problem(trajectory)
            or _space_problem("observations", trajectory.obs, observation_space)
            or _space_problem("actions", trajectory.acts, action_space)
            or _finite_problem("rewards", trajectory.rews)
        )
        if problem:
            raise InputError(f"{where}, row {row}: {problem}")


def _length_problem(trajectory: TrajectoryWithRew) -> str | None:
    steps = len(trajectory.acts)
    if steps == 0:
        return "no steps: remove the row"
    if len(trajectory.obs) != steps + 1:
        return (
            f"{len(trajectory.obs)} observations for {steps} actions: there has to be one more "
            "than actions; record it again or remove the row"
        )
    if trajectory.rews.shape != (steps,):
        return (
            f"rewards of shape {trajectory.rews.shape} for {steps} actions: there has to be one "
            "each; record it again or remove the row"
        )
    return None


def _space_problem(name: str, values: Array | DictObs, space: gym.Space[Any]) -> str | None:
    if isinstance(values, DictObs):
        return f"{name} are dictionaries, which demonstrations cannot hold: flatten them"
    if space.shape is None or space.dtype is None:
        return f"{name}: the environment's {type(space).__name__} space is not supported"
    if values.shape[1:] != space.shape:
        return (
            f"{name} have shape {values.shape[1:]} each, the environment has {space.shape}: "
            "take demonstrations of this very environment and version"
        )
    if isinstance(space, spaces.Box) and space.dtype.kind == "f":
        if values.dtype.kind not in "fiu":
            return f"{name} have data type {values.dtype}, the environment has {space.dtype}"
        return _finite_problem(name, values)
    if values.dtype.kind not in "iub":
        return (
            f"{name} have data type {values.dtype}, the environment has {space.dtype}: "
            "store them as integers"
        )
    return _range_problem(name, values, space)


def _finite_problem(name: str, values: Array) -> str | None:
    if values.dtype.kind != "f":
        return None
    finite = np.isfinite(values)
    if finite.all():
        return None
    step = int(np.argwhere(~finite)[0][0])
    return f"{name} are not finite at step {step}: record it again or remove the row"


def _range_problem(name: str, values: Array, space: gym.Space[Any]) -> str | None:
    """Discrete values out of range; those of an integer box may leave its bounds."""
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        low: Any = space.start
        high = low + (space.n if isinstance(space, spaces.Discrete) else space.nvec) - 1
    elif isinstance(space, spaces.MultiBinary):
        low, high = 0, 1
    else:
        return None
    outside = (values < low) | (values > high)
    if not outside.any():
        return None
    place = tuple(np.argwhere(outside)[0])
    low, high = (np.broadcast_to(bound, values.shape)[place] for bound in (low, high))
    return (
        f"{name} hold {values[place]} at step {place[0]}, the environment has {low} to {high}: "
        "take demonstrations of this very environment"
    )
