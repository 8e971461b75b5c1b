"""Measures the coverage of the "95 %" percentile interval of the mean, by number of runs.

    python benchmarks/interval_coverage.py

draws normal scores with a known mean on one and on five environments, and counts how often the
interval contains it.
"""

from __future__ import annotations

import argparse

import numpy as np

from imitbench.stats.aggregates import mean
from imitbench.stats.bootstrap import stratified_bootstraps

REPLICATES = 2_000


def coverage(runs: int, environments: int, experiments: int) -> float:
    """Returns the share of experiments whose interval contains the true mean."""
    rng = np.random.default_rng([runs, environments])
    covered = 0
    for _ in range(experiments):
        scores = rng.normal(0.8, 0.1, size=(runs, environments))
        found = stratified_bootstraps(scores, {"mean": mean}, replicates=REPLICATES, rng=rng)
        covered += found["mean"].low <= 0.8 <= found["mean"].high
    return covered / experiments


def main() -> None:
    """Prints a line for each number of runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--experiments", type=int, default=4000)
    experiments = parser.parse_args().experiments
    print("| runs | 1 environment | 5 environments |")
    print("| ---: | ---: | ---: |")
    for runs in (3, 5, 10):
        shown = [f"{coverage(runs, count, experiments):.0%}" for count in (1, 5)]
        print(f"| {runs} | {' | '.join(shown)} |")


if __name__ == "__main__":
    main()
