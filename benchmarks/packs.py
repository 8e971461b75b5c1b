"""Compares the off-policy core, alone and in packs of seeds, with Stable-Baselines3's SAC.

    python benchmarks/packs.py

All train in turns in this process, with one thread, on seals/HalfCheetah-v1, with an update after
each step. AdRIL stands for the core, because it has no network of its own: its batches, half the
learner's and half the expert's, are as large as those of SAC. The arithmetic's limit is the time of
the matrix products of an update alone. `--only update` and `--only packs` select a part: the second
part compares whole trainings in two processes, in packs and alone.

    python benchmarks/packs.py --device cuda

does the same on a GPU, in seconds of wall time, with and without recorded updates.

    python benchmarks/packs.py --only gail

compares rounds of GAIL with the settings of its card, alone and in a pack of 5, on synthetic
demonstrations. `--only ppo` does the same for the other methods with PPO, and compares whole
trainings of preference comparisons, including the policies that are trained on the final reward.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence

import comparison
import gymnasium as gym
import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3 import SAC
from stable_baselines3.common.vec_env import DummyVecEnv

from imitbench.algorithms.off_policy.adril import AdRIL
from imitbench.algorithms.off_policy.agent import AgentOptions
from imitbench.algorithms.off_policy.trainer import OffPolicyOptions
from imitbench.bench.implementation import learner_class
from imitbench.bench.learner import PackedLearner, Task
from imitbench.bench.learners.reward_learner import RewardLearner
from imitbench.cards.catalog import load_algorithm
from imitbench.data import types
from imitbench.experts.lookup import find_environment
from imitbench.records.runs import Budget
from imitbench.util.serial_vec_env import SerialVecEnv

ENVIRONMENT = "seals/HalfCheetah-v1"
SIZES = ((64, 256), (256, 512))  # units of each layer, samples of a batch
STEPS = 150  # of each seed in a turn
PACKS = (1, 4, 8)
GPU_PACKS = (1, 8, 32)
PPO_PACK = 5
SEEDS, PROCESSES = 8, 2


def make_venv(count: int, cls: type[DummyVecEnv] = SerialVecEnv) -> DummyVecEnv:
    """Creates environments."""
    gym.register_envs(__import__("seals"))
    return cls([lambda: gym.make(ENVIRONMENT) for _ in range(count)])


def make_core(seeds: Sequence[int], units: int, batch: int, device: str = "cpu") -> AdRIL:
    """Creates the core for some seeds, with random demonstrations."""
    venv = make_venv(len(seeds))
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(1001, *(venv.observation_space.shape or ())))
    acts = rng.uniform(-1, 1, size=(1000, *(venv.action_space.shape or ()))).astype(np.float32)
    demo = types.Trajectory(obs=obs, acts=acts, infos=None, terminal=False)
    return AdRIL(
        venv=venv,
        demonstrations=[demo],
        seeds=seeds,
        device=device,
        options=OffPolicyOptions(
            agent=AgentOptions(hidden_sizes=(units, units)),
            batch_size=batch // 2,
            learning_starts=100,
            buffer_size=100_000,
        ),
    )


def make_peer(units: int, batch: int, device: str = "cpu") -> SAC:
    """Creates Stable-Baselines3's SAC, after its first updates."""
    return SAC(
        "MlpPolicy",
        make_venv(1, DummyVecEnv),
        learning_starts=100,
        batch_size=batch,
        policy_kwargs={"net_arch": [units, units]},
        device=device,
    ).learn(200)


def steps_per_second(
    train: object, seeds: int, clock: Callable[[], float] = time.process_time
) -> float:
    """Returns environment steps, with an update each, per second over all seeds."""
    start = clock()
    if isinstance(train, AdRIL):
        train.train(STEPS)
    else:
        assert isinstance(train, SAC)
        train.learn(STEPS, reset_num_timesteps=False)
    return seeds * STEPS / (clock() - start)


def make_products(units: int, batch: int) -> list[tuple[th.Tensor, th.Tensor, th.Tensor]]:
    """Creates operands and results of all matrix products in an update of soft actor-critic."""
    venv = make_venv(1)
    obs, acts = (spaces.flatdim(each) for each in (venv.observation_space, venv.action_space))
    actor, critics = (obs, units, units, 2 * acts), (obs + acts, units, units, 1)
    products: list[tuple[th.Tensor, th.Tensor, th.Tensor]] = []

    def add(members: int, rows: int, inner: int, columns: int) -> None:
        one, other = th.randn(members, rows, inner), th.randn(members, inner, columns)
        products.append((one, other, th.empty(members, rows, columns)))

    def passes(
        members: int, sizes: Sequence[int], *, weights: bool = False, inputs: int = 0
    ) -> None:
        """Forward, and backward to the weights or to some inputs."""
        for depth, (size, out) in enumerate(itertools.pairwise(sizes)):
            add(members, batch, size, out)
            if weights:
                add(members, size, batch, out)
            if depth and (weights or inputs):
                add(members, batch, out, size)
            elif inputs:
                add(members, batch, out, inputs)

    passes(1, actor)  # the targets' next actions
    passes(2, critics)  # the targets
    passes(2, critics, weights=True)  # the critics' step
    passes(1, actor, weights=True)  # the actor's step,
    passes(2, critics, inputs=acts)  # through the critics
    return products


