"""Measures what a step of each off-policy method costs, alone and in a pack of five seeds.

    python benchmarks/off_policy_methods.py

Methods and values are those of the cards. CPU seconds for 1,000 environment steps of a seed, with
the updates that the card makes in them, after the steps with random actions; one thread. The cards'
`seconds_per_1000`, from which the time of a sweep is estimated, should be near those alone.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from pathlib import Path

import gymnasium as gym
import torch as th

from imitbench.algorithms.off_policy.trainer import OffPolicyTrainer
from imitbench.bench.learners.off_policy import OffPolicyImitationLearner
from imitbench.bench.plan import plan_request
from imitbench.bench.training import set_up_pack
from imitbench.bench.training_setup import TrainingConfig, TrainingInputs
from imitbench.cards.catalog import algorithm_names, load_algorithm, suite_directory
from imitbench.store.sweep_file import SweepRequest

ENVIRONMENTS = ("seals/HalfCheetah-v1", "seals/Ant-v1")
PACK = 5
STEPS = 300  # of each seed in a turn


def make_trainer(method: str, environment: str, seeds: int) -> OffPolicyTrainer:
    """Creates a method as a run of `seals` does, after its steps with random actions."""
    request = SweepRequest(
        algorithms=[method],
        suite="seals",
        environment=environment,
        seeds=list(range(seeds)),
        folder=str(Path.cwd()),
    )
    runs = list(plan_request(request))
    made = gym.make(environment)
    learner = set_up_pack(
        [TrainingConfig.of(run) for run in runs],
        [TrainingInputs.of(run, suite_directory("seals")) for run in runs],
        made.observation_space,
        made.action_space,
    )
    assert isinstance(learner, OffPolicyImitationLearner)
    trainer = learner.trainer
    trainer.train_seeds(trainer.options.learning_starts + STEPS)
    return trainer


def seconds_per_1000(trainer: OffPolicyTrainer, seeds: int) -> float:
    """Returns CPU seconds for 1,000 steps of a seed."""
    start = time.process_time()
    trainer.train_seeds(STEPS)
    return (time.process_time() - start) * 1000 / (STEPS * seeds)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    th.set_num_threads(1)
    warnings.simplefilter("ignore")
    gym.register_envs(__import__("seals"))
    methods = [name for name in algorithm_names() if load_algorithm(name).packs]
    print(f"Medians of {options.repeats} turns of {STEPS} steps, one thread\n")
    print("| method | environment | alone | in a pack of 5 | ratio |")
    print("| --- | --- | ---: | ---: | ---: |")
    for environment in ENVIRONMENTS:
        for method in methods:
            trainers = [(make_trainer(method, environment, each), each) for each in (1, PACK)]
            turns = [
                [seconds_per_1000(trainer, seeds) for trainer, seeds in trainers]
                for _ in range(options.repeats)
            ]
            alone, packed = map(statistics.median, zip(*turns, strict=True))
            numbers = f"{alone:.1f} | {packed:.1f} | {alone / packed:.1f}"
            print(f"| `{method}` | {environment} | {numbers} |", flush=True)


if __name__ == "__main__":
    main()
