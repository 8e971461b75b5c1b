"""Plans for PushT: a way around the block to a point on its edge, and a push from there."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from imitbench.policies.pusht_world import AGENT_RADIUS, OUTLINE, PushTState, PushTWorld

Array = npt.NDArray[np.float64]

MOST_STEPS = 64
"""Longest plan, in steps; a longer one is cut off there, and made anew."""

_LOW, _HIGH = 12.0, 500.0  # of where the agent goes, in pixels
_GAP = 4.0  # between the agent and the block before a push, in pixels
_CLEAR = AGENT_RADIUS + 4.0  # of ways around the block
_AROUND = AGENT_RADIUS + 9.0  # distance of the corners of ways
_CONVEX = (0, 1, 2, 4, 5, 7)  # corners of the outline that ways go around
_WIDEST = 0.8  # angle between a push and the normal of the edge, in radians
_REST = 3  # steps that end a push, in which the agent comes to rest
_ELITES = 10
_SCALES = (1.0, 0.4)  # of the changes in each refinement


@dataclass(frozen=True)
class PushSettings:
    """How plans are searched.

    Attributes:
        samples: Pushes that are drawn and simulated at first; each of the two refinements has a
            third as many.
        candidates: Best pushes whose whole plans are simulated.
        step_cost: Cost of a step, in pixels of error.
        free_speed: Speed of the target on the way, in pixels per step.
        push_speed: Speed of the target in a push, in pixels per step.
    """

    samples: int = 90
    candidates: int = 6
    step_cost: float = 0.12
    free_speed: float = 24.0
    push_speed: float = 12.0


@dataclass(frozen=True)
class Plan:
    """Actions, and what they are predicted to do.

    Attributes:
        targets: Actions, shape (steps, 2), in pixels.
        expected: Observations after each, shape (steps, 5).
        cost: Error after the last one, plus the cost of its steps.
    """

    targets: npt.NDArray[np.float32]
    expected: Array
    cost: float


@dataclass(frozen=True)
class _Pushes:
    """Straight pushes, one per row.

    Attributes:
        edge: Edge of the outline at which each begins.
        position: Position on the edge, from 0 to 1.
        slant: Angle between push and normal of the edge, in radians.
        length: Pixels that the block's edge moves.
    """

    edge: npt.NDArray[np.int64]
    position: Array
    slant: Array
    length: Array

    def __len__(self) -> int:
        return len(self.edge)

    def followed_by(self, other: _Pushes) -> _Pushes:
        joined: list[Any] = [
            np.concatenate([getattr(self, name), getattr(other, name)])
            for name in ("edge", "position", "slant", "length")
        ]
        return _Pushes(*joined)

    def geometry(self, corners: Array) -> tuple[Array, Array]:
        """Returns where the agent starts, and the directions, each of shape (pushes, 2)."""
        edges = np.roll(corners, -1, 0) - corners
        along = edges / np.linalg.norm(edges, axis=1, keepdims=True)
        inward = np.stack([-along[:, 1], along[:, 0]], 1)[self.edge]
        cos, sin = np.cos(self.slant)[:, None], np.sin(self.slant)[:, None]
        direction = inward * cos + np.stack([-inward[:, 1], inward[:, 0]], 1) * sin
        touched = corners[self.edge] + edges[self.edge] * self.position[:, None]
        return touched - direction * (AGENT_RADIUS + _GAP) / cos, direction


_EDGE_LENGTHS: Array = np.linalg.norm(np.roll(OUTLINE, -1, 0) - OUTLINE, axis=1)


def _drawn(count: int, error: float, rng: np.random.Generator) -> _Pushes:
    """Draws pushes: uniform on the outline, rather straight, of all lengths."""
    longest = max(8.0, min(160.0, 3 * error))
    return _Pushes(
        rng.choice(len(OUTLINE), size=count, p=_EDGE_LENGTHS / _EDGE_LENGTHS.sum()),
        rng.uniform(0.04, 0.96, count),
        np.clip(rng.normal(0, 0.35, count), -_WIDEST, _WIDEST),
        np.exp(rng.uniform(math.log(1.5), math.log(longest), count)),
    )


def _changed(best: _Pushes, count: int, scale: float, rng: np.random.Generator) -> _Pushes:
    """Draws pushes near good ones."""
    row = rng.integers(len(best), size=count)
    edge = best.edge[row]
    shift = rng.normal(0, 8.0 * scale, count) / _EDGE_LENGTHS[edge]
    return _Pushes(
        edge,
        np.clip(best.position[row] + shift, 0.02, 0.98),
        np.clip(best.slant[row] + rng.normal(0, 0.12 * scale, count), -_WIDEST, _WIDEST),
        np.maximum(0.5, best.length[row] * np.exp(rng.normal(0, 0.25 * scale, count))),
    )


def plan_pushes(
    world: PushTWorld, state: PushTState, settings: PushSettings, rng: np.random.Generator
) -> list[Plan]:
    """Searches for pushes that bring the block closer to the goal.

    Pushes are drawn at random positions on the block's outline and simulated from there, and the
    best are refined twice (the cross-entropy method, Rubinstein 1999). Of the best that differ, the
    whole plans are simulated, with the way around the block.

    Args:
        world: Simulation, which is changed.
        state: Where agent and block are.
        settings: Of the search.
        rng: Draws the pushes.

    Returns:
        Plans, the one of the lowest cost first; empty if there is none.
    """
    import shapely

    corners = state.outline()
    block = shapely.Polygon(corners)
    world.restore(state)
    pushes = _drawn(settings.samples, world.error(), rng)
    costs = _costs(world, state, pushes, corners, block, settings)
    for scale in _SCALES:
        best = np.argsort(costs)[:_ELITES]
        chosen = _Pushes(
            pushes.edge[best], pushes.position[best], pushes.slant[best], pushes.length[best]
        )
        more = _changed(chosen, settings.samples // 3, scale, rng)
        costs = np.concatenate([costs, _costs(world, state, more, corners, block, settings)])
        pushes = pushes.followed_by(more)
    starts, directions = pushes.geometry(corners)
    plans = []
    for row in _different(costs, starts, pushes.length, settings.candidates):
        way = _way(np.array(state.agent), starts[row], corners, block)
        if way is not None:
            end = starts[row] + directions[row] * (pushes.length[row] + _GAP)
            plans.append(_simulated(world, state, _targets(way, end, settings), settings))
    return sorted(plans, key=lambda plan: plan.cost)


def _costs(
    world: PushTWorld,
    state: PushTState,
    pushes: _Pushes,
    corners: Array,
    block: Any,
    settings: PushSettings,
) -> Array:
    """Simulates each push from its start; infinite where it leaves the plane or has no room."""
    import shapely

    starts, directions = pushes.geometry(corners)
    ends = starts + directions * (pushes.length + _GAP)[:, None]
    room = shapely.distance(shapely.points(starts), block) >= AGENT_RADIUS + 2.5
    inside = ((starts > _LOW) & (starts < _HIGH) & (ends > 2) & (ends < 510)).all(1)
    costs = np.full(len(pushes), np.inf)
    for row in np.flatnonzero(room & inside):
        start = (float(starts[row, 0]), float(starts[row, 1]))
        world.restore(PushTState(start, (0.0, 0.0), state.block, state.angle))
        targets = list(_line(starts[row], ends[row], settings.push_speed))
        for target in targets + [ends[row]] * _REST:
            world.advance(target)
        travel = math.dist(start, state.agent) / settings.free_speed
        steps = len(targets) + _REST + travel
        costs[row] = world.error() + settings.step_cost * steps
    return costs


def _different(costs: Array, starts: Array, lengths: Array, count: int) -> list[int]:
    """Returns the best pushes that start at other positions or are of other lengths."""
    found: list[int] = []
    for row in map(int, np.argsort(costs)):
        if len(found) == count or not np.isfinite(costs[row]):
            break
        if all(
            math.dist(starts[row], starts[other]) > 10 or abs(lengths[row] - lengths[other]) > 8
            for other in found
        ):
            found.append(row)
    return found


def _line(start: Array, end: Array, speed: float) -> Iterator[Array]:
    """Yields points from one to another, the end included, at most `speed` apart."""
    count = max(1, math.ceil(math.dist(start, end) / speed))
    return (start + (end - start) * number / count for number in range(1, count + 1))


def _targets(way: Sequence[Array], end: Array, settings: PushSettings) -> npt.NDArray[np.float32]:
    """Returns the actions of a plan, in half pixels so that demonstrations take less space."""
    points = [
        point for start, stop in pairwise(way) for point in _line(start, stop, settings.free_speed)
    ]
    points += [way[-1]] * 2  # the agent lags behind the target
    points += [*_line(way[-1], end, settings.push_speed)] + [end] * _REST
    rounded = np.round(np.array(points[:MOST_STEPS]) * 2) / 2
    return np.clip(rounded, 0, 512).astype(np.float32)


def _simulated(
    world: PushTWorld,
    state: PushTState,
    targets: npt.NDArray[np.float32],
    settings: PushSettings,
) -> Plan:
    """Simulates a plan up to a success."""
    world.restore(state)
    expected = []
    error = math.inf
    for target in targets:
        world.advance(target)
        after = world.state()
        expected.append((*after.agent, *after.block, after.angle % (2 * math.pi)))
        error = world.error()
        if world.solved():
            error = 0.0
            break
    done = len(expected)
    return Plan(targets[:done], np.array(expected), error + settings.step_cost * done)


def _way(start: Array, end: Array, corners: Array, block: Any) -> list[Array] | None:
    """Returns the points of the shortest way around the block; `None` if there is none."""
    import shapely

    nodes = [start, end]
    left = _leaving(start, block)
    if left is not None:
        nodes[0] = left
    for number in _CONVEX:
        before = corners[number] - corners[number - 1]
        after = corners[(number + 1) % len(corners)] - corners[number]
        outward = before / np.linalg.norm(before) - after / np.linalg.norm(after)
        node = corners[number] + _AROUND * outward
        if ((node > _LOW - 6) & (node < _HIGH + 6)).all():
            nodes.append(node)
    points = np.array(nodes)
    first, second = np.triu_indices(len(points), 1)
    lines = shapely.linestrings(np.stack([points[first], points[second]], 1))
    room = shapely.distance(shapely.points(points), block)
    free = shapely.distance(lines, block) >= np.minimum(
        _CLEAR, np.minimum(room[first], room[second]) - 0.5
    )
    lengths = np.linalg.norm(points[first] - points[second], axis=1)
    neighbors: list[list[tuple[int, float]]] = [[] for _ in points]
    for one, other, length in zip(first[free], second[free], lengths[free], strict=True):
        neighbors[one].append((int(other), float(length)))
        neighbors[other].append((int(one), float(length)))
    found = _shortest(neighbors)
    if found is None:
        return None
    way = [points[number] for number in found]
    return way if left is None else [start, *way]


def _shortest(neighbors: Sequence[Sequence[tuple[int, float]]]) -> list[int] | None:
    """Returns the shortest path from node 0 to node 1 (Dijkstra 1959)."""
    waiting: list[tuple[float, list[int]]] = [(0.0, [0])]
    done: set[int] = set()
    while waiting:
        length, path = heapq.heappop(waiting)
        if path[-1] == 1:
            return path
        if path[-1] not in done:
            done.add(path[-1])
            for other, more in neighbors[path[-1]]:
                heapq.heappush(waiting, (length + more, [*path, other]))
    return None


def _leaving(start: Array, block: Any) -> Array | None:
    """Returns the nearest point with room around the block; `None` if the agent is at one."""
    import shapely

    if shapely.distance(shapely.Point(start), block) >= _CLEAR + 1:
        return None
    turns = np.arange(24) * math.pi / 12
    for far in (6, 12, 18, 24, 30):
        points = start + far * np.stack([np.cos(turns), np.sin(turns)], 1)
        inside = ((points > _LOW - 6) & (points < _HIGH + 6)).all(1)
        room = np.where(inside, shapely.distance(shapely.points(points), block), 0.0)
        if room.max() >= _CLEAR + 1:
            found: Array = points[room.argmax()]
            return found
    return None
