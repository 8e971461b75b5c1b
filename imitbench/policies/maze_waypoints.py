"""The expert of mazes: plans a route of cells and steers from each to the next."""

from __future__ import annotations

import math
from collections import deque
from functools import cached_property
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch as th

from imitbench.cards.algorithm import Scalar
from imitbench.policies.scripted import ScriptedPolicy, check_boxes, check_number
from imitbench.policies.stateful import State

if TYPE_CHECKING:
    from typing_extensions import Self

Cell = tuple[int, int]
"""Row and column."""

_OBSERVATION = 6
_MOST_CELLS = 400
_MOST_SLACK = 16
_MOST_ROUTES = 200  # that a plan chooses from
_NEAR = 0.3
"""Distance, in cells, from the middle of a corridor up to which the next corner is cut."""


class MazeWaypointPolicy(ScriptedPolicy):
    """Steers a point through a maze to a goal, on a route of its own in each episode.

    The first step of an episode draws a route from the cell of the point to the cell of the goal:
    uniformly one of the paths that visit no cell twice and are at most `slack` cells longer than
    the shortest, or, with probability `detour`, such a path to a random cell and from there to the
    goal. It also draws how far the lane is from the middles of the cells. In each step, the force
    is proportional to the distance to the next cell's lane, minus a damping, and at most `force` on
    each axis. Gaussian noise is added, and the sum is rounded to hundredths, so that it takes
    little space in a file. At the goal, the point is held. A point that has left its route takes a
    shortest path from where it is.

    With `deterministic`, each action is that of a shortest path, in the middle of the corridor and
    without noise.

    Observations are the goal, the position and the velocity of the point, as x and y each: entries
    `desired_goal` and `observation` of PointMaze. Actions are two forces in [-1, 1].

    Args:
        observation_space: Box of shape (6,).
        action_space: Box of shape (2,).
        maze: Rows of the map from top to bottom, separated by `/`: `#` is a wall, `.` is free.
            Cells have side 1, and the middle of the map is the origin.
        slack: Cells by which a route may be longer than the shortest one.
        detour: Probability of a route through a random cell.
        lane: Largest distance between the lane and the middle of a cell, in each direction.
        force: Largest force on each axis before the noise.
        noise: Standard deviation of the noise on each force.
        gain: Force per unit of distance.
        damping: Force per unit of velocity.

    Raises:
        ValueError: A space or a setting is invalid; the message begins with its name.

    Source: the controller is that of the data sets of Fu et al. 2020, "D4RL: Datasets for Deep
    Data-Driven Reinforcement Learning", arXiv:2004.07219; the routes are this package's.
    """

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        *,
        maze: str,
        slack: int = 0,
        detour: float = 0.0,
        lane: float = 0.2,
        force: float = 0.7,
        noise: float = 0.15,
        gain: float = 10.0,
        damping: float = 1.0,
    ) -> None:
        super().__init__(observation_space, action_space)
        check_boxes(self, _OBSERVATION, 2)
        for name, value, least, most in (
            ("slack", slack, 0, _MOST_SLACK),
            ("detour", detour, 0, 1),
            ("lane", lane, 0, _NEAR),
            ("force", force, 0, 1),
            ("noise", noise, 0, 10),
            ("gain", gain, 0, 1000),
            ("damping", damping, 0, 1000),
        ):
            check_number(name, value, least, most, whole=name == "slack")
        self._settings: dict[str, Scalar] = {
            "maze": maze,
            "slack": slack,
            "detour": detour,
            "lane": lane,
            "force": force,
            "noise": noise,
            "gain": gain,
            "damping": damping,
        }
        self._slack, self._detour = slack, detour
        self._lane, self._force, self._noise = lane, force, noise
        self._gain, self._damping = gain, damping
        self.map = MazeMap(maze)

    @classmethod
    def for_environment(cls, env: gym.Env[Any, Any], **settings: Scalar) -> Self:
        """Builds the expert of a PointMaze environment, with the map of its maze."""
        rows = getattr(getattr(env.unwrapped, "maze", None), "maze_map", None)
        if rows is None:
            raise ValueError("maze: the environment has no map of a maze, as PointMaze has")
        text = "/".join("".join("#" if cell == 1 else "." for cell in row) for row in rows)
        return super().for_environment(env, maze=text, **settings)

    @property
    def settings(self) -> dict[str, Scalar]:
        """The keyword arguments that build this policy again."""
        return dict(self._settings)

    def initial_state(self, n_envs: int) -> State:
        """No plan yet: route as cell numbers (-1 beyond its end), index on it, and lane."""
        return (
            th.full((n_envs, self.map.longest_route), -1, dtype=th.int64),
            th.full((n_envs,), -1, dtype=th.int64),
            th.zeros((n_envs, 2), dtype=th.float64),
        )

    def act(
        self, observation: th.Tensor | dict[str, th.Tensor], state: State, deterministic: bool
    ) -> tuple[th.Tensor, State]:
        """Chooses one force per environment, shape (n_envs, 2)."""
        assert isinstance(observation, th.Tensor), "the space was checked"
        obs = observation.to("cpu", th.float64).numpy()
        routes, indices, lanes = (part.clone().numpy() for part in state)
        if deterministic:
            lanes[:] = 0.0
        targets = np.empty((len(obs), 2))
        for row, (goal, point) in enumerate(zip(obs[:, :2], obs[:, 2:4], strict=True)):
            here, there = self.map.cell_at(point), self.map.cell_at(goal)
            if indices[row] < 0 and not deterministic:
                routes[row] = self._drawn(here, there)
                indices[row] = 0
                lanes[row] = self._uniform(2) * 2 * self._lane - self._lane
            else:
                self._follow(routes[row], indices, row, here, there, deterministic)
            targets[row] = self._target(routes[row, indices[row] :], lanes[row], point, goal)
        force = self._gain * (targets - obs[:, 2:4]) - self._damping * obs[:, 4:]
        force = np.clip(force, -self._force, self._force)
        if not deterministic:
            force += self._noise * th.randn(force.shape, dtype=th.float64).numpy()
        chosen = th.as_tensor(np.round(np.clip(force, -1, 1), 2), dtype=th.float32)
        return chosen, (th.as_tensor(routes), th.as_tensor(indices), th.as_tensor(lanes))

    def _uniform(self, count: int) -> npt.NDArray[np.float64]:
        """Draws from [0, 1), shape (count,)."""
        drawn: npt.NDArray[np.float64] = th.rand(count, dtype=th.float64).numpy()
        return drawn

    def _choice(self, count: int) -> int:
        return int(th.randint(count, (1,)))

    def _drawn(self, here: Cell, there: Cell) -> npt.NDArray[np.int64]:
        """Draws a route."""
        via = there
        if self._uniform(1)[0] < self._detour:
            via = self.map.free[self._choice(len(self.map.free))]
        cells: list[Cell] = []
        for start, end in ((here, via), (via, there)) if via != there else ((here, there),):
            paths = self.map.paths(start, end, self._slack)
            cells = cells[:-1] + paths[self._choice(len(paths))]
        return self.map.encoded(cells)

    def _follow(
        self,
        route: npt.NDArray[np.int64],
        indices: npt.NDArray[np.int64],
        row: int,
        here: Cell,
        there: Cell,
        deterministic: bool,
    ) -> None:
        """Moves on along the route, or begins one from here if the point is beside it."""
        number = self.map.number(here)
        if not deterministic:
            ahead = np.flatnonzero(route[indices[row] : indices[row] + 3] == number)
            if len(ahead):
                indices[row] += ahead[0]
                return
        route[:] = self.map.encoded(self.map.paths(here, there, 0)[0])
        indices[row] = 0

    def _target(
        self,
        route: npt.NDArray[np.int64],
        lane: npt.NDArray[np.float64],
        point: npt.NDArray[np.float64],
        goal: npt.NDArray[np.float64],
    ) -> npt.NDArray[np.float64]:
        """Returns where to steer: to the goal, to the next cell, or to the middle of this one."""
        if len(route) < 2 or route[1] < 0:
            return goal
        here, following = (self.map.middle(int(number)) + lane for number in route[:2])
        across = int(abs(following[0] - here[0]) > 0.5)  # the axis beside that of the way
        return here if abs(point[across] - here[across]) > _NEAR else following


