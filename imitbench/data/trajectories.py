"""Trajectories, with or without rewards. Does not import torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from imitbench.data.observations import (
    Observation,
    maybe_unwrap_dictobs,
    maybe_wrap_in_dictobs,
    values_equal,
)

Array = npt.NDArray[Any]


def dataclass_quick_asdict(obj: Any) -> dict[str, Any]:
    """Maps field names to values without copying them.

    `dataclasses.asdict` would deep-copy every array.

    Args:
        obj: An instance of a dataclass.

    Returns:
        The fields, in order of declaration.
    """
    return {field.name: getattr(obj, field.name) for field in dataclasses.fields(obj)}


@dataclasses.dataclass(frozen=True, eq=False)
class Trajectory:
    """An episode or a fragment of one.

    Attributes:
        obs: Observations, shape `(T + 1, *observation_shape)`.
        acts: Actions, shape `(T, *action_shape)`, `T >= 1`.
        infos: Info dictionaries, shape `(T,)`, or None if they were not kept.
        terminal: Whether the last observation is the last of an episode, by termination or
            time limit. True for whole episodes, and for fragments at the end of an episode.

    Raises:
        ValueError: Lengths do not match, or there is no action.
    """

    obs: Observation
    acts: Array
    infos: Array | None
    terminal: bool

    def __post_init__(self) -> None:
        steps = len(self.acts)
        if len(self.obs) != steps + 1:
            raise ValueError(
                "a trajectory has one observation more than actions, "
                f"but there are {len(self.obs)} observations and {steps} actions"
            )
        if self.infos is not None and len(self.infos) != steps:
            raise ValueError(f"there are {len(self.infos)} infos for {steps} actions")
        if steps == 0:
            raise ValueError("a trajectory needs at least one action")

    def __len__(self) -> int:
        """Number of actions."""
        return len(self.acts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trajectory):
            return NotImplemented
        return type(self) is type(other) and values_equal(
            dataclass_quick_asdict(self), dataclass_quick_asdict(other)
        )


@dataclasses.dataclass(frozen=True, eq=False)
class TrajectoryWithRew(Trajectory):
    """A `Trajectory` with rewards.

    Attributes:
        rews: Rewards, shape `(T,)`, a floating-point data type.

    Raises:
        ValueError: Rewards have another shape or data type.
    """

    rews: Array

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rewards(self.rews, len(self.acts))


@dataclasses.dataclass(frozen=True, eq=False)
class Segment(TrajectoryWithRew):
    """A fragment of an episode, whose start in it is known.

    Attributes:
        start: Step of the episode at which it begins, from 0.
    """

    start: int = 0


def every_nth_step(
    trajectory: TrajectoryWithRew, every: int, offset: int
) -> list[TrajectoryWithRew]:
    """Keeps single steps of a trajectory, each with its own next observation.

    Args:
        trajectory: A whole episode, or a fragment that is taken for one.
        every: A step is kept after each `every` steps.
        offset: First step that is kept, less than the length of the trajectory.

    Returns:
        `Segment` objects of one step, in order; the last step of a terminal trajectory is terminal.
    """
    last = len(trajectory) - 1
    return [
        Segment(
            obs=trajectory.obs[step : step + 2],
            acts=trajectory.acts[step : step + 1],
            infos=None if trajectory.infos is None else trajectory.infos[step : step + 1],
            terminal=trajectory.terminal and step == last,
            rews=trajectory.rews[step : step + 1],
            start=step,
        )
        for step in range(offset, len(trajectory), every)
    ]


def first_step(trajectory: Trajectory) -> int:
    """Returns the step of its episode at which a trajectory begins; 0 if that is not known."""
    return trajectory.start if isinstance(trajectory, Segment) else 0


def trajectory_of(
    obs: Observation, acts: Array, terminal: bool, rews: Array | None, infos: Array | None = None
) -> Trajectory:
    """Returns a `TrajectoryWithRew` if there are rewards, else a `Trajectory`.

    Raises:
        ValueError: As these classes.
    """
    if rews is None:
        return Trajectory(obs, acts, infos, terminal)
    return TrajectoryWithRew(obs, acts, infos, terminal, rews)


def infos_of(trajectory: Trajectory) -> Array | list[dict[str, Any]]:
    """Returns the infos of a trajectory, one for each action; empty where they were not kept."""
    return [{}] * len(trajectory) if trajectory.infos is None else trajectory.infos


def with_rewards(trajectory: Trajectory) -> TrajectoryWithRew:
    """Returns a trajectory with rewards: its own, or NaN where none were recorded."""
    if isinstance(trajectory, TrajectoryWithRew):
        return trajectory
    return TrajectoryWithRew(
        **dataclass_quick_asdict(trajectory), rews=np.full(len(trajectory), np.nan)
    )


def trajectory_state(trajectory: TrajectoryWithRew) -> dict[str, Any]:
    """Returns a trajectory as arrays for a checkpoint, without infos, which may be any object."""
    return {
        "obs": maybe_unwrap_dictobs(trajectory.obs),
        "acts": trajectory.acts,
        "rews": trajectory.rews,
        "terminal": trajectory.terminal,
    }


def trajectory_from_state(state: Mapping[str, Any]) -> TrajectoryWithRew:
    """Restores the result of `trajectory_state`, with `infos` None."""
    return TrajectoryWithRew(
        obs=maybe_wrap_in_dictobs(state["obs"]),
        acts=state["acts"],
        infos=None,
        terminal=state["terminal"],
        rews=state["rews"],
    )


def check_rewards(rews: Array, steps: int) -> None:
    """Checks that rewards are one floating-point number per step.

    Raises:
        ValueError: The shape is not `(steps,)`, or the data type is not floating-point.
    """
    if rews.shape != (steps,):
        raise ValueError(f"rewards have shape {rews.shape}; {steps} actions need ({steps},)")
    if rews.dtype.kind != "f":
        raise ValueError(f"rewards have data type {rews.dtype}; a floating-point one is needed")