def products_per_second(products: Sequence[tuple[th.Tensor, th.Tensor, th.Tensor]]) -> float:
    """Returns how often all products are computed per second of CPU time."""
    start = time.process_time()
    for _ in range(STEPS):
        for one, other, out in products:
            th.bmm(one, other, out=out)
    return STEPS / (time.process_time() - start)


def measure_updates(repeats: int) -> None:
    """Prints steps with an update per second: the core in packs, Stable-Baselines3, the limit."""
    for units, batch in SIZES:
        theirs = make_peer(units, batch)
        cores = {size: make_core(range(size), units, batch) for size in PACKS}
        for core in cores.values():
            core.train(200)
        products = make_products(units, batch)
        products_per_second(products)
        turns = [
            [steps_per_second(theirs, 1)]
            + [steps_per_second(core, size) for size, core in cores.items()]
            + [products_per_second(products)]
            for _ in range(repeats)
        ]
        what = f"2 x {units} units, batches of {batch}"
        print(comparison.row(f"Stable-Baselines3's SAC, {what}, steps/s", [t[0] for t in turns], 0))
        for index, size in enumerate(PACKS, start=1):
            name = "the core" if size == 1 else f"packs of {size}"
            print(comparison.row(f"{name}, {what}, steps/s", [t[index] for t in turns], 0))
            target = " (target: at least 1.5)" if size == 1 else ""
            ratios = [t[index] / t[0] for t in turns]
            print(comparison.row(f"ratio, pair by pair{target}", ratios, 2), flush=True)
        print(
            comparison.row(f"matrix products alone, {what}, updates/s", [t[-1] for t in turns], 0)
        )
        ratios = [t[-1] / t[1] for t in turns]
        name = "ratio to the core, pair by pair (target: at most 1.2)"
        print(comparison.row(name, ratios, 2), flush=True)


def measure_gpu_updates(repeats: int) -> None:
    """Prints steps with an update per second of wall time on a GPU."""
    for units, batch in SIZES:
        theirs = make_peer(units, batch, "cuda")
        cores: list[tuple[str, int, AdRIL]] = []
        for size, recording in itertools.product(GPU_PACKS, (True, False)):
            core = make_core(range(size), units, batch, "cuda")
            core.streams.recording = recording
            core.train(200)
            kind = "recorded" if recording else "not recorded"
            cores.append((f"packs of {size}, {kind}", size, core))
        turns = [
            [steps_per_second(theirs, 1, time.perf_counter)]
            + [steps_per_second(core, size, time.perf_counter) for _, size, core in cores]
            for _ in range(repeats)
        ]
        what = f"2 x {units} units, batches of {batch}, steps/s"
        print(comparison.row(f"Stable-Baselines3's SAC, {what}", [t[0] for t in turns], 0))
        for index, (name, _, _) in enumerate(cores, start=1):
            print(comparison.row(f"{name}, {what}", [t[index] for t in turns], 0), flush=True)


def train_in_this_process(
    seeds: list[int], units: int, batch: int, steps: int, device: str
) -> None:
    """Trains seeds together."""
    th.set_num_threads(1)
    make_core(seeds, units, batch, device).train(steps)


def wall_seconds(groups: Sequence[Sequence[int]], steps: int, device: str) -> float:
    """Returns the seconds in which two processes train groups of seeds, one after another."""
    start = time.perf_counter()
    waiting = [list(group) for group in groups]
    running: list[subprocess.Popen[bytes]] = []
    while waiting or running:
        running = [process for process in running if process.poll() is None]
        while waiting and len(running) < PROCESSES:
            seeds = ",".join(map(str, waiting.pop(0)))
            command = [sys.executable, __file__, "--seeds", seeds, "--steps", str(steps)]
            running.append(subprocess.Popen([*command, "--device", device]))
        time.sleep(0.02)
    return time.perf_counter() - start


