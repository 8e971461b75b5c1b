"""Compares behavioral cloning with the reference library: batches per second, and a whole cell.

    python benchmarks/bc.py --install-reference .reference

The same program runs alternately in both interpreters, on the same synthetic data.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time

import comparison

BATCHES = 2000
BATCH_SIZE = 32

# Both libraries have the same names, so that one program measures both.
PROGRAM = """
import importlib, sys, tempfile, time
import numpy as np, torch as th
from gymnasium import spaces
library, batches, batch_size = sys.argv[1:]
bc = importlib.import_module(f"{library}.algorithms.bc")
types = importlib.import_module(f"{library}.data.types")
logger = importlib.import_module(f"{library}.util.logger")
th.set_num_threads(1)
th.manual_seed(0)
obs = np.random.default_rng(0).normal(size=(12_000, 4)).astype(np.float32)
acts = (obs @ [0.1, 0.4, 1.0, 0.7] > 0).astype(np.int64)
transitions = types.Transitions(
    obs=obs[:-1], acts=acts[:-1], infos=np.array([{}] * len(acts[:-1])), next_obs=obs[1:],
    dones=np.zeros(len(acts) - 1, dtype=bool),
)
trainer = bc.BC(
    observation_space=spaces.Box(-np.inf, np.inf, obs.shape[1:], np.float32),
    action_space=spaces.Discrete(2),
    rng=np.random.default_rng(0),
    demonstrations=transitions,
    batch_size=int(batch_size),
    device="cpu",
    custom_logger=logger.configure(tempfile.mkdtemp(), []),
)
trainer.train(n_batches=50, progress_bar=False)
start = time.perf_counter()
trainer.train(n_batches=int(batches), progress_bar=False)
print(int(batches) / (time.perf_counter() - start))
"""

CELL = (
    "run", "--algo", "bc", "--env", "seals/CartPole-v0", "--seeds", "1", "--budget", "quick",
)  # fmt: skip


MEASUREMENTS = (
    comparison.Measurement(
        name=f"BC at batch {BATCH_SIZE}",
        unit="batches/s",
        program=PROGRAM,
        arguments=(str(BATCHES), str(BATCH_SIZE)),
        target=5.0,
        limit="the overhead of about forty calls of torch per batch",
    ),
)


def measure_cell(repeats: int) -> list[float]:
    """Returns the seconds of the whole command, from its start to the printed table."""
    seconds = []
    for _ in range(repeats + 1):
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", "imitbench", *CELL, "--out", folder],
                check=True,
                capture_output=True,
            )
            seconds.append(time.perf_counter() - start)
    return seconds[1:]  # the first run reads files that are cached later


def main() -> None:
    """Prints the table."""
    _, repeats = comparison.main(__doc__, MEASUREMENTS)
    what = "`imitbench " + " ".join(CELL) + "`, seconds (target: at most 5)"
    print(comparison.row(what, measure_cell(repeats), 2))


if __name__ == "__main__":
    main()
