"""Measures what a machine's cores and its first GPU give, with whole runs of `imitbench run`.

    python benchmarks/machine.py

Prints a row for each way of doing the same runs: wall seconds of the command, and, as medians over
the runs, seconds of training and of everything else, which is nearly all evaluation. Without a GPU,
only ways on cores are measured. Then follow the simulator's rates, see `simulator.py`. On one H200
with 16 cores all of it takes less than eight minutes; `--minutes` ends it earlier.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from imitbench.executors.devices import find_cuda, usable_cores

_SUITE = ("--suite", "seals", "--env", "seals/HalfCheetah-v1", "--budget", "quick")


@dataclass(frozen=True)
class Way:
    """A way of doing some runs.

    Attributes:
        title: Name in the table.
        work: Name of the runs; the first way of the same runs is the base of ratios.
        options: Options of `imitbench run`.
        cores: Cores that it needs.
        gpu: Whether it needs a GPU.
    """

    title: str
    work: str
    options: tuple[str, ...]
    cores: int = 1
    gpu: bool = False


def _ways() -> Iterable[Way]:
    one = ("--algo", "gail", "--seeds", "1", "--threads", "1")
    yield Way("a core", "GAIL, 1 seed", one)
    yield Way("2 threads", "GAIL, 1 seed", (*one[:-1], "2"), cores=2)
    yield Way("8 threads", "GAIL, 1 seed", (*one[:-1], "8"), cores=8)
    yield Way("--gpus 0", "GAIL, 1 seed", (*one, "--gpus", "0"), gpu=True)
    yield Way("--device cuda", "GAIL, 1 seed", (*one, "--device", "cuda"), gpu=True)
    four = ("--algo", "gail", "--seeds", "4")
    yield Way("--jobs 4", "GAIL, 4 seeds", (*four, "--jobs", "4"), cores=4)
    shared = ("--gpus", "0", "--per-gpu", "4")
    yield Way("--gpus 0 --per-gpu 4", "GAIL, 4 seeds", (*four, *shared), cores=4, gpu=True)
    bc = ("--algo", "bc", "--seeds", "2")
    yield Way("a core each", "BC, 2 seeds", (*bc, "--jobs", "2"), cores=2)
    both = ("--gpus", "0", "--per-gpu", "2")
    yield Way("--gpus 0 --per-gpu 2", "BC, 2 seeds", (*bc, *both), cores=2, gpu=True)
    dac = ("--algo", "dac", "--seeds", "8", "--pack", "8")
    yield Way("--gpus 0", "DAC, a pack of 8", (*dac, "--gpus", "0"), gpu=True)
    yield Way("--device cuda", "DAC, a pack of 8", (*dac, "--device", "cuda"), gpu=True)


def measure(way: Way, limit_s: float) -> tuple[float, float, float] | None:
    """Does the runs.

    Returns:
        Wall seconds of the command; medians of the runs' seconds of training and of the rest.
        `None` if the time is over.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "imitbench", "run", *_SUITE, *way.options, "--quiet"]
        begun = time.monotonic()
        try:
            subprocess.run(
                [*command, "--out", folder],
                check=True,
                stdout=subprocess.DEVNULL,
                timeout=limit_s,
                env={**os.environ, "HF_HUB_OFFLINE": "1"},
            )
        except subprocess.TimeoutExpired:
            return None
        wall_s = time.monotonic() - begun
        results = [json.loads(path.read_text()) for path in Path(folder).rglob("result.json")]
    train_s = statistics.median(result["train_s"] for result in results)
    return wall_s, train_s, statistics.median(r["wall_s"] for r in results) - train_s


def main() -> None:
    """Measures and prints both tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=8.0)
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes
    cores, cuda = usable_cores(), find_cuda()
    gpu = f", {cuda.usable[0]}" if cuda.usable else ", no GPU"
    print(f"{cores} cores{gpu}, torch {cuda.torch}\n")
    print("| runs | way | wall s | training, s a run | rest, s a run | wall : first way |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    first: dict[str, float] = {}
    for way in _ways():
        if way.cores > cores or (way.gpu and not cuda.usable):
            continue
        found = measure(way, max(1.0, end - time.monotonic()))
        if found is None:
            print(
                f"| {way.work} | {way.title} | not finished in {options.minutes:g} minutes | | | |"
            )
            return
        base = first.setdefault(way.work, found[0])
        seconds = " | ".join(f"{value:.1f}" for value in found)
        print(f"| {way.work} | {way.title} | {seconds} | {found[0] / base:.2f} |", flush=True)
    print()
    simulator = Path(__file__).with_name("simulator.py")
    threads = ("--threads", str(min(8, cores)), "--repeats", "2")
    left = max(1.0, end - time.monotonic())
    subprocess.run([sys.executable, str(simulator), *threads], check=True, timeout=left)


if __name__ == "__main__":
    main()
