"""Behavioral cloning against the reference library: batches per second, and a whole cell.

    python benchmarks/bc.py --install-reference .reference

The same program runs in both interpreters, turn by turn, on the same made-up data.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import reference

BATCHES = 2000
BATCH_SIZE = 32

# Both libraries have the same names, so one program measures both.
PROGRAM = """
import importlib, sys, time
import numpy as np, torch as th
from gymnasium import spaces
library, data_file, batches, batch_size = sys.argv[1:]
bc = importlib.import_module(f"{library}.algorithms.bc")
types = importlib.import_module(f"{library}.data.types")
logger = importlib.import_module(f"{library}.util.logger")
th.set_num_threads(1)
th.manual_seed(0)
data = np.load(data_file)
obs, acts = data["obs"], data["acts"]
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
    custom_logger=logger.configure(data_file + "-log", []),
)
trainer.train(n_batches=50, progress_bar=False)
start = time.perf_counter()
trainer.train(n_batches=int(batches), progress_bar=False)
print(int(batches) / (time.perf_counter() - start))
"""

CELL = (
    "run", "--algo", "bc", "--env", "seals/CartPole-v0", "--seeds", "1", "--budget", "quick",
)  # fmt: skip


def measure_batches(python: Path, repeats: int) -> tuple[list[float], list[float]]:
    """Batches per second of ours and of the reference, taking turns."""
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(12_000, 4)).astype(np.float32)
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        data = str(Path(folder) / "cartpole.npz")
        np.savez(data, obs=obs, acts=(obs @ [0.1, 0.4, 1.0, 0.7] > 0).astype(np.int64))
        size = (data, str(BATCHES), str(BATCH_SIZE))
        for _ in range(repeats):
            ours.append(float(reference.run(Path(sys.executable), PROGRAM, "imitbench", *size)))
            theirs.append(float(reference.run(python, PROGRAM, "imitation", *size)))
    return ours, theirs


def measure_cell(repeats: int) -> list[float]:
    """Seconds of the whole command, from start to printed table."""
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
    return seconds[1:]  # the first run reads files that later ones find in memory


def row(what: str, values: list[float], digits: int) -> str:
    """A line of the table: median with least and greatest."""
    low, middle, high = (
        f"{value:,.{digits}f}" for value in (min(values), statistics.median(values), max(values))
    )
    return f"| {what} | {middle} | {low} to {high} |"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--reference-python", type=Path, help="interpreter with imitation 1.0.1")
    which.add_argument("--install-reference", type=Path, metavar="DIR", help="make one there")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    python = options.reference_python or reference.install(options.install_reference)
    ours, theirs = measure_batches(python.absolute(), options.repeats)
    ratios = [own / other for own, other in zip(ours, theirs, strict=True)]
    print(f"Python {platform.python_version()}, {options.repeats} repeats, one thread\n")
    print("| | median | least to greatest |\n| --- | ---: | ---: |")
    print(row(f"BC, batches/s at batch {BATCH_SIZE}", ours, 0))
    print(row("reference 1.0.1, batches/s", theirs, 0))
    print(row("ratio, pair by pair (target: at least 5)", ratios, 2))
    print(row("`imitbench " + " ".join(CELL) + "`, seconds (target: at most 5)",
              measure_cell(options.repeats), 2))  # fmt: skip


if __name__ == "__main__":
    main()
