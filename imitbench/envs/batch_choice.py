"""Chooses what steps many environments at once, and checks that it does what their `step` does."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import OrderEnforcing, TimeLimit

from imitbench.envs import classic_tasks, mujoco_tasks
from imitbench.envs.batch import Batch, StepResults
from imitbench.envs.classic_batch import ClassicBatch
from imitbench.envs.mujoco_batch import MujocoBatch
from imitbench.util.text_line import note

_CHECKED_STEPS = 12
# More than NumPy computes in one instruction, whose rounding might be another.
_CHECKED_TOGETHER = 9
# Fewer environments of a small task are stepped as fast one by one.
_WORTHWHILE = 3


def unlimited(env: gym.Env[Any, Any]) -> tuple[gym.Env[Any, Any], float]:
    """Removes the time limit of an environment, and Gymnasium's check that it is reset.

    Returns:
        The environment in these wrappers, and the limit in steps, infinity for none.
    """
    limit = math.inf
    while isinstance(env, TimeLimit | OrderEnforcing):
        if type(env) is TimeLimit:
            limit = min(limit, env._max_episode_steps)
        elif type(env) is not OrderEnforcing:
            break
        env = env.env
    return env, limit


def knows(env: gym.Env[Any, Any], count: int | None = None) -> bool:
    """Whether batches know the task of an environment and all its wrappers.

    One that shows each step in a window is stepped by itself.

    Args:
        env: The environment.
        count: Number of environments; of few, a small task is stepped one by one.
    """
    if env.render_mode == "human":
        return False
    if _classic_task(env) is not None:
        return count is None or count >= _WORTHWHILE
    inner, _ = unlimited(env)
    if isinstance(inner, gym.Wrapper) or mujoco_tasks.task_of(inner) is None:
        return False
    return find_spec("mujoco.batch") is not None


def make_batch(envs: Sequence[gym.Env[Any, Any]], threads: int = 1) -> Batch:
    """Makes a batch.

    Args:
        envs: Environments of one task that batches know.
        threads: Threads of a simulator; they do not change results.
    """
    inner, kind = [unlimited(env)[0] for env in envs], _classic_task(envs[0])
    return MujocoBatch(inner, threads) if kind is None else ClassicBatch(inner, kind)


def agrees(make: Callable[[], gym.Env[Any, Any]]) -> bool:
    """Compares the steps of a batch with those of environments, bit for bit.

    Prints one warning if they differ: then the formulas here are not those of the installed
    version of the environment, or arrays are rounded otherwise than numbers.

    Args:
        make: Makes an environment that batches know; it is reset, stepped and closed.
    """
    envs = [make()]
    stepped = envs  # simulators are slow to make, and their steps draw no random numbers
    if _classic_task(envs[0]) is not None:
        envs += [make() for _ in range(_CHECKED_TOGETHER - 1)]
        stepped = [make() for _ in envs]
    try:
        same = _steps_agree(make_batch(envs), envs, stepped)
    finally:
        for env in {*envs, *stepped}:
            env.close()
    if not same:
        name = type(envs[0].unwrapped).__name__
        note(f"warning: {name}: a batch's steps differ from the environment's own, which are "
             "used instead (slower)")  # fmt: skip
    return same


def _classic_task(env: gym.Env[Any, Any]) -> type[classic_tasks.ClassicTask] | None:
    return classic_tasks.task_of(*unlimited(env))


def _steps_agree(
    batch: Batch, envs: Sequence[gym.Env[Any, Any]], stepped: Sequence[gym.Env[Any, Any]]
) -> bool:
    """Steps a batch of environments, and equal ones one by one."""
    rng = np.random.default_rng(0)

    def begin(row: int, seed: int | None) -> None:
        for env in {envs[row], stepped[row]}:
            env.reset(seed=seed)
        batch.load(row)

    for row in range(len(envs)):
        begin(row, row)
    for _ in range(_CHECKED_STEPS):
        actions = [_drawn(env.action_space, rng) for env in envs]
        found = batch.step(np.array(actions))
        for row, action in enumerate(actions):
            result: Any = stepped[row].step(action)
            if not _same(result, found, row):
                return False
            if result[2] or result[3]:
                begin(row, None)
    return True


def _drawn(space: gym.Space[Any], rng: np.random.Generator) -> Any:
    if isinstance(space, gym.spaces.Discrete):
        return space.start + rng.integers(space.n)
    assert isinstance(space, gym.spaces.Box), "the tasks' actions are numbers or vectors"
    return rng.uniform(space.low, space.high).astype(space.dtype)


def _same(result: tuple[Any, ...], found: StepResults, row: int) -> bool:
    """Whether a row of a batch's results is that of an environment; time limits do not count."""
    obs, reward, terminated, _, info = result
    infos = {name: values[row] for name, values in found.infos.items()}
    return (
        obs.dtype == found.obs.dtype
        and np.array_equal(obs, found.obs[row], equal_nan=True)
        and bool(reward == found.rewards[row])
        and bool(terminated == found.terminated[row])
        and info.keys() == infos.keys()
        and all(np.array_equal(info[name], infos[name]) for name in info)
    )
