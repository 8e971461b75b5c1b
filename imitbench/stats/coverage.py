"""Handles failed runs and missing cells, and finds the common environments of comparisons.

A cell is one algorithm on one environment. Nothing here drops data to make counts equal: missing
cells are listed, and a comparison records its environments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from imitbench.stats.strata import FloatArray

Cells: TypeAlias = Mapping[str, npt.ArrayLike]
"""Scores of one algorithm by environment, each of shape (runs,); empty if the cell is missing."""

Table: TypeAlias = Mapping[str, Cells]
"""Cells of several algorithms, by name."""


class FailurePolicy(Enum):
    """How failed runs count."""

    COUNT_AS_RANDOM = "count-as-random"
    EXCLUDE = "exclude"

    @property
    def statement(self) -> str:
        """Sentence for reports."""
        if self is FailurePolicy.COUNT_AS_RANDOM:
            return "A failed run counts as the random reference, with the score 0."
        return (
            "Failed runs are left out, which favors methods that fail where they would score low."
        )


def count_failures(
    scores: Cells, failures: Mapping[str, int], policy: FailurePolicy
) -> dict[str, FloatArray]:
    """Applies a policy to an algorithm's failed runs.

    Neither policy is neutral. To choose between methods, count failed runs as random: users of a
    method also get its failures. Excluding them shows the score of a method when it works; this
    is right if runs failed for reasons outside the method.

    Args:
        scores: Scores of the completed runs by environment.
        failures: Number of failed runs by environment; runs that never started do not count.
        policy: How each of them counts.

    Returns:
        Scores by environment, sorted, shape (runs,), at least one each; a missing cell is absent.

    Raises:
        ValueError: A number of failures is negative.
    """
    for environment, count in failures.items():
        if count < 0:
            raise ValueError(f"failures: {environment} has {count}, which is negative")
    counted: dict[str, FloatArray] = {}
    for environment in sorted({*scores, *failures}):
        runs = np.asarray(scores.get(environment, ()), dtype=np.float64)
        if policy is FailurePolicy.COUNT_AS_RANDOM:
            runs = np.concatenate([runs, np.zeros(failures.get(environment, 0))])
        if runs.size:
            counted[environment] = runs
    return counted


@dataclass(frozen=True)
class MissingCell:
    """One algorithm on one environment."""

    algorithm: str
    environment: str


@dataclass(frozen=True)
class Coverage:
    """The environments of a comparison.

    Attributes:
        algorithms: Compared algorithms, in the order given.
        environments: Environments on which all of them have scores, sorted: the comparison is over
            these.
        missing: Cells without scores on environments that another algorithm has, sorted by
            environment. They are the reason why these environments are excluded.
        runs: Number of runs of each algorithm on the compared environments, least and most.
    """

    algorithms: tuple[str, ...]
    environments: tuple[str, ...]
    missing: tuple[MissingCell, ...]
    runs: tuple[tuple[int, int], ...]


def coverage(table: Table) -> Coverage:
    """Finds the environments on which all algorithms have scores.

    Args:
        table: Scores by algorithm and environment.

    Returns:
        The common environments, possibly none, and the missing cells.
    """
    present = {name: [env for env in cells if np.size(cells[env])] for name, cells in table.items()}
    everywhere = sorted({env for names in present.values() for env in names})
    missing = tuple(
        MissingCell(name, env)
        for env in everywhere
        for name, has in present.items()
        if env not in has
    )
    apart = {cell.environment for cell in missing}
    common = tuple(env for env in everywhere if env not in apart)
    sizes = [[np.size(cells[env]) for env in common] or [0] for cells in table.values()]
    return Coverage(
        tuple(table), common, missing, tuple((min(counts), max(counts)) for counts in sizes)
    )


def compared_coverage(table: Table) -> tuple[dict[str, dict[str, FloatArray]], Coverage]:
    """Restricts a table to the environments on which all algorithms have scores.

    Args:
        table: Scores by algorithm and environment. Numbers of runs may differ, and do not
            change.

    Returns:
        The table on the common environments, and its coverage.
    """
    over = coverage(table)
    restricted = {
        name: {env: np.asarray(cells[env], dtype=np.float64) for env in over.environments}
        for name, cells in table.items()
    }
    return restricted, over
