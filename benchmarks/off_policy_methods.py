"""Measures what a step of each off-policy method, and a batch of each offline method costs.

    python benchmarks/off_policy_methods.py
    python benchmarks/off_policy_methods.py --offline
    python benchmarks/off_policy_methods.py --algo opolo --algo dac_obs --env seals/Hopper-v1

Methods and values are those of the cards; one thread. Off-policy methods: CPU seconds for 1,000
environment steps of a seed, with the updates that the card makes in them, after the steps with
random actions, alone and in a pack of five seeds. Offline methods: CPU seconds for 1,000 batches,
with one demonstration and a supplement of ten medium and ten random ones. Each turn measures all
methods, with DAC first, to which the others are compared. The cards' `seconds_per_1000`, from which
the time of a sweep is estimated, should be near those alone.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym
import torch as th

from imitbench.bench.implementation import learner_class
from imitbench.bench.learners.off_policy import OffPolicyImitationLearner
from imitbench.bench.learners.offline import WeightedCloningLearner
from imitbench.bench.plan import DemoChoice
from imitbench.bench.request import plan_requests
from imitbench.bench.training import set_up, set_up_pack
from imitbench.bench.training_setup import TrainingConfig, TrainingInputs
from imitbench.cards.catalog import algorithm_names, load_algorithm, suite_directory
from imitbench.records.runs import RunSpec
from imitbench.store.sweep_file import SweepRequest

ENVIRONMENTS = ("seals/HalfCheetah-v1", "seals/Ant-v1")
YARDSTICK = "dac"
MIXTURE = "mixed"  # the regime of offline methods
PACK = 5
STEPS = 300  # of each seed in a turn; of batches, too


@dataclass(frozen=True)
class Timed:
    """A training that goes on.

    Attributes:
        train: Trains for a number of steps of each seed, or of batches.
        seeds: Number of seeds.
    """

    train: Callable[[int], object]
    seeds: int

    def seconds_per_1000(self) -> float:
        """Returns CPU seconds for 1,000 steps of a seed."""
        start = time.process_time()
        self.train(STEPS)
        return (time.process_time() - start) * 1000 / (STEPS * self.seeds)


def runs_of(method: str, environment: str, seeds: int, regime: str | None) -> list[RunSpec]:
    """Plans the runs of a method on `seals`."""
    request = SweepRequest(
        algorithms=[method],
        suite="seals",
        environment=environment,
        seeds=list(range(seeds)),
        folder=str(Path.cwd()),
    )
    plans = plan_requests([request], DemoChoice.parse(None, None, regime))
    return [run for plan in plans for run in plan]


def make_trainer(method: str, environment: str, seeds: int) -> Timed:
    """Creates an off-policy method as a run does, after its steps with random actions."""
    runs = runs_of(method, environment, seeds, None)
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
    return Timed(trainer.train_seeds, seeds)


def make_offline(method: str, environment: str) -> Timed:
    """Creates an offline method as a run does, after its first batches."""
    (run,) = runs_of(method, environment, 1, MIXTURE)
    made = gym.make(environment)
    inputs = TrainingInputs.of(run, suite_directory("seals"))
    learner = set_up(TrainingConfig.of(run), inputs, made.observation_space, made.action_space)
    assert isinstance(learner, WeightedCloningLearner)
    learner.trainer.train(STEPS)
    return Timed(learner.trainer.train, 1)


def off_policy_methods() -> list[str]:
    """Returns methods with a replay buffer that imitate, the yardstick first."""
    cards = [load_algorithm(name) for name in algorithm_names()]
    fitting = [
        card.name
        for card in cards
        if card.budget_unit == "replay_steps" and card.needs.demos and card.packs
    ]
    return sorted(fitting, key=lambda name: name != YARDSTICK)


def offline_methods() -> list[str]:
    """Returns methods that clone with weights."""
    cards = [load_algorithm(name) for name in algorithm_names()]
    return [
        card.name
        for card in cards
        if issubclass(learner_class(card.implementation, None, card.name), WeightedCloningLearner)
    ]


def print_costs(environment: str, trainings: Mapping[str, Sequence[Timed]], repeats: int) -> None:
    """Measures the trainings of every method in turn, and prints a row for each.

    Args:
        environment: Name of their environment.
        trainings: Trainings by method, the yardstick first.
        repeats: Number of turns.
    """
    turns = [
        {name: [timed.seconds_per_1000() for timed in own] for name, own in trainings.items()}
        for _ in range(repeats)
    ]
    for name, own in trainings.items():
        costs = [statistics.median(turn[name][n] for turn in turns) for n in range(len(own))]
        ratio = statistics.median(turn[name][0] / turn[YARDSTICK][0] for turn in turns)
        cells = [f"`{name}`", environment, *(f"{cost:.2f}" for cost in costs), f"{ratio:.2f}"]
        print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--offline", action="store_true", help="offline methods in their place")
    parser.add_argument("--algo", action="append", help="method; repeatable [all]")
    parser.add_argument("--env", action="append", help="environment of seals; repeatable")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    th.set_num_threads(1)
    warnings.simplefilter("ignore")
    gym.register_envs(__import__("seals"))
    methods = options.algo or (offline_methods() if options.offline else off_policy_methods())
    print(f"Medians of {options.repeats} turns of {STEPS} steps or batches, one thread\n")
    columns = ["batches"] if options.offline else ["alone", f"in a pack of {PACK}"]
    print(f"| method | environment | {' | '.join(columns)} | alone, of `{YARDSTICK}`'s |")
    print(f"| --- | --- | {'---: | ' * len(columns)}---: |")
    for environment in options.env or ENVIRONMENTS:
        sizes = (1,) if options.offline else (1, PACK)
        trainings = {YARDSTICK: [make_trainer(YARDSTICK, environment, size) for size in sizes]}
        for name in methods:
            if options.offline:
                trainings[name] = [make_offline(name, environment)]
            elif name != YARDSTICK:
                trainings[name] = [make_trainer(name, environment, size) for size in sizes]
        print_costs(environment, trainings, options.repeats)


if __name__ == "__main__":
    main()