class MazeMap:
    """A maze of square cells of side 1, whose middle is the origin.

    Args:
        text: As `maze` of `MazeWaypointPolicy`.

    Attributes:
        rows: The rows of the map, from top to bottom.
        free: The free cells, from top left to bottom right.

    Raises:
        ValueError: The map is malformed, or some free cells cannot be reached from others.
    """

    def __init__(self, text: str) -> None:
        rows = text.split("/") if isinstance(text, str) else []
        if not rows or {len(row) for row in rows} != {len(rows[0])} or set("".join(rows)) - {*"#."}:
            raise ValueError("maze: must be rows of equal length of # and ., separated by /")
        if len(rows) * len(rows[0]) > _MOST_CELLS:
            raise ValueError(f"maze: must have at most {_MOST_CELLS} cells")
        self.rows = rows
        self.free: list[Cell] = [
            (i, j) for i, row in enumerate(rows) for j, cell in enumerate(row) if cell == "."
        ]
        self._routes: dict[tuple[Cell, Cell, int], list[list[Cell]]] = {}
        if not self.free or len(self._distances(self.free[0])) < len(self.free):
            raise ValueError("maze: its free cells must be connected")

    @cached_property
    def longest_route(self) -> int:
        """An upper bound of the number of cells of a route, a detour included."""
        return 2 * len(self.free)

    def cell_at(self, position: npt.NDArray[np.float64]) -> Cell:
        """Returns the free cell at a position, or the closest one.

        Args:
            position: x to the right and y upwards, shape (2,).
        """
        i = math.floor(len(self.rows) / 2 - position[1])
        j = math.floor(position[0] + len(self.rows[0]) / 2)
        if 0 <= i < len(self.rows) and 0 <= j < len(self.rows[0]) and self.rows[i][j] == ".":
            return i, j
        return min(self.free, key=lambda cell: float(np.sum((self._xy(cell) - position) ** 2)))

    def number(self, cell: Cell) -> int:
        """Returns the number of a cell, counted along the rows."""
        return cell[0] * len(self.rows[0]) + cell[1]

    def middle(self, number: int) -> npt.NDArray[np.float64]:
        """Returns the middle of the cell with a number, shape (2,)."""
        return self._xy(divmod(number, len(self.rows[0])))

    def _xy(self, cell: Cell) -> npt.NDArray[np.float64]:
        return np.array([cell[1] + 0.5 - len(self.rows[0]) / 2, len(self.rows) / 2 - cell[0] - 0.5])

    def encoded(self, cells: list[Cell]) -> npt.NDArray[np.int64]:
        """Returns the numbers of cells, -1 beyond the last, shape (longest_route,)."""
        numbers = np.full(self.longest_route, -1, dtype=np.int64)
        numbers[: len(cells)] = [self.number(cell) for cell in cells]
        return numbers

    def paths(self, start: Cell, end: Cell, slack: int) -> list[list[Cell]]:
        """Returns paths that visit no cell twice, shortest first.

        Args:
            start: First cell.
            end: Last cell.
            slack: Cells by which a path may be longer than the shortest.

        Returns:
            At least one; the first that a breadth-first search finds, if there are very many.
        """
        key = (start, end, slack)
        if key not in self._routes:
            self._routes[key] = self._search(start, end, slack)
        return self._routes[key]

    def _search(self, start: Cell, end: Cell, slack: int) -> list[list[Cell]]:
        left = self._distances(end)
        most = left[start] + slack
        found: list[list[Cell]] = []
        waiting = deque([[start]])
        while waiting and len(found) < _MOST_ROUTES:
            path = waiting.popleft()
            if path[-1] == end:
                found.append(path)
                continue
            for cell in self._around(path[-1]):
                if cell not in path and len(path) + left[cell] <= most:
                    waiting.append([*path, cell])
        return found

    def _distances(self, end: Cell) -> dict[Cell, int]:
        """Returns the length of the shortest path from each cell, in steps between cells."""
        distances = {end: 0}
        waiting = deque([end])
        while waiting:
            cell = waiting.popleft()
            for other in self._around(cell):
                if other not in distances:
                    distances[other] = distances[cell] + 1
                    waiting.append(other)
        return distances

    def _around(self, cell: Cell) -> list[Cell]:
        i, j = cell
        beside = ((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1))
        return [
            (a, b)
            for a, b in beside
            if 0 <= a < len(self.rows) and 0 <= b < len(self.rows[0]) and self.rows[a][b] == "."
        ]
