"""Compares bootstrap intervals with rliable: seconds on the same synthetic scores.

    python benchmarks/stats.py
    python benchmarks/stats.py --rliable-replicates 1000 --repeats 3

Both run alternately in this interpreter, on one thread; seconds are CPU time, which depends less on
the load of the machine. With 50,000 replicates, rliable takes minutes per turn: with
`--rliable-replicates` it computes fewer, and its seconds are scaled, as they are proportional to
the number of replicates.
"""

from __future__ import annotations

import argparse
import functools
import logging
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import comparison
import numpy as np
from rliable import library, metrics

from imitbench.stats.aggregates import interquartile_mean, mean, median, optimality_gap
from imitbench.stats.bootstrap import stratified_bootstraps
from imitbench.stats.improvement import improvement_matrix
from imitbench.stats.profiles import performance_profile

ALGORITHMS, RUNS, ENVIRONMENTS = 8, 10, 5
TARGET = 100.0

SCORES = {
    f"algorithm {i}": np.random.default_rng(i).normal(0.5 + 0.05 * i, 0.2, (RUNS, ENVIRONMENTS))
    for i in range(ALGORITHMS)
}
OURS = {"mean": mean, "median": median, "iqm": interquartile_mean, "gap": optimality_gap}
THRESHOLDS = np.linspace(0.0, 1.2, 101)


def our_aggregates(replicates: int) -> None:
    for matrix in SCORES.values():
        stratified_bootstraps(matrix, OURS, replicates=replicates, rng=np.random.default_rng(0))


def their_aggregates(replicates: int) -> None:
    def aggregates(scores: np.ndarray) -> np.ndarray:
        return np.array(
            [
                metrics.aggregate_mean(scores),
                metrics.aggregate_median(scores),
                metrics.aggregate_iqm(scores),
                metrics.aggregate_optimality_gap(scores),
            ]
        )

    library.get_interval_estimates(SCORES, aggregates, reps=replicates)


def our_improvements(replicates: int, algorithms: int) -> None:
    table = {
        name: {str(env): column for env, column in enumerate(matrix.T)}
        for name, matrix in list(SCORES.items())[:algorithms]
    }
    improvement_matrix(table, replicates=replicates, rng=np.random.default_rng(0))


def their_improvement(replicates: int) -> None:
    pair = list(SCORES.values())[:2]
    library.get_interval_estimates(
        {"pair": pair}, metrics.probability_of_improvement, reps=replicates
    )


def our_profile(replicates: int) -> None:
    scores = SCORES["algorithm 0"]
    performance_profile(scores, THRESHOLDS, replicates=replicates, rng=np.random.default_rng(0))


def their_profile(replicates: int) -> None:
    one = {"algorithm 0": SCORES["algorithm 0"]}
    library.create_performance_profile(one, THRESHOLDS, reps=replicates)


@dataclass(frozen=True)
class Comparison:
    """A computation that both support.

    Attributes:
        what: Description for the table.
        ours: Computes it with a number of replicates.
        theirs: Computes it with rliable, with a number of replicates.
    """

    what: str
    ours: Callable[[int], None]
    theirs: Callable[[int], None]


COMPARISONS = {
    "aggregates": Comparison(
        f"4 aggregates of {ALGORITHMS} algorithms", our_aggregates, their_aggregates
    ),
    "pair": Comparison(
        "probability of improvement, 1 pair",
        functools.partial(our_improvements, algorithms=2),
        their_improvement,
    ),
    "profile": Comparison(
        f"performance profile, {THRESHOLDS.size} thresholds, 1 algorithm",
        our_profile,
        their_profile,
    ),
}


def seconds(work: Callable[[int], None], replicates: int) -> float:
    start = time.process_time()
    work(replicates)
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--replicates", type=int, default=50_000)
    parser.add_argument("--rliable-replicates", type=int, help="fewer for rliable, time is scaled")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", choices=COMPARISONS, action="append")
    options = parser.parse_args()
    fewer = min(options.rliable_replicates or options.replicates, options.replicates)
    logging.disable()
    warnings.simplefilter("ignore")
    print(
        f"{RUNS} runs, {ENVIRONMENTS} environments, {options.replicates:,} replicates; "
        f"rliable measured with {fewer:,}"
    )
    comparison.print_heading(options.repeats)
    for name in options.only or COMPARISONS:
        each = COMPARISONS[name]
        ours, theirs = [], []
        for _ in range(options.repeats):
            ours.append(seconds(each.ours, options.replicates))
            theirs.append(seconds(each.theirs, fewer) * options.replicates / fewer)
        ratios = [their / our for our, their in zip(ours, theirs, strict=True)]
        missed = "" if statistics.median(ratios) >= TARGET else "; MISSED"
        print(comparison.row(f"{each.what}, seconds", ours, 3))
        print(comparison.row("rliable", theirs, 1))
        target = f"ratio of paired turns (target: at least {TARGET:g}{missed})"
        print(comparison.row(target, ratios, 0), flush=True)


if __name__ == "__main__":
    main()
