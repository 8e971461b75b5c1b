"""Intervals have their nominal coverage, where theory says that they should.

500 synthetic experiments each, of runs whose distribution is known. The share that covers has a
standard error of 1 %. Percentile intervals of n runs are too narrow by about
sqrt(1 - 1/n), so there are enough runs that this costs less than half a percent.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from imitbench.stats.aggregates import interquartile_mean, mean, optimality_gap
from imitbench.stats.bootstrap import Interval, stratified_bootstraps
from imitbench.stats.improvement import probability_of_improvement
from imitbench.stats.profiles import performance_profile
from imitbench.stats.significance import welch

EXPERIMENTS = 500
REPLICATES = 500
NORMAL = NormalDist()


def covers(interval: Interval, truth: float) -> bool:
    return interval.low <= truth <= interval.high


def test_aggregates() -> None:
    generator = np.random.default_rng(1)
    statistics = {"mean": mean, "iqm": interquartile_mean, "gap": optimality_gap}
    # Normal scores around the target: the mean shortfall is the density at 0.
    truths = {"mean": 1.0, "iqm": 1.0, "gap": 1 / math.sqrt(2 * math.pi)}
    covered = dict.fromkeys(statistics, 0)
    for _ in range(EXPERIMENTS):
        scores = generator.normal(1.0, 1.0, size=(30, 4))
        found = stratified_bootstraps(scores, statistics, replicates=REPLICATES, rng=generator)
        for name, truth in truths.items():
            covered[name] += covers(found[name], truth)
    for name, count in covered.items():
        assert 0.93 <= count / EXPERIMENTS <= 0.97, name


def test_probability_of_improvement_with_unequal_numbers_of_runs() -> None:
    generator = np.random.default_rng(2)
    gaps = {"a": -0.2, "b": 0.6}
    truth = float(np.mean([NORMAL.cdf(gap / math.sqrt(2)) for gap in gaps.values()]))
    covered = 0
    for _ in range(EXPERIMENTS):
        first = {env: generator.normal(gap, 1.0, size=40) for env, gap in gaps.items()}
        second = {env: generator.normal(size=30) for env in gaps}
        found = probability_of_improvement(first, second, replicates=REPLICATES, rng=generator)
        covered += covers(found.probability, truth)
    assert 0.93 <= covered / EXPERIMENTS <= 0.97


def test_bands_of_profiles_at_each_threshold() -> None:
    generator = np.random.default_rng(3)
    thresholds = np.array([-0.7, 0.0, 0.4])
    truth = np.array([1 - NORMAL.cdf(x) for x in thresholds])
    covered = np.zeros(3)
    for _ in range(EXPERIMENTS):
        scores = generator.normal(size=(50, 3))
        band = performance_profile(scores, thresholds, replicates=REPLICATES, rng=generator)
        covered += (band.low <= truth) & (truth <= band.high)
    assert ((covered / EXPERIMENTS >= 0.93) & (covered / EXPERIMENTS <= 0.97)).all()


def test_welchs_interval_with_three_runs_already() -> None:
    generator = np.random.default_rng(4)
    covered = 0
    for _ in range(EXPERIMENTS):
        first = {"a": generator.normal(1.0, 1.0, 3), "b": generator.normal(0.0, 2.0, 5)}
        second = {"a": generator.normal(0.0, 1.0, 4), "b": generator.normal(0.0, 1.0, 3)}
        found = welch(first, second)
        covered += found.low <= 0.5 <= found.high
    assert 0.93 <= covered / EXPERIMENTS <= 0.97
