"""Computes performance profiles and probabilities of improvement of a section's algorithms."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from imitbench.records.selection import Acting
from imitbench.report.model import Section, StatisticsSettings
from imitbench.stats.bootstrap import ConfidenceBand
from imitbench.stats.coverage import compared_coverage, count_failures
from imitbench.stats.improvement import ImprovementMatrix, improvement_matrix
from imitbench.stats.profiles import performance_profile
from imitbench.stats.strata import FloatArray

THRESHOLDS = 121
_WIDEST = (-0.5, 1.5)


@dataclass(frozen=True)
class SectionComparison:
    """Comparison of the algorithms of one section; failed runs count as the settings say.

    Attributes:
        algorithms: Names with runs and finite scores, in the order of the section; without controls
            and anchors.
        environments: Environments on which all of them have runs; profiles are over these.
        profiles: Performance profile by algorithm; empty without common environments.
        improvement: Probabilities of improvement of all pairs, each over the environments that
            the two share; `None` for fewer than two algorithms.
    """

    algorithms: tuple[str, ...]
    environments: tuple[str, ...]
    profiles: dict[str, ConfidenceBand]
    improvement: ImprovementMatrix | None


def compare_section(
    section: Section, method: StatisticsSettings, acting: Acting | None = None
) -> SectionComparison | None:
    """Compares the algorithms of a section.

    Args:
        section: The section, with its runs.
        method: Settings of the bootstrap: replicates, seed and level.
        acting: Way of acting that is compared; `None` for the section's first one.

    Returns:
        The comparison; `None` if no algorithm has runs and finite scores.
    """
    names = tuple(
        result.algorithm
        for result in section.algorithms
        if result.kind == "run" and result.iqm is not None and result.role == "method"
    )
    if not names:
        return None
    arrays = section_scores(section, method, names, acting or section.acting[0])
    common, over = compared_coverage(arrays)
    profiles = {}
    if over.environments:
        everything = np.concatenate([np.ravel(s) for c in common.values() for s in c.values()])
        low = max(_WIDEST[0], min(0.0, float(everything.min())))
        high = min(_WIDEST[1], max(1.0, float(everything.max())))
        at = np.linspace(low, high, THRESHOLDS)
        profiles = {
            name: performance_profile(
                common[name],
                at,
                replicates=method.replicates,
                level=method.level,
                rng=np.random.default_rng(method.seed),
            )
            for name in names
        }
    improvement = None
    if len(names) > 1:
        improvement = improvement_matrix(
            arrays,
            replicates=method.replicates,
            level=method.level,
            rng=np.random.default_rng(method.seed),
        )
    return SectionComparison(names, over.environments, profiles, improvement)


def section_scores(
    section: Section, method: StatisticsSettings, names: Collection[str], acting: Acting
) -> dict[str, dict[str, FloatArray]]:
    """Returns the scores of some algorithms of a section, by algorithm and environment.

    Args:
        section: The section, with its runs.
        method: Its settings, which say how failed runs count.
        names: Names of the algorithms.
        acting: Way of acting.
    """
    table: dict[str, dict[str, list[float]]] = {name: {} for name in names}
    for row in section.runs:
        if row.algo in table:
            table[row.algo].setdefault(row.env, []).append(row.score_by(acting))
    failed = {
        result.algorithm: {cell.environment: cell.failures for cell in result.cells}
        for result in section.algorithms
    }
    return {
        name: count_failures(cells, failed[name], method.failed_runs)
        for name, cells in table.items()
    }
