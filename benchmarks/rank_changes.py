"""Measures how often `imitbench.stats.rank_changes` errs, and how often it finds a change.

    python benchmarks/rank_changes.py [--experiments 300]

Six methods are drawn under two conditions. Means are those of each scenario below; the two tests at
5 % ask whether differences between methods depend on the condition (`interaction`), and whether any
two of them change their order (`order`). In all scenarios but the last three the order does not
change, so that at most 5 % of its tests may say that it does.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from imitbench.report.markdown import table
from imitbench.stats.rank_changes import rank_changes

METHODS, PERMUTATIONS, LEVEL = 6, 499, 0.05
SIZES = ((3, 1), (3, 5), (5, 3), (10, 1), (10, 5))
"""Runs, and environments."""

Draw = Callable[[np.random.Generator, float, int], np.ndarray]
"""Scores of a mean, and of a number of runs."""


def normal(rng: np.random.Generator, mean: float, runs: int) -> np.ndarray:
    return rng.normal(mean, 0.1, runs)


def wide(rng: np.random.Generator, mean: float, runs: int) -> np.ndarray:
    return rng.normal(mean, 0.3, runs)


def collapsing(rng: np.random.Generator, mean: float, runs: int) -> np.ndarray:
    return rng.normal(mean + 0.1, 0.03, runs) - 0.5 * (rng.random(runs) < 0.2)


EQUAL = np.full(METHODS, 0.5)
SPREAD = np.linspace(0.1, 0.9, METHODS)
LOW = np.full(METHODS, 0.2)
NEIGHBORS = SPREAD[[1, 0, 2, 3, 4, 5]]

SCENARIOS: dict[str, tuple[np.ndarray, np.ndarray, Draw, Draw]] = {
    "all equal": (EQUAL, EQUAL, normal, normal),
    "all equal, runs spread more": (EQUAL, EQUAL, normal, wide),
    "all equal, some runs collapse": (EQUAL, EQUAL, normal, collapsing),
    "all lower": (SPREAD, SPREAD - 0.3, normal, normal),
    "all lower, runs spread more": (SPREAD, SPREAD - 0.3, normal, wide),
    "differences halved": (SPREAD, SPREAD / 2, normal, normal),
    "different, then all equal": (SPREAD, LOW, normal, normal),
    "different, then all equal, some collapse": (SPREAD, LOW, normal, collapsing),
    "order reversed": (SPREAD, SPREAD[::-1], normal, normal),
    "two neighbors swapped": (SPREAD, NEIGHBORS, normal, normal),
    "order reversed, runs spread more": (SPREAD, SPREAD[::-1], normal, wide),
}


def rates(name: str, runs: int, environments: int, experiments: int) -> tuple[float, float]:
    """Returns the share of experiments in which each of the two tests rejects."""
    *means, first, second = SCENARIOS[name]
    rng = np.random.default_rng([runs, environments, *name.encode()])
    found = np.zeros(2)
    for _ in range(experiments):
        tables = [
            {
                f"m{at}": {str(env): draw(rng, mean, runs) for env in range(environments)}
                for at, mean in enumerate(own)
            }
            for own, draw in zip(means, (first, second), strict=True)
        ]
        result = rank_changes(*tables, permutations=PERMUTATIONS)
        assert result is not None
        found += (result.interaction.p_value <= LEVEL, result.p_value <= LEVEL)
    return float(found[0] / experiments), float(found[1] / experiments)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiments", type=int, default=300)
    experiments = parser.parse_args().experiments
    rows = [
        [
            name,
            str(runs),
            str(envs),
            *(f"{rate:.1%}" for rate in rates(name, runs, envs, experiments)),
        ]
        for name in SCENARIOS
        for runs, envs in SIZES
    ]
    print(table(["scores", "runs", "environments", "interaction", "order"], rows, 1))


if __name__ == "__main__":
    main()
