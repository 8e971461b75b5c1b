"""Dynamics and rewards of simple tasks in closed form, for many observations at once.

An environment tells its reward only where it is. Some comparisons of rewards need it anywhere: EPIC
for any pair of states, DARD for the steps that a model takes from any of them. The tasks here have
known equations, whose rewards depend on nothing but observation, action and next observation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.envs.classic_control import MountainCarEnv, PendulumEnv
from seals.classic_control import FixedHorizonCartPole

from imitbench.envs.altered import PointMaze

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Equations:
    """A task in closed form.

    Attributes:
        move: Next observations, shape (n, …), for observations (n, …) and actions (n, …), without
            noise; time limits do not count.
        reward: True rewards, shape (n,), for observations, actions and next observations.
    """

    move: Callable[[Array, Array], Floats]
    reward: Callable[[Array, Array, Array], Floats]

    def reward_fn(self, state: Array, action: Array, next_state: Array, done: Array) -> Floats:
        """The true reward in the form of `RewardFn`; it does not depend on `done`."""
        del done
        return self.reward(state, action, next_state)


def equations_of(env: gym.Env[Any, Any]) -> Equations | None:
    """Returns the equations of an environment, with its own parameters; `None` if unknown."""
    task: Any = env.unwrapped
    if isinstance(task, PendulumEnv):
        return Equations(
            lambda obs, acts: _swung(task, obs, acts),
            lambda obs, acts, _: -_pendulum_cost(task, obs, acts),
        )
    if isinstance(task, FixedHorizonCartPole) and task.kinematics_integrator == "euler":
        return Equations(
            lambda obs, acts: _balanced(task, obs, acts),
            lambda *steps: _upright(task, steps[2]),
        )
    if isinstance(task, MountainCarEnv):
        return Equations(
            lambda obs, acts: _driven(task, obs, acts),
            lambda obs, *_: np.where(_at_goal(task, obs), 0.0, -1.0),
        )
    if isinstance(task, PointMaze):
        return Equations(
            lambda obs, acts: task.moved(np.asarray(obs, np.float64), _clipped(task, acts)),
            lambda _, acts, after: task.rewards(_clipped(task, acts), after),
        )
    return None


def _clipped(task: Any, acts: Array) -> Floats:
    space = task.action_space
    return np.clip(np.asarray(acts, np.float64), space.low, space.high)


def _pendulum_cost(task: PendulumEnv, obs: Array, acts: Array) -> Floats:
    angle, speed = np.arctan2(obs[:, 1], obs[:, 0]), obs[:, 2]
    torque = _clipped(task, acts)[:, 0]
    return np.asarray(angle**2 + 0.1 * speed**2 + 0.001 * torque**2, np.float64)


def _swung(task: PendulumEnv, obs: Array, acts: Array) -> Floats:
    angle, speed = np.arctan2(obs[:, 1], obs[:, 0]), obs[:, 2].astype(np.float64)
    pull = 3 * task.g / (2 * task.l) * np.sin(angle)
    push = 3.0 / (task.m * task.l**2) * _clipped(task, acts)[:, 0]
    speed = np.clip(speed + (pull + push) * task.dt, -task.max_speed, task.max_speed)
    angle = angle + speed * task.dt
    return np.stack([np.cos(angle), np.sin(angle), speed], axis=1)


def _balanced(task: FixedHorizonCartPole, obs: Array, acts: Array) -> Floats:
    place, speed, angle, turn = np.asarray(obs, np.float64).T
    force = np.where(np.asarray(acts) == 1, task.force_mag, -task.force_mag)
    sine, cosine = np.sin(angle), np.cos(angle)
    push = (force + task.polemass_length * turn**2 * sine) / task.total_mass
    inertia = task.length * (4.0 / 3.0 - task.masspole * cosine**2 / task.total_mass)
    turning = (task.gravity * sine - cosine * push) / inertia
    gain = push - task.polemass_length * turning * cosine / task.total_mass
    after = angle + task.tau * turn
    return np.stack(
        [
            place + task.tau * speed,
            speed + task.tau * gain,
            (after + np.pi) % (2 * np.pi) - np.pi,
            turn + task.tau * turning,
        ],
        axis=1,
    )


def _upright(task: FixedHorizonCartPole, after: Array) -> Floats:
    inside = np.abs(after[:, 0]) < task.x_threshold
    return (inside & (np.abs(after[:, 2]) < task.theta_threshold_radians)).astype(np.float64)


def _at_goal(task: MountainCarEnv, obs: Array) -> npt.NDArray[np.bool_]:
    return np.asarray((obs[:, 0] >= task.goal_position) & (obs[:, 1] >= task.goal_velocity))


def _driven(task: MountainCarEnv, obs: Array, acts: Array) -> Floats:
    position, speed = np.asarray(obs, np.float64).T
    slope = np.cos(3 * position) * -task.gravity
    faster = speed + (np.asarray(acts) - 1) * task.force + slope
    faster = np.clip(faster, -task.max_speed, task.max_speed)
    after = np.clip(position + faster, task.min_position, task.max_position)
    faster = np.where((after == task.min_position) & (faster < 0), 0.0, faster)
    # In the task of seals, a car that has reached the goal stays there.
    there = _at_goal(task, obs)
    return np.stack([np.where(there, position, after), np.where(there, speed, faster)], axis=1)
