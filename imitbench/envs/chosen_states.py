"""Steps known environments from chosen states, and names the coordinates of their observations.

Gymnasium has no common way to set the state of an environment. This module has one for each of a
few tasks whose observation determines the state: Pendulum, CartPole, MountainCar (with discrete or
continuous actions) and this package's point maze, with subclasses such as those of seals and of
`imitbench.envs.altered`. For others, `find_state_space` returns `None`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.envs.classic_control import (
    CartPoleEnv,
    Continuous_MountainCarEnv,
    MountainCarEnv,
    PendulumEnv,
)

__all__ = ["Outcomes", "Plane", "StateSpace", "find_state_space", "plane_of_dims", "step_from"]

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Plane:
    """Two coordinates of observations, over which a reward can be drawn.

    Attributes:
        labels: Names of the coordinates, with units.
        ranges: Lowest and highest value of each coordinate.
        observe: Makes observations, shape (n, d), of a base observation, shape (d,), and both
            coordinates, each of shape (n,). Dimensions that the coordinates do not determine are
            those of the base.
        project: Returns both coordinates, each of shape (n,), of observations, shape (n, d).
    """

    labels: tuple[str, str]
    ranges: tuple[tuple[float, float], tuple[float, float]]
    observe: Callable[[Floats, Floats, Floats], Floats]
    project: Callable[[Array], tuple[Floats, Floats]]


@dataclass(frozen=True)
class StateSpace:
    """The states of an environment: their names, how to draw them, and how to set one.

    Attributes:
        names: Names of the dimensions of an observation.
        plane: The coordinates that describe the task best.
        set_state: Sets the state of an environment, with its wrappers and after `reset`, to that of
            an observation, shape (d,).
        free: Whether every choice of the dimensions within their bounds is an observation. Those of
            Pendulum are not free, as cosine and sine belong together.
    """

    names: tuple[str, ...]
    plane: Plane
    set_state: Callable[[Any, Floats], None]
    free: bool = True


def plane_of_dims(
    dims: tuple[int, int],
    names: tuple[str, ...],
    ranges: tuple[tuple[float, float], tuple[float, float]],
) -> Plane:
    """Returns the plane of two dimensions of flat observations.

    Args:
        dims: Two different indices, from 0.
        names: Names of all dimensions.
        ranges: Lowest and highest value of each of the two.
    """

    def observe(base: Floats, x: Floats, y: Floats) -> Floats:
        found = np.tile(np.asarray(base, np.float64), (len(x), 1))
        found[:, dims[0]], found[:, dims[1]] = x, y
        return found

    def project(obs: Array) -> tuple[Floats, Floats]:
        values = np.asarray(obs, np.float64)
        return values[:, dims[0]], values[:, dims[1]]

    return Plane((names[dims[0]], names[dims[1]]), ranges, observe, project)


def find_state_space(env: gym.Env[Any, Any]) -> StateSpace | None:
    """Returns what is known of an environment; `None` if it is not one of the known tasks.

    Args:
        env: The environment, with wrappers; they must keep the shape of observations.
    """
    from imitbench.envs.altered import PointMaze  # imports seals, which registers environments

    task = env.unwrapped
    makers: tuple[tuple[type[Any], Callable[[Any], StateSpace]], ...] = (
        (PendulumEnv, _pendulum),
        (CartPoleEnv, _cart_pole),
        (MountainCarEnv, _mountain_car),
        (Continuous_MountainCarEnv, _mountain_car),
        (PointMaze, _point_maze),
    )
    for cls, make in makers:
        if isinstance(task, cls):
            known = make(task)
            return known if env.observation_space.shape == (len(known.names),) else None
    return None


class Outcomes(NamedTuple):
    """What followed single steps.

    Attributes:
        next_obs: Observations after the steps, shape (n, d).
        rews: Rewards of the environment, shape (n,), float64.
        dones: Whether the task ended, shape (n,), bool; time limits do not count.
    """

    next_obs: Array
    rews: Floats
    dones: npt.NDArray[np.bool_]


def step_from(env: gym.Env[Any, Any], task: StateSpace, obs: Array, acts: Array) -> Outcomes:
    """Takes one step from each of several states, each in an episode of its own.

    Args:
        env: The environment, which is reset before every step.
        task: What `find_state_space` returned for it.
        obs: Observations of the states, shape (n, d).
        acts: Actions, shape (n, …).
    """
    found: list[Any] = []
    rews, dones = np.empty(len(obs)), np.zeros(len(obs), bool)
    for number, (state, action) in enumerate(zip(obs, acts, strict=True)):
        env.reset(seed=0)
        task.set_state(env, np.asarray(state, np.float64))
        after, reward, dones[number], _, _ = env.step(action)
        rews[number] = float(reward)
        found.append(after)
    return Outcomes(np.array(found), rews, dones)


def _pendulum(env: Any) -> StateSpace:
    def observe(base: Floats, x: Floats, y: Floats) -> Floats:
        del base  # the angle and its velocity are the whole state
        return np.stack([np.cos(x), np.sin(x), y], axis=1)

    def project(obs: Array) -> tuple[Floats, Floats]:
        values = np.asarray(obs, np.float64)
        return np.arctan2(values[:, 1], values[:, 0]), values[:, 2]

    def set_state(env: Any, obs: Floats) -> None:
        env.unwrapped.state = np.array([np.arctan2(obs[1], obs[0]), obs[2]])

    fastest = float(env.max_speed)
    plane = Plane(
        ("angle (rad, 0 upright)", "angular velocity (rad/s)"),
        ((-math.pi, math.pi), (-fastest, fastest)),
        observe,
        project,
    )
    return StateSpace(
        ("cos(angle)", "sin(angle)", "angular velocity"), plane, set_state, free=False
    )


_CART_POLE = ("cart position (m)", "cart velocity (m/s)", "pole angle (rad)",
              "pole angular velocity (rad/s)")  # fmt: skip
_FASTEST_POLE = 3.0  # rad/s; a pole that falls from rest is about as fast where an episode ends


def _cart_pole(env: Any) -> StateSpace:
    def set_state(env: Any, obs: Floats) -> None:
        env.unwrapped.state = np.array(obs)

    widest = 2 * float(env.theta_threshold_radians)
    ranges = ((-widest, widest), (-_FASTEST_POLE, _FASTEST_POLE))
    return StateSpace(_CART_POLE, plane_of_dims((2, 3), _CART_POLE, ranges), set_state)


def _mountain_car(env: Any) -> StateSpace:
    def set_state(env: Any, obs: Floats) -> None:
        car = env.unwrapped
        car.state = np.array(obs)
        there = obs[0] >= car.goal_position and obs[1] >= car.goal_velocity
        # In the task of seals, a car that has reached the goal stays there.
        if there and env.has_wrapper_attr("at_absorb_state"):
            env.set_wrapper_attr("at_absorb_state", True)
            env.set_wrapper_attr("absorb_obs_this_episode", np.array(obs, np.float32))

    names = ("position", "velocity")
    fastest = float(env.max_speed)
    ranges = ((float(env.min_position), float(env.max_position)), (-fastest, fastest))
    return StateSpace(names, plane_of_dims((0, 1), names, ranges), set_state)


def _point_maze(env: Any) -> StateSpace:
    del env

    def set_state(env: Any, obs: Floats) -> None:
        env.unwrapped.place(obs)

    names = ("x", "y")
    ranges = ((-1.0, 1.0), (-1.0, 1.0))
    return StateSpace(names, plane_of_dims((0, 1), names, ranges), set_state)
