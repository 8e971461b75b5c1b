"""Known tasks whose dynamics can be changed by arguments, to test what a learned reward is worth.

A reward that explains an expert should also be worth optimizing where the world behaves otherwise
(Fu et al. 2018, "Learning Robust Rewards with Adversarial Inverse Reinforcement Learning"). Every
task here has the observations, actions and reward function of the task it is named after, and with
its default arguments the same steps, bit for bit; its arguments change gravity, masses, lengths,
forces, friction or walls. `imitbench/PointMaze-v0` has no model elsewhere: it is a point that must
pass a wall, whose opening can be on either side.

Importing this module registers the tasks with Gymnasium.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.envs.classic_control import PendulumEnv
from seals import classic_control
from seals.diagnostics.cliff_world import CliffWorldEnv

__all__ = ["CartPole", "CliffWorld", "Pendulum", "PointMaze", "mountain_car"]


class Pendulum(PendulumEnv):
    """Gymnasium's `Pendulum-v1` with another pendulum.

    Args:
        mass: Mass in kilograms.
        length: Length in metres.
        gravity: Acceleration by gravity in metres per square second.
        render_mode: See Gymnasium.
    """

    def __init__(
        self,
        mass: float = 1.0,
        length: float = 1.0,
        gravity: float = 10.0,
        render_mode: str | None = None,
    ) -> None:
        check_positive(mass=mass, length=length, gravity=gravity)
        super().__init__(render_mode, g=gravity)
        self.m, self.l = mass, length


class CartPole(classic_control.FixedHorizonCartPole):
    """The `seals/CartPole-v0` of seals with another pole or motor.

    Args:
        pole: Length of the pole, as a multiple of the usual one.
        force: Force of the motor, as a multiple of the usual one.
        render_mode: See Gymnasium.
    """

    def __init__(
        self, pole: float = 1.0, force: float = 1.0, render_mode: str | None = None
    ) -> None:
        check_positive(pole=pole, force=force)
        super().__init__(render_mode=render_mode)  # type: ignore[no-untyped-call]
        self.length *= pole
        self.polemass_length = self.masspole * self.length
        self.force_mag *= force


class CliffWorld(CliffWorldEnv):
    """The `seals/CliffWorld7x4-v0` of seals with a wall across.

    Args:
        wall: Whether the two middle fields of column 4 are closed: a step that would end there, by
            intention or by the wind, does not move the agent. It can pass below, or over the cliff.
    """

    WALL = (1 * 7 + 4, 2 * 7 + 4)
    """Numbers of the closed states, seven to a row."""

    def __init__(self, wall: bool = False) -> None:
        super().__init__(width=7, height=4, horizon=9, use_xy_obs=False)
        if wall:
            close(self.transition_matrix, self.WALL)


def close(transitions: npt.NDArray[Any], closed: Sequence[int]) -> None:
    """Closes states: steps that would lead there stay where they are.

    Args:
        transitions: Probabilities of next states, shape (states, actions, states); changed in
            place.
        closed: Numbers of the states.
    """
    states = np.arange(len(transitions))
    stopped = transitions[:, :, closed].sum(axis=-1)
    transitions[:, :, closed] = 0
    transitions[states, :, states] += stopped
    for state in closed:
        transitions[state] = states == state


def mountain_car(
    gravity: float = 1.0, engine: float = 1.0, render_mode: str | None = None
) -> gym.Env[Any, Any]:
    """Returns the `seals/MountainCar-v0` of seals with another gravity or engine.

    Args:
        gravity: Gravity, as a multiple of the usual one.
        engine: Force of the engine, as a multiple of the usual one.
        render_mode: See Gymnasium.
    """
    check_positive(gravity=gravity, engine=engine)
    make: Any = classic_control.mountain_car  # without types
    env: gym.Env[Any, Any] = make(render_mode=render_mode)
    task: Any = env.unwrapped
    task.gravity *= gravity
    task.force *= engine
    return env


class PointMaze(gym.Env[npt.NDArray[np.float32], npt.NDArray[np.float32]]):
    """A point in a square with a wall across, which leaves an opening on one side.

    It starts in the middle above the wall; the goal is in the middle below it. Observations are the
    position, from -1 to 1; actions are the step in both directions, as a share of 0.1, of at most
    1. A step that would cross the wall ends at it. The reward is minus the distance from the goal,
    minus 0.001 times the squared length of the action. Episodes never end before their time limit.

    Fu et al. 2018, section 7.2, move the opening of such a wall from one side to the other between
    training and test; sizes and reward are this project's own.

    Args:
        opening: Side of the opening.
    """

    STEP = 0.1
    """Largest step in one direction."""
    WIDTH = 0.5
    """Width of the opening; the square is 2 wide."""
    GOAL = (0.0, -0.6)
    """Position of the goal."""
    START = (0.0, 0.6)
    """Middle of the positions at the start, which differ from it by up to `SPREAD`."""
    SPREAD = 0.1

    def __init__(self, opening: Literal["left", "right"] = "left") -> None:
        if opening not in ("left", "right"):
            raise ValueError(f"opening must be left or right, not {opening}")
        self.opening = opening
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self._position = np.array(self.START)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Starts an episode."""
        super().reset(seed=seed, options=options)
        offset = self.np_random.uniform(-self.SPREAD, self.SPREAD, 2)
        self._position = np.array(self.START) + offset
        return self._position.astype(np.float32), {}

    def place(self, position: npt.NDArray[np.float64]) -> None:
        """Moves the point to a position, shape (2,), in the current episode."""
        self._position = np.array(position, np.float64)

    def step(
        self, action: npt.NDArray[np.float32]
    ) -> tuple[npt.NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Takes a step."""
        act = np.clip(np.asarray(action, np.float64), -1.0, 1.0)[None]
        self._position = self.moved(self._position[None], act)[0]
        reward = float(self.rewards(act, self._position[None])[0])
        return self._position.astype(np.float32), reward, False, False, {}

    def moved(
        self, before: npt.NDArray[np.float64], acts: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        """Returns where steps lead, shape (n, 2), from positions (n, 2) with actions (n, 2)."""
        after = np.clip(before + self.STEP * acts, -1.0, 1.0)
        above = before[:, 1] > 0
        stopped = (above != (after[:, 1] > 0)) & ~self._is_open(before, after)
        # It slides along the side of the wall on which it was.
        after[stopped, 1] = np.where(above[stopped], 1e-3, -1e-3)
        return after

    def rewards(
        self, acts: npt.NDArray[np.float64], after: npt.NDArray[Any]
    ) -> npt.NDArray[np.float64]:
        """Returns the rewards, shape (n,), of actions (n, 2) that led to positions (n, 2)."""
        distances = np.linalg.norm(np.asarray(after, np.float64) - self.GOAL, axis=1)
        return np.asarray(-distances - 0.001 * (acts**2).sum(axis=1))

    def _is_open(
        self, before: npt.NDArray[np.float64], after: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.bool_]:
        """Whether steps that cross the line of the wall do so where the opening is."""
        fall = before[:, 1] - after[:, 1]
        share = before[:, 1] / np.where(fall == 0, np.inf, fall)
        crossing = before[:, 0] + share * (after[:, 0] - before[:, 0])
        left = self.opening == "left"
        return crossing <= self.WIDTH - 1 if left else crossing >= 1 - self.WIDTH


def check_positive(**values: float) -> None:
    """Raises `ValueError` for a value that is not positive and finite."""
    for name, value in values.items():
        if not 0 < value < float("inf"):
            raise ValueError(f"{name} must be positive, not {value}")


_HOME = "imitbench.envs.altered"
for _name, _entry, _steps in (
    ("Pendulum", f"{_HOME}:Pendulum", 200),
    ("CartPole", f"{_HOME}:CartPole", 500),
    ("CliffWorld", f"{_HOME}:CliffWorld", None),
    ("MountainCar", f"{_HOME}:mountain_car", 200),
    ("PointMaze", f"{_HOME}:PointMaze", 100),
    ("Ant", f"{_HOME}_mujoco:Ant", 1000),
    ("HalfCheetah", f"{_HOME}_mujoco:HalfCheetah", 1000),
    ("Hopper", f"{_HOME}_mujoco:Hopper", 1000),
):
    gym.register(id=f"imitbench/{_name}-v0", entry_point=_entry, max_episode_steps=_steps)
