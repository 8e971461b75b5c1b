"""Measures training and acting of the policies with a memory and with chunks of actions.

    python benchmarks/sequences.py
    python benchmarks/sequences.py --device cuda

Methods and values are those of the cards. Data are random, of the shape of PushT's state: five
numbers observed, two of an action. Milliseconds of CPU time on one thread (with `--device cuda`, of
wall time): for a batch; for an action, over whole plans; and for the longest call, in which a plan
is made, in one environment and in ten.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch as th
from gymnasium import spaces

from imitbench.bench.learner import Task
from imitbench.bench.learners.sequences import (
    ACTLearner,
    DiffusionLearner,
    FlowChunkLearner,
    RecurrentLearner,
    SequenceLearner,
)
from imitbench.cards.catalog import load_algorithm
from imitbench.data.trajectories import TrajectoryWithRew
from imitbench.policies.sequences.base import SequencePolicy
from imitbench.records.runs import EnvironmentSpec

METHODS: dict[str, type[SequenceLearner]] = {
    "bc_rnn": RecurrentLearner,
    "act": ACTLearner,
    "diffusion_policy": DiffusionLearner,
    "flow_policy": FlowChunkLearner,
}
OBSERVED = spaces.Box(0.0, 512.0, (5,), np.float32)
ACTED = spaces.Box(0.0, 512.0, (2,), np.float32)
BATCHES = 20  # of a turn
STEPS = 48  # of acting in a turn: whole plans


def demonstrations() -> list[TrajectoryWithRew]:
    """Fifty episodes of 150 steps, as random walks."""
    rng = np.random.default_rng(0)
    walks = 256 + 4 * np.cumsum(rng.normal(size=(50, 151, 7)), axis=1).astype(np.float32)
    return [
        TrajectoryWithRew(walk[:, :5], walk[:-1, 5:], None, True, np.zeros(150)) for walk in walks
    ]


def make_learner(method: str, device: str) -> SequenceLearner:
    """Creates a method as a run does."""
    th.manual_seed(0)
    learner = METHODS[method]()
    values = load_algorithm(method).resolve({})
    task = Task(EnvironmentSpec(id="PushT", horizon="variable"), OBSERVED, ACTED, values, seed=0)
    learner.setup(task, demonstrations(), np.random.default_rng(0), device)
    learner.trainer.train(3)
    return learner


def milliseconds_of_calls(
    policy: SequencePolicy, environments: int, clock: Callable[[], float]
) -> list[float]:
    """Returns the time of each call of `predict` in an episode."""
    observations = np.full((environments, 5), 256, np.float32)
    state, found = None, []
    for _ in range(STEPS):
        start = clock()
        _, state = policy.predict(observations, state=state)
        found.append(1000 * (clock() - start))
    return found


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args()
    th.set_num_threads(1)
    clock = time.process_time if options.device == "cpu" else time.perf_counter
    print(f"Medians of {options.repeats} turns, one thread, {options.device}\n")
    print("| method | weights | batch | action | longest call | in ten environments |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for method in METHODS:
        learner = make_learner(method, options.device)
        policy = learner.trainer.policy
        assert isinstance(policy, SequencePolicy), "the learner made it"
        turns = []
        for _ in range(options.repeats):
            start = clock()
            learner.trainer.train(BATCHES)
            batch = 1000 * (clock() - start) / BATCHES
            alone, ten = (milliseconds_of_calls(policy, count, clock) for count in (1, 10))
            # The second longest, so that one interruption does not count.
            longest = [sorted(each)[-2] for each in (alone, ten)]
            turns.append([batch, statistics.mean(alone), *longest])
        weights = sum(each.numel() for each in policy.parameters())
        medians = [statistics.median(column) for column in zip(*turns, strict=True)]
        print(f"| {method} | {weights:,} | " + " | ".join(f"{each:.2f}" for each in medians) + " |")


if __name__ == "__main__":
    main()
