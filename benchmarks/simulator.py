"""Measures how much of a training's time MuJoCo itself takes, with and without its batches.

    python benchmarks/simulator.py

Takes turns in this process, with one thread, and prints environment steps per second of CPU time:

- `mj_step`: the simulator alone, with the same actions;
- `step`: eight environments, one after the other, as a training without batches has them;
- `batch`: the same eight as one batch, with equal results;
- with `--training`, GAIL's trainings and evaluations of 20 episodes, with and without batches.

With `--threads N`, `batch` also has N threads, and numbers are per second of wall time.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import comparison
import gymnasium as gym
import numpy as np
import torch as th
from stable_baselines3.common.vec_env import VecEnv

from imitbench.bench import environments, protocol
from imitbench.bench.environments import make_environment, make_training_environments
from imitbench.bench.plan import plan_request
from imitbench.bench.training import seed_generators, set_up
from imitbench.bench.training_setup import TrainingConfig, TrainingInputs
from imitbench.cards.catalog import suite_directory
from imitbench.envs.batch_vec_env import BatchVecEnv
from imitbench.experts.lookup import find_environment
from imitbench.records.runs import EnvironmentSpec
from imitbench.store.sweep_file import SweepRequest

TASKS = ("HalfCheetah", "Hopper", "Walker2d", "Ant")
N_ENVS = 8
STEPS = 2000  # of all environments in a turn
TRAINED = 40_960
EPISODES = 20

Turns = dict[str, Callable[[], float]]


@contextmanager
def single() -> Iterator[None]:
    """Context in which no task is stepped in batches."""
    never = mock.Mock(return_value=False)
    with (
        mock.patch.object(environments, "stepped_in_batches", never),
        mock.patch.object(protocol, "stepped_in_batches", never),
    ):
        yield


def rate(count: int, work: Callable[[], None], clock: Callable[[], float]) -> float:
    """Returns how much of `count` is done per second."""
    start = clock()
    work()
    return count / (clock() - start)


def actions_of(venv: VecEnv) -> np.ndarray[Any, Any]:
    """Random actions for the steps of a turn."""
    box = venv.action_space
    assert isinstance(box, gym.spaces.Box)
    shape = (STEPS // N_ENVS, N_ENVS, *box.shape)
    return np.random.default_rng(0).uniform(box.low, box.high, shape).astype(np.float32)


def simulator_turns(spec: EnvironmentSpec, threads: int) -> Turns:
    """Returns what is measured of a task's steps, by name."""
    import mujoco

    clock = time.perf_counter if threads > 1 else time.process_time
    inner: Any = make_environment(spec).unwrapped
    inner.reset(seed=0)
    with single():
        venvs: dict[str, VecEnv] = {"step": make_training_environments(spec, N_ENVS, 0)}
    for count in sorted({1, threads}):
        name = "batch" if count == 1 else f"batch, {count} threads"
        venvs[name] = BatchVecEnv([make_environment(spec) for _ in range(N_ENVS)], count)
        venvs[name].seed(0)
    actions = actions_of(venvs["step"])

    def simulate() -> None:
        for action in actions.reshape(STEPS, -1):
            inner.data.ctrl[:] = action
            mujoco.mj_step(inner.model, inner.data, nstep=inner.frame_skip)

    def steps_of(venv: VecEnv) -> Callable[[], None]:
        venv.reset()

        def take() -> None:
            for row in actions:
                venv.step(row)

        return take

    turns = {"mj_step": lambda: rate(STEPS, simulate, clock)}
    for name, venv in venvs.items():
        take = steps_of(venv)
        turns[name] = lambda take=take: rate(STEPS, take, clock)
    return turns


def training_turns(env_id: str) -> Turns:
    """Returns what is measured of GAIL's training and of the evaluation of its policy, by name."""
    request = SweepRequest(
        algorithms=["gail"], suite="seals", environment=env_id, seeds=[0], budget="quick",
        overrides={}, folder=".",
    )  # fmt: skip
    (run,) = plan_request(request)
    config, root = TrainingConfig.of(run), suite_directory("seals")
    turns: Turns = {}

    def add(name: str) -> None:
        seed_generators(config)
        evaluator = protocol.Evaluator(config.evaluated, 10)
        spaces = evaluator.observation_space, evaluator.action_space
        learner: Any = set_up(config, TrainingInputs.of(run, root), *spaces)
        steps = learner.ppo.n_steps * learner.ppo.n_envs

        def train() -> None:
            for _ in range(TRAINED // steps):
                learner.train_round(steps)

        def evaluate() -> None:
            evaluator.evaluate(learner.policy(), episodes=EPISODES, seed=0, deterministic=True)

        clock = time.process_time
        turns[f"GAIL, {name}"] = lambda: rate(TRAINED // steps * steps, train, clock)
        turns[f"evaluation, {name}"] = lambda: rate(EPISODES * 1000, evaluate, clock)

    add("batch")
    with single():
        add("step")
    return turns


def measure(title: str, turns: Turns, repeats: int, ratios: dict[str, str]) -> None:
    """Takes turns, and prints a row for each and for each ratio (of a name to another)."""
    found: dict[str, list[float]] = {name: [] for name in turns}
    for _ in range(repeats):
        for name, turn in turns.items():
            found[name].append(turn())
    for name, values in found.items():
        print(comparison.row(f"{title}, {name}, steps/s", values, 0))
    for name, base in ratios.items():
        if name in found:
            shares = [a / b for a, b in zip(found[name], found[base], strict=True)]
            print(comparison.row(f"{title}, {name} : {base}", shares, 2), flush=True)


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--training", action="store_true")
    parser.add_argument("--task", action="append", choices=TASKS)
    options = parser.parse_args()
    th.set_num_threads(1)
    warnings.simplefilter("ignore")
    comparison.print_heading(options.repeats)
    for task in options.task or TASKS:
        env_id = f"seals/{task}-v1"
        turns = simulator_turns(find_environment(env_id), options.threads)
        several = f"batch, {options.threads} threads"
        ratios = {"step": "mj_step", "batch": "mj_step", several: "batch"}
        measure(task, turns, options.repeats, ratios)
        if options.training:
            ratios = {"GAIL, batch": "GAIL, step", "evaluation, batch": "evaluation, step"}
            measure(task, training_turns(env_id), options.repeats, ratios)


if __name__ == "__main__":
    main()
