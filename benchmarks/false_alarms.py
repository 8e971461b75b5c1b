"""Measures how often three rules find a difference between a method and itself.

    python benchmarks/false_alarms.py

draws the scores of both sides from one distribution, three runs on each environment, and counts how
often the bootstrap interval of the difference of IQMs excludes 0; how often Welch's test, corrected
by Holm's method, rejects on any environment; and how often `imitbench compare` decides, overall or
on any environment. The nominal level of the rules is 5 %.
"""

from __future__ import annotations

import argparse

import numpy as np

from imitbench.stats.significance import holm, welch
from imitbench.stats.verdicts import verdicts

RUNS, REPLICATES = 3, 1_000


def draw(shape: str, rng: np.random.Generator) -> np.ndarray:
    """Draws the scores of one cell."""
    if shape == "normal":
        return rng.normal(0.8, 0.1, RUNS)
    return rng.choice([0.0, 1.0], RUNS) + rng.normal(0.0, 0.01, RUNS)


def main() -> None:
    """Prints a line for each shape and number of environments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--experiments", type=int, default=1000)
    experiments = parser.parse_args().experiments
    print("| scores | environments | interval | Welch | verdict, overall | verdict, anywhere |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for shape in ("normal", "success or collapse"):
        for environments in (1, 5):
            rng = np.random.default_rng(0)
            counts = np.zeros(4, dtype=int)
            for _ in range(experiments):
                one, other = (
                    {f"e{i}": draw(shape, rng) for i in range(environments)} for _ in range(2)
                )
                [found] = verdicts("a", one, {"b": other}, replicates=REPLICATES)
                tests = holm({e: welch({e: one[e]}, {e: other[e]}).p_value for e in one})
                counts += [
                    not found.iqm.low <= 0 <= found.iqm.high,
                    any(p <= 0.05 for p in tests.values()),
                    found.decision != "undecided",
                    any(each.decision != "undecided" for each in found.environments),
                ]
            shares = " | ".join(f"{share:.1%}" for share in counts / experiments)
            print(f"| {shape} | {environments} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
