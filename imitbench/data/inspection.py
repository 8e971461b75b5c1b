"""Finds all problems of a data set of demonstrations, row by row."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import gymnasium as gym

from imitbench.data.arrow_table import TableRow
from imitbench.data.demonstration_checks import (
    NO_REWARDS,
    bounds_problem,
    describe,
    fitted,
    row_problem,
)
from imitbench.data.parquet_source import ParquetSource
from imitbench.data.trajectory_source import TrajectorySource
from imitbench.errors import InputError


@dataclass
class Inspection:
    """Findings about a data set.

    Attributes:
        where: Name of the data set.
        form: Format of the data set.
        rows: Number of trajectories inspected.
        steps: Number of actions in them.
        unfinished: Trajectories that are not marked as the end of an episode.
        problems: Why the data set cannot be used, each with the row.
        notes: Suspicious findings.
    """

    where: str
    form: str
    rows: int = 0
    steps: int = 0
    unfinished: int = 0
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Returns all fields as JSON values."""
        return asdict(self)


def inspect_demonstrations(
    source: TrajectorySource,
    *,
    environment: gym.Env[Any, Any] | None = None,
    limit: int | None = None,
) -> Inspection:
    """Checks every row, without stopping at the first problem.

    Checks lengths, finite numbers, rewards, and that all rows have the same shapes and data
    types; with an environment, also its spaces and its time limit. Formats that must be converted
    before a training are checked as their conversion stores them.

    Args:
        source: Data set to inspect.
        environment: Environment that the demonstrations should fit.
        limit: Maximum number of rows; None for all.

    Returns:
        The findings. If reading stops at a damaged row, this is the last problem.
    """
    found = Inspection(source.where, source.form)
    first: TableRow | None = None
    unrewarded: list[int] = []
    outside: dict[str, list[tuple[int, str]]] = {"observations": [], "actions": []}
    spaces = (environment.observation_space, environment.action_space) if environment else ()
    horizon = environment.spec.max_episode_steps if environment and environment.spec else None
    try:
        for chunk in source.chunks(with_infos=True, limit=limit):
            lengths = None if chunk.infos is None else chunk.infos.value_lengths().to_pylist()
            stored = chunk.rows
            if environment is not None and not isinstance(source, ParquetSource):
                stored = [fitted(row, environment, untyped=source.untyped) for row in stored]
            for index, row in enumerate(stored):
                number = chunk.first_row + index
                first = first or row
                problem = (
                    row_problem(row, *spaces)
                    or _difference(row, first)
                    or _flag_problem(row, horizon)
                    or _infos_problem(row, lengths[index] if lengths is not None else None)
                )
                if problem:
                    found.problems.append(f"episode {number}: {problem}")
                if row.rews is None:
                    unrewarded.append(number)
                found.rows += 1
                found.steps += len(row.acts)
                found.unfinished += not row.terminal
                for name, values, space in zip(
                    ("observations", "actions"), (row.obs, row.acts), spaces, strict=False
                ):
                    if outlier := bounds_problem(name, values, space):
                        outside[name].append((number, outlier))
    except InputError as error:
        found.problems.append(str(error))
    if 0 < len(unrewarded) < found.rows:
        found.problems.append(
            f"episode {unrewarded[0]}: no rewards, in {len(unrewarded)} of {found.rows} episodes: "
            "store rows with and without rewards separately"
        )
    elif unrewarded:
        found.notes.append(NO_REWARDS)
    for rows in outside.values():
        if rows:
            found.notes.append(f"episode {rows[0][0]}: {rows[0][1]} ({len(rows)} episodes in all)")
    if found.unfinished:
        found.notes.append(
            f"{found.unfinished} of {found.rows} trajectories are not marked as the end of an "
            "episode: they count as fragments"
        )
    return found


def _difference(row: TableRow, first: TableRow) -> str | None:
    for name, values, others in (
        ("observations", row.obs, first.obs),
        ("actions", row.acts, first.acts),
    ):
        if describe(values) != describe(others):
            return (
                f"{name} are {describe(values)}, those of the first episode are "
                f"{describe(others)}: "
                "store them separately"
            )
    return None


def _flag_problem(row: TableRow, horizon: int | None) -> str | None:
    if horizon is None or len(row.acts) < horizon:
        return None
    if len(row.acts) > horizon:
        return (
            f"{len(row.acts)} steps, but episodes of the environment end after {horizon}: "
            "episodes were joined, or it is another environment"
        )
    if not row.terminal:
        return f"not marked as the end of an episode, though it has all {horizon} steps"
    return None


def _infos_problem(row: TableRow, infos: int | None) -> str | None:
    if infos is None or infos == len(row.acts):
        return None
    return f"there are {infos} infos for {len(row.acts)} actions: remove the episode"
