"""A PushT simulation that can be set to any state, and the shape of its block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from imitbench.util.extras import import_extra

Array = npt.NDArray[np.float64]

AGENT_RADIUS = 15.0
"""Radius of the agent, in pixels of the 512 x 512 plane."""

SUCCESS_COVERAGE = 0.95
"""Share of the goal that the block must cover."""

OUTLINE = np.array(
    [(-60, 0), (60, 0), (60, 30), (15, 30), (15, 120), (-15, 120), (-15, 30), (-60, 30)], float
)
"""Corners of the T in its own frame, counterclockwise, in pixels, shape (8, 2)."""

_GOAL = (256.0, 256.0, math.pi / 4)
_SUBSTEPS = 10  # physics steps of 0.01 s for each action
_STIFFNESS, _DAMPING, _DT = 100.0, 20.0, 0.01  # of the controller that moves the agent to a target
_FORGETTING = 4  # physics steps after which Chipmunk has forgotten a contact
_FAR = (-300.0, -300.0)


@dataclass(frozen=True)
class PushTState:
    """What determines how PushT goes on, as long as nothing touches.

    Attributes:
        agent: Position of the agent, in pixels.
        velocity: Velocity of the agent, in pixels per second.
        block: Position of the block's origin, the middle of the upper edge of the T, in pixels.
        angle: Angle of the block, in radians.
    """

    agent: tuple[float, float]
    velocity: tuple[float, float]
    block: tuple[float, float]
    angle: float

    @classmethod
    def of_environment(cls, env: gym.Env[Any, Any]) -> PushTState:
        """Reads the state of a PushT environment."""
        inner: Any = env.unwrapped
        agent, block = inner.agent, inner.block
        return cls(tuple(agent.position), tuple(agent.velocity), tuple(block.position), block.angle)

    @classmethod
    def of_observation(cls, observation: Sequence[float] | Array) -> PushTState:
        """Reads an observation, shape (5,), which has no velocity: the agent rests."""
        x, y, block_x, block_y, angle = map(float, observation)
        return cls((x, y), (0.0, 0.0), (block_x, block_y), angle)

    def outline(self) -> Array:
        """Returns the corners of the block, shape (8, 2)."""
        return placed_outline(*self.block, self.angle)


def placed_outline(x: float, y: float, angle: float) -> Array:
    """Returns the corners of a T at a pose, shape (8, 2)."""
    cos, sin = math.cos(angle), math.sin(angle)
    placed: Array = OUTLINE @ np.array([[cos, sin], [-sin, cos]]) + (x, y)
    return placed


GOAL_OUTLINE = placed_outline(*_GOAL)
"""Corners of the goal, shape (8, 2)."""

_CORNERS = [complex(x, y) for x, y in OUTLINE]
_GOAL_CORNERS = [complex(x, y) for x, y in GOAL_OUTLINE]


class PushTWorld:
    """Predicts what actions do in `gym_pusht/PushT-v0`, with the simulation of the environment.

    The block has no momentum, so a state is where agent and block are and how fast the agent moves.
    After `restore`, `advance` gives the numbers of the environment's `step`, up to rounding, if
    nothing touches the block at the start. In a contact, the physics engine (Chipmunk) holds a
    correction of overlaps that it does not tell, and predictions differ.

    Raises:
        InputError: The extra `pusht` is not installed.
    """

    def __init__(self) -> None:
        import_extra("gym_pusht", "pusht", "the planner of PushT")
        made: Any = gym.make("gym_pusht/PushT-v0", disable_env_checker=True).unwrapped
        made.reset(seed=0)
        self._env: Any = made
        # The environment counts contacts by a callback, which takes time and changes nothing.
        self._env.space.add_collision_handler(0, 0).post_solve = _ignore

    def restore(self, state: PushTState) -> None:
        """Continues from a state."""
        agent, block, space = self._env.agent, self._env.block, self._env.space
        for there, steps in ((_FAR, _FORGETTING), (state.agent, 0)):
            block.velocity, block.angular_velocity = (0.0, 0.0), 0.0
            block.angle = state.angle  # turns it about its center of mass, so it is first
            block.position = state.block
            agent.position, agent.velocity = there, (0.0, 0.0)
            for _ in range(steps):
                space.step(_DT)
        agent.velocity = state.velocity

    def state(self) -> PushTState:
        """Returns the current state."""
        return PushTState.of_environment(self._env)

    def advance(self, target: Sequence[float] | npt.NDArray[Any]) -> None:
        """Does what the environment's `step` does to the simulation.

        Args:
            target: The action: where the agent should go, in pixels.
        """
        agent, step = self._env.agent, self._env.space.step
        to_x, to_y = float(target[0]), float(target[1])
        (x, y), (vx, vy) = agent.position, agent.velocity
        for _ in range(_SUBSTEPS):
            vx += (_STIFFNESS * (to_x - x) + _DAMPING * (0 - vx)) * _DT
            vy += (_STIFFNESS * (to_y - y) + _DAMPING * (0 - vy)) * _DT
            agent.velocity = (vx, vy)
            step(_DT)
            x += vx * _DT  # nothing stops the agent, so this is its position
            y += vy * _DT

    def error(self) -> float:
        """Mean distance of the block's corners from those of the goal, in pixels."""
        block = self._env.block
        turn = complex(math.cos(block.angle), math.sin(block.angle))
        at = complex(*block.position)
        pairs = zip(_CORNERS, _GOAL_CORNERS, strict=True)
        return sum(abs(at + turn * own - goal) for own, goal in pairs) / len(_CORNERS)

    def solved(self) -> bool:
        """Whether the environment counts the position of the block as a success."""
        if self.error() > 10:  # it then covers less; the exact test takes longer
            return False
        import shapely

        block, goal = shapely.Polygon(self.state().outline()), shapely.Polygon(GOAL_OUTLINE)
        return bool(block.intersection(goal).area / goal.area > SUCCESS_COVERAGE)


def _ignore(*_: object) -> None:
    """Replaces the environment's callback."""
