"""Which cells there are: failed runs, missing cells and what a comparison was made over.

A cell is one algorithm on one environment. Nothing here cuts data to make it even: a cell without
scores is named, and a comparison says over which environments it was made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from imitbench.stats.strata import FloatArray

Cells: TypeAlias = Mapping[str, npt.ArrayLike]
"""Scores of one algorithm by environment, each of shape (runs,); none where the cell is missing."""

Table: TypeAlias = Mapping[str, Cells]
"""Cells by algorithm."""


class FailurePolicy(Enum):
    """What a failed run counts as."""

    COUNT_AS_RANDOM = "count-as-random"
    EXCLUDE = "exclude"

    @property
    def statement(self) -> str:
        """What a report says about it."""
        if self is FailurePolicy.COUNT_AS_RANDOM:
            return "A failed run counts as the random reference, with the score 0."
        return (
            "Failed runs are left out, which favours methods that fail where they would score low."
        )


@dataclass(frozen=True, eq=False)
class CountedScores:
    """Scores of one algorithm once its failed runs were dealt with.

    Attributes:
        scores: By environment, shape (runs,), at least one each; a missing cell is absent.
        policy: How failed runs were dealt with.
        failures: Failed runs by environment, none where there were none.
        missing: Environments without any score, in the order asked for.
    """

    scores: dict[str, FloatArray]
    policy: FailurePolicy
    failures: dict[str, int]
    missing: tuple[str, ...]


def count_failures(
    scores: Cells,
    failures: Mapping[str, int],
    policy: FailurePolicy,
    *,
    environments: Sequence[str] = (),
) -> CountedScores:
    """Applies a policy to an algorithm's failed runs.

    Neither policy is neutral. Counting them as random is the one to choose between methods by:
    who uses a method gets its failures, too. Leaving them out answers what a method scores when
    it works, and is right where runs failed for reasons that are not the method's.

    Args:
        scores: Scores of the completed runs by environment.
        failures: Number of failed runs by environment; runs that were never started are none.
        policy: What each of them counts as.
        environments: All environments of the suite, so that missing ones are named.

    Returns:
        The scores, and what was done.

    Raises:
        ValueError: A number of failures is negative.
    """
    for environment, count in failures.items():
        if count < 0:
            raise ValueError(f"failures: {environment} has {count}, which is negative")
    known = sorted({*scores, *failures})
    counted: dict[str, FloatArray] = {}
    for environment in known:
        runs = np.asarray(scores.get(environment, ()), dtype=np.float64)
        if policy is FailurePolicy.COUNT_AS_RANDOM:
            runs = np.concatenate([runs, np.zeros(failures.get(environment, 0))])
        if runs.size:
            counted[environment] = runs
    asked = [*environments, *(name for name in known if name not in set(environments))]
    return CountedScores(
        scores=counted,
        policy=policy,
        failures={name: failures[name] for name in sorted(failures) if failures[name]},
        missing=tuple(name for name in asked if name not in counted),
    )


@dataclass(frozen=True)
class Cell:
    """One algorithm on one environment.

    Attributes:
        algorithm: Name of the algorithm.
        environment: Name of the environment.
    """

    algorithm: str
    environment: str


@dataclass(frozen=True)
class Coverage:
    """What a comparison was made over.

    Attributes:
        algorithms: Compared algorithms, in the order given.
        environments: Those on which all of them have scores, sorted: the comparison is over
            these.
        missing: Cells without scores on environments that some other has, sorted by environment:
            why these environments are left out.
        runs: Runs of each algorithm on the compared environments, least and most.
    """

    algorithms: tuple[str, ...]
    environments: tuple[str, ...]
    missing: tuple[Cell, ...]
    runs: tuple[tuple[int, int], ...]

    @property
    def complete(self) -> bool:
        """Whether no environment had to be left out."""
        return not self.missing


def coverage(table: Table) -> Coverage:
    """Finds the environments that all algorithms have scores on.

    Args:
        table: Scores by algorithm and environment.

    Returns:
        The environments, none if there are no common ones, and the missing cells.
    """
    present = {name: [env for env in cells if np.size(cells[env])] for name, cells in table.items()}
    everywhere = sorted({env for names in present.values() for env in names})
    missing = tuple(
        Cell(name, env) for env in everywhere for name, has in present.items() if env not in has
    )
    apart = {cell.environment for cell in missing}
    common = tuple(env for env in everywhere if env not in apart)
    sizes = [[np.size(cells[env]) for env in common] or [0] for cells in table.values()]
    return Coverage(
        tuple(table), common, missing, tuple((min(counts), max(counts)) for counts in sizes)
    )


def compared_coverage(table: Table) -> tuple[dict[str, dict[str, FloatArray]], Coverage]:
    """Restricts algorithms to the environments that all of them have scores on.

    Args:
        table: Scores by algorithm and environment. Numbers of runs may differ, and stay as they
            are.

    Returns:
        The same table on the common environments, and what these are.
    """
    over = coverage(table)
    restricted = {
        name: {env: np.asarray(cells[env], dtype=np.float64) for env in over.environments}
        for name, cells in table.items()
    }
    return restricted, over


def require_common_environments(over: Coverage) -> None:
    """Refuses a comparison without any common environment.

    Raises:
        ValueError: There is none; the message says which algorithms were to be compared.
    """
    if not over.environments:
        raise ValueError(
            f"no environment has scores of all of {', '.join(over.algorithms) or 'no algorithms'}; "
            "compare fewer algorithms or run the missing cells"
        )
