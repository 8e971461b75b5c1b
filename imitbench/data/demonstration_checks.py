"""Checks that demonstrations fit an environment, row by row, before training on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from imitbench.data.arrow_table import TableRow
from imitbench.data.observations import DictObs
from imitbench.data.trajectories import TrajectoryWithRew
from imitbench.errors import InputError

Array = npt.NDArray[Any]

NO_REWARDS = (
    "there are no rewards: the return of the demonstrators is not known, so that a suite needs an "
    "expert or score_one on its card"
)
"""Note on a data set without rewards."""


_MOST_BYTES = 8  # of a number in tables


def validate_demonstrations(
    trajectories: Sequence[TrajectoryWithRew],
    observation_space: gym.Space[Any],
    action_space: gym.Space[Any] | None,
    *,
    where: str,
) -> None:
    """Checks demonstrations against the spaces of an environment.

    Lengths, finite numbers, shapes, data types and the range of discrete values are checked.
    Values may exceed the bounds of a box: recorded observations do so by rounding, and expert
    actions may be recorded before clipping. Rewards may all be NaN: they were not recorded.

    Args:
        trajectories: At least one.
        observation_space: Box, Discrete, MultiDiscrete or MultiBinary.
        action_space: One of the same types; `None` for actions that were removed.
        where: Origin of the trajectories in errors, such as a path.

    Raises:
        InputError: A row does not fit; the message names the first one and its problem.
    """
    if not trajectories:
        raise InputError(f"{where}: no trajectories: record or fetch demonstrations first")
    for row, trajectory in enumerate(trajectories):
        problem = row_problem(_recorded(trajectory), observation_space, action_space)
        if problem:
            raise InputError(f"{where}, episode {row}: {problem}")


def _recorded(trajectory: TrajectoryWithRew) -> TableRow | TrajectoryWithRew:
    """Returns the trajectory, without its rewards if they were not recorded."""
    if isinstance(trajectory.obs, DictObs) or not np.isnan(trajectory.rews).all():
        return trajectory
    return TableRow(trajectory.obs, trajectory.acts, trajectory.terminal, None)


def row_problem(
    row: TableRow | TrajectoryWithRew,
    observation_space: gym.Space[Any] | None = None,
    action_space: gym.Space[Any] | None = None,
) -> str | None:
    """Returns the first problem of a row.

    Args:
        row: A row or trajectory; its rewards may be None.
        observation_space: See `validate_demonstrations`; `None` allows any shape and type.
        action_space: See `observation_space`.

    Returns:
        The first problem and how to fix it; None if there is none.
    """
    return (
        _length_problem(row)
        or _values_problem("observations", row.obs, observation_space)
        or _values_problem("actions", row.acts, action_space)
        or (None if row.rews is None else _values_problem("rewards", row.rews, None))
    )


def fitted(row: TableRow, environment: gym.Env[Any, Any], *, untyped: bool) -> TableRow:
    """Returns a row as its conversion for an environment stores it.

    Discrete actions become single whole numbers, which some formats store as lists of one; single
    numbers become lists of one where the environment has these.

    Args:
        row: A row of any format, not yet validated.
        environment: The environment.
        untyped: Whether its numbers get the data types of the environment's boxes, see
            `imitbench.data.trajectory_source.TrajectorySource`.
    """
    obs, acts = row.obs, row.acts
    if untyped:
        obs = _typed(obs, environment.observation_space)
        acts = _typed(acts, environment.action_space)
    obs = _listed(obs, environment.observation_space)
    acts = _listed(acts, environment.action_space)
    if isinstance(environment.action_space, spaces.Discrete):
        if acts.shape[1:] == (1,):
            acts = acts.reshape(-1)
        if acts.dtype.kind == "f" and np.array_equal(acts, np.trunc(acts)):
            acts = acts.astype(np.int64)
    return row._replace(obs=obs, acts=acts)


def _typed(values: Array, space: gym.Space[Any]) -> Array:
    if not isinstance(space, spaces.Box) or space.dtype.kind != "f":
        return values
    with np.errstate(over="ignore"):  # the check finds what is not finite
        return values.astype(space.dtype)


def _listed(values: Array, space: gym.Space[Any]) -> Array:
    is_list_of_one = isinstance(space, spaces.Box) and space.shape == (1,)
    return values.reshape(-1, 1) if is_list_of_one and values.ndim == 1 else values


def bounds_problem(name: str, values: Array, space: gym.Space[Any]) -> str | None:
    """Finds values that exceed the bounds of a box by more than rounding errors.

    A single value does not invalidate a demonstration, see `validate_demonstrations`; many
    values indicate another version of the environment, or rescaled actions.

    Args:
        name: Name of the values in the message.
        values: Shape `(n, *space.shape)`.
        space: Spaces other than boxes are not checked.

    Returns:
        A message about the first such value; `None` if there is none.
    """
    if not isinstance(space, spaces.Box) or values.shape[1:] != space.shape:
        return None
    slack = 1e-4 * np.maximum(1.0, np.abs(values))
    outside = (values < space.low - slack) | (values > space.high + slack)
    if not outside.any():
        return None
    first = tuple(np.argwhere(outside)[0])
    low, high = space.low[first[1:]], space.high[first[1:]]
    return (
        f"{name} leave the bounds of the environment: {values[first]:g} at step {first[0]}, "
        f"bounds {low:g} to {high:g}"
    )


def describe(values: Array) -> str:
    """Returns data type and shape of each of some values, such as `float32[4]`."""
    return f"{values.dtype}{list(values.shape[1:])}"


def _length_problem(row: TableRow | TrajectoryWithRew) -> str | None:
    steps = len(row.acts)
    if steps == 0:
        return "no steps: remove the episode"
    if len(row.obs) != steps + 1:
        return (
            f"{len(row.obs)} observations for {steps} actions: there must be one more "
            "than actions; record it again or remove the episode"
        )
    if row.rews is not None and row.rews.shape != (steps,):
        return (
            f"rewards of shape {row.rews.shape} for {steps} actions: there must be one "
            "each; record it again or remove the episode"
        )
    return None


def _values_problem(name: str, values: Array | DictObs, space: gym.Space[Any] | None) -> str | None:
    if not isinstance(values, DictObs) and values.dtype.itemsize > _MOST_BYTES:
        return f"{name} have data type {values.dtype}: store them as float64"
    if space is not None:
        return _space_problem(name, values, space)
    return None if isinstance(values, DictObs) else _finite_problem(name, values)


def _space_problem(name: str, values: Array | DictObs, space: gym.Space[Any]) -> str | None:
    if isinstance(values, DictObs):
        return f"{name} are dictionaries, which demonstrations cannot hold: flatten them"
    if space.shape is None or space.dtype is None:
        return f"{name}: the environment's {type(space).__name__} space is not supported"
    if values.shape[1:] != space.shape:
        return (
            f"{name} have shape {values.shape[1:]} each, the environment has {space.shape}: "
            "use demonstrations of this environment and version"
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
    return f"{name} are not finite at step {step}: record it again or remove the episode"


def _range_problem(name: str, values: Array, space: gym.Space[Any]) -> str | None:
    """Finds discrete values out of range; an integer box may be exceeded."""
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
    first = tuple(np.argwhere(outside)[0])
    low, high = (np.broadcast_to(bound, values.shape)[first] for bound in (low, high))
    return (
        f"{name} hold {values[first]} at step {first[0]}, the environment has {low} to {high}: "
        "use demonstrations of this environment"
    )