def measure_packs(repeats: int, steps: int, device: str) -> None:
    """Prints seeds per hour of 8 seeds in two processes, alone and in packs."""
    groups = {
        "two packs of 4": [list(range(SEEDS))[start::PROCESSES] for start in range(PROCESSES)],
        "8 single runs": [[seed] for seed in range(SEEDS)],
    }
    if device == "cuda":  # a GPU computes all seeds in the time of one
        groups = {"a pack of 8": [list(range(SEEDS))], **groups}
    turns = [
        [wall_seconds(each, steps, device) for each in groups.values()] for _ in range(repeats)
    ]
    for index, name in enumerate(groups):
        rates = [SEEDS * 3600 / turn[index] for turn in turns]
        print(comparison.row(f"{name}, {steps:,} steps, seeds per hour", rates, 0))
    target = 5 if device == "cuda" else 1.5
    ratios = [turn[-1] / turn[0] for turn in turns]
    print(comparison.row(f"ratio, pair by pair (target: at least {target})", ratios, 2), flush=True)


def make_learner(name: str, count: int) -> PackedLearner:
    """Sets a method up for some seeds, with the settings of its card."""
    environment, card = find_environment(ENVIRONMENT), load_algorithm(name)
    venv = make_venv(1)
    obs, acts = venv.observation_space, venv.action_space
    rng = np.random.default_rng(0)
    demos = [
        types.TrajectoryWithRew(
            obs=rng.normal(size=(1001, *(obs.shape or ()))),
            acts=rng.uniform(-1, 1, size=(1000, *(acts.shape or ()))).astype(np.float32),
            infos=None,
            terminal=False,
            rews=np.zeros(1000),
        )
        for _ in range(10)
    ]
    options = card.resolve({})
    tasks = [Task(environment, obs, acts, options, seed) for seed in range(count)]
    rngs = [np.random.default_rng(seed) for seed in range(count)]
    learner = learner_class(card.implementation, None, name)()
    assert isinstance(learner, PackedLearner)
    if count == 1:
        learner.setup(tasks[0], demos, rngs[0], "cpu")
    else:
        learner.setup_pack(tasks, [demos] * count, rngs, "cpu")
    return learner


def measure_rounds(name: str, repeats: int) -> None:
    """Prints environment steps per second of CPU time: rounds of a method, alone and in a pack."""
    learners = {count: make_learner(name, count) for count in (1, PPO_PACK)}
    turns = []
    for turn in range(repeats + 1):
        rates = []
        for count, learner in learners.items():
            assert isinstance(learner, RewardLearner)
            steps = learner.ppo.n_envs * learner.ppo.n_steps
            start = time.process_time()
            if learner.pack is None:
                learner.train_round(steps)
            else:
                learner.train_pack(learner.pack, steps)
            rates.append(count * steps / (time.process_time() - start))
        if turn:  # the first round allocates memory
            turns.append(rates)
    for index, kind in enumerate(("alone", f"in a pack of {PPO_PACK}")):
        rates = [turn[index] for turn in turns]
        print(comparison.row(f"{name} {kind}, {ENVIRONMENT}, steps/s", rates, 0))
    ratios = [turn[1] / turn[0] for turn in turns]
    print(comparison.row("ratio, pair by pair", ratios, 2), flush=True)


def measure_preferences(repeats: int) -> None:
    """Prints CPU seconds of a seed: preference comparisons, alone and in a pack."""
    name = "preference_comparisons"
    budget = Budget(name="default", unit="env_steps", amount=200_000)
    turns = []
    for _ in range(repeats):
        seconds = []
        for count in (1, PPO_PACK):
            learner = make_learner(name, count)
            start = time.process_time()
            learner.train(budget, lambda *_: None)
            if count == 1:
                learner.transfer_policy()
            else:
                learner.transfer_policies()
            seconds.append((time.process_time() - start) / count)
        turns.append(seconds)
    for index, kind in enumerate(("alone", f"in a pack of {PPO_PACK}")):
        print(comparison.row(f"{name} {kind}, {ENVIRONMENT}, s", [t[index] for t in turns], 1))
    ratios = [turn[0] / turn[1] for turn in turns]
    print(comparison.row("ratio, pair by pair", ratios, 2), flush=True)


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", choices=["update", "packs", "gail", "ppo"])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--seeds", help=argparse.SUPPRESS)
    parser.add_argument("--steps", type=int, default=3000)
    options = parser.parse_args()
    th.set_num_threads(1)
    warnings.simplefilter("ignore")
    if options.seeds:
        seeds = [int(each) for each in options.seeds.split(",")]
        train_in_this_process(seeds, 64, 256, options.steps, options.device)
        return
    comparison.print_heading(options.repeats)
    if options.only == "gail":
        measure_rounds("gail", options.repeats)
        return
    if options.only == "ppo":
        for name in ("ppo_true_reward", "zero_reward", "density"):
            measure_rounds(name, options.repeats)
        measure_preferences(options.repeats)
        return
    if options.only != "packs":
        (measure_gpu_updates if options.device == "cuda" else measure_updates)(options.repeats)
    if options.only != "update":
        measure_packs(options.repeats, options.steps, options.device)


if __name__ == "__main__":
    main()
