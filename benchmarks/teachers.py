"""Trains methods that learn from preferences with each of B-Pref's teachers; prints their scores.

    python benchmarks/teachers.py --out teachers --seeds 5

Every run is one of the harness, in the folder `--out`: the same command again does only what is
missing. Score 1 is the suite's expert, which was trained on the true reward. With the defaults this
takes hours on one core; `--teacher`, `--algo`, `--env` and `--seeds` select a part.
"""

from __future__ import annotations

import argparse

import numpy as np

import imitbench
from imitbench.algorithms.preference_comparisons.gatherers import TEACHERS

METHODS = ("pebble", "cpl")
ENVIRONMENTS = ("Pendulum-v1", "seals/CartPole-v0")


def cell(scores: list[float]) -> str:
    """Mean of scores over seeds, with their standard deviation and number."""
    if not scores:
        return "no run"
    return f"{np.mean(scores):.3f} ± {np.std(scores, ddof=len(scores) > 1):.3f} ({len(scores)})"


def main() -> None:
    """Runs what is missing, and prints one row per teacher."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", default="teachers")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--budget", default="quick", choices=["quick", "default", "full"])
    parser.add_argument("--comparisons", type=int, default=500)
    parser.add_argument("--teacher", nargs="+", default=list(TEACHERS), choices=list(TEACHERS))
    parser.add_argument("--algo", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--env", nargs="+", default=list(ENVIRONMENTS))
    options = parser.parse_args()
    columns = [(algo, env) for algo in options.algo for env in options.env]
    print("| teacher | " + " | ".join(f"{algo}, {env}" for algo, env in columns) + " |")
    print("| --- |" + " ---: |" * len(columns))
    for teacher in options.teacher:
        cells = []
        for algo, env in columns:
            summary = imitbench.run(
                [algo],
                "classic",
                env,
                seeds=options.seeds,
                budget=options.budget,
                overrides={"teacher": teacher, "total_comparisons": options.comparisons},
                out=options.out,
            )
            cells.append(cell([row.score for row in summary.scores if row.score is not None]))
        print(f"| {teacher} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
