"""Measures what batches of environments save, and how much of a training's time MuJoCo takes.

    python benchmarks/simulator.py

Takes turns in this process, with one thread, and prints environment steps per second of CPU time:

- `mj_step`: the simulator alone, with the same actions;
- `step`: eight environments, one after the other, as a training without batches has them;
- `batch`: the same eight as one batch, with equal results;
- with `--training`, GAIL's trainings and evaluations of 20 episodes, with and without batches.

With `--threads N`, `batch` also has N threads, and numbers are per second of wall time.

    python benchmarks/simulator.py --small

compares `step` and `batch` on small tasks, with 8 environments and with the 24 of a pack of 3
seeds; with `--training`, also PPO alone and in a pack of 3, and evaluations of 100 episodes.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest import mock

import comparison
import gymnasium as gym
import numpy as np
import torch as th
from stable_baselines3.common.callbacks import CallbackList
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import VecEnv

from imitbench.bench import environments, protocol
from imitbench.bench.environments import (
    make_environment,
    make_packed_environments,
    make_training_environments,
)
from imitbench.bench.plan import plan_request
from imitbench.bench.training import seed_generators, set_up
from imitbench.bench.training_setup import TrainingConfig, TrainingInputs
from imitbench.cards.catalog import suite_directory
from imitbench.envs.batch_vec_env import BatchVecEnv
from imitbench.experts.lookup import find_environment
from imitbench.records.runs import EnvironmentSpec
from imitbench.rl.packed_ppo import OwnGenerators, PackedPPO
from imitbench.rl.ppo import PPO
from imitbench.store.sweep_file import SweepRequest

TASKS = ("HalfCheetah", "Hopper", "Walker2d", "Ant")
SMALL = (
    "Pendulum-v1", "seals/CartPole-v0", "seals/MountainCar-v0", "imitbench/PointMaze-v0",
    "imitbench/CliffWorld-v0",
)  # fmt: skip
PACK = 3
N_ENVS = 8
STEPS = 2000  # of all environments in a turn
TRAINED = 40_960
SMALL_STEPS = 24_000
PPO_STEPS = 10_240
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


def actions_of(venv: VecEnv, steps: int = STEPS) -> np.ndarray[Any, Any]:
    """Random actions for the steps of a turn."""
    space, rng = venv.action_space, np.random.default_rng(0)
    shape = (steps // venv.num_envs, venv.num_envs)
    if isinstance(space, gym.spaces.Discrete):
        return rng.integers(space.n, size=shape)
    assert isinstance(space, gym.spaces.Box)
    return rng.uniform(space.low, space.high, (*shape, *space.shape)).astype(np.float32)


def stepping(venv: VecEnv, actions: np.ndarray[Any, Any]) -> Callable[[], None]:
    """Returns a function that takes the steps of a turn."""
    venv.reset()

    def take() -> None:
        for row in actions:
            venv.step(row)

    return take


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

    turns = {"mj_step": lambda: rate(STEPS, simulate, clock)}
    for name, venv in venvs.items():
        take = stepping(venv, actions)
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


def either_way() -> Iterator[str]:
    """Yields the name of each way to step environments, within which they are made that way."""
    yield "batch"
    with single():
        yield "step"


def small_turns(spec: EnvironmentSpec, seeds: int) -> Turns:
    """Returns what is measured of the steps of a small task, by name."""
    turns: Turns = {}
    for name in either_way():
        venv = make_packed_environments(spec, N_ENVS, range(seeds))
        take = stepping(venv, actions_of(venv, SMALL_STEPS))
        turns[name] = lambda take=take: rate(SMALL_STEPS, take, time.process_time)
    return turns


def ppo_turns(spec: EnvironmentSpec, seeds: int) -> Turns:
    """Returns what is measured of PPO's training on the true reward, by name."""
    turns: Turns = {}
    for name in either_way():
        members = [
            PPO("MlpPolicy", make_training_environments(spec, N_ENVS, seed), seed=seed,
                n_steps=256, batch_size=64, n_epochs=10, device="cpu")
            for seed in range(seeds)
        ]  # fmt: skip
        learn: Callable[[int], Any] = partial(members[0].learn, reset_num_timesteps=False)
        if seeds > 1:
            venv = make_packed_environments(spec, N_ENVS, range(seeds))
            packed = PackedPPO(members, venv, [OwnGenerators() for _ in members])
            learn = partial(packed.learn, callbacks=[CallbackList([]) for _ in members])
        learn(PPO_STEPS)
        train = partial(learn, PPO_STEPS)
        turns[name] = lambda train=train: rate(seeds * PPO_STEPS, train, time.process_time)
    return turns


def evaluation_turns(spec: EnvironmentSpec) -> Turns:
    """Returns what is measured of evaluations of a policy in both ways of acting, by name."""
    turns: Turns = {}
    for name in either_way():
        evaluator = protocol.Evaluator(spec, 10)
        policy = ActorCriticPolicy(
            evaluator.observation_space, evaluator.action_space, lambda _: 0.0
        )
        asked = [protocol.Evaluation(policy, 100, 0, likely) for likely in (False, True)]
        evaluate = partial(evaluator.evaluate_all, asked)
        turns[name] = lambda evaluate=evaluate: rate(200, evaluate, time.process_time)
    return turns


def measure_small(env_ids: Sequence[str], repeats: int, training: bool) -> None:
    """Prints the rows of small tasks."""
    for env_id in env_ids:
        spec = find_environment(env_id)
        kinds = {f"{N_ENVS * seeds} environments": small_turns(spec, seeds) for seeds in (1, PACK)}
        if training:
            kinds |= {"PPO": ppo_turns(spec, 1), f"PPO, pack of {PACK}": ppo_turns(spec, PACK)}
            kinds |= {"100 episodes, both ways": evaluation_turns(spec)}
        for kind, turns in kinds.items():
            measure(f"{env_id}, {kind}", turns, repeats, {"batch": "step"})


def measure(title: str, turns: Turns, repeats: int, ratios: dict[str, str]) -> None:
    """Takes turns, and prints a row for each and for each ratio (of a name to another)."""
    found: dict[str, list[float]] = {name: [] for name in turns}
    for _ in range(repeats):
        for name, turn in turns.items():
            found[name].append(turn())
    for name, values in found.items():
        print(comparison.row(f"{title}, {name}, per second", values, 0))
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
    parser.add_argument("--small", action="append", nargs="?", const=None, choices=SMALL)
    options = parser.parse_args()
    th.set_num_threads(1)
    warnings.simplefilter("ignore")
    comparison.print_heading(options.repeats)
    if options.small is not None:
        chosen = [env_id for env_id in options.small if env_id]
        measure_small(chosen or SMALL, options.repeats, options.training)
        return
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
