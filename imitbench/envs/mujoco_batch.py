"""Steps many simulations of a MuJoCo task at once, with the results of the environments' `step`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import OrderEnforcing, TimeLimit

from imitbench.envs.mujoco_tasks import Array, Rows, StepResults, task_of
from imitbench.util.text_line import note

# The entries of a simulation that later steps depend on.
_STATE = ("time", "qpos", "qvel", "act", "qacc_warmstart", "ctrl", "qfrc_applied", "xfrc_applied",
          "mocap_pos", "mocap_quat", "userdata")  # fmt: skip
_CHECKED_STEPS = 12


class MujocoBatch:
    """Simulations of environments of one task.

    The environments reset themselves, with their own random numbers; `load` then copies the state.

    Args:
        envs: Environments of one task that batches know, without wrappers.
        threads: Threads of the simulator; they do not change results.

    Attributes:
        threads: At most one for each environment.
    """

    def __init__(self, envs: Sequence[Any], threads: int = 1) -> None:
        import mujoco
        from mujoco.batch import Batch

        kind = task_of(envs[0])
        assert kind is not None, "batches know the task"
        self._mujoco, self._envs = mujoco, list(envs)
        first = envs[0]
        self._frame_skip: int = first.frame_skip
        # A simulation keeps its own data only where something is computed from it after a step.
        probe = kind(first, Batch(first.model, 1, 1))
        persistent = probe.needs_contact_forces
        self.threads = min(threads, len(envs))
        self._batch = Batch(first.model, len(envs), self.threads, persistent)
        self._task = kind(first, self._batch)
        self._scratch = mujoco.MjData(first.model) if persistent else None
        bound = {name: self._batch.bind(name) for name in _STATE}
        self._state = {name: array for name, array in bound.items() if array.size}
        self._ctrl = self._batch.bind("ctrl")
        shape = np.shape(self._task.position_of(first.data))
        self._positions = np.zeros((len(envs), *shape))

    def load(self, index: int, *, moved: bool = True) -> None:
        """Copies the state of an environment.

        Args:
            index: Number of the environment.
            moved: Whether the next step's velocity begins where the environment is now.
        """
        data = self._envs[index].data
        for name, array in self._state.items():
            array[index] = getattr(data, name)
        if moved:
            self._positions[index] = self._task.position_of(data)

    def write_back(self, index: int, *, derived: bool = False) -> None:
        """Copies the state of a simulation to its environment.

        Args:
            index: Number of the environment.
            derived: Whether to compute what follows from the state, for rendering.
        """
        inner = self._envs[index]
        for name, array in self._state.items():
            if name == "time":
                inner.data.time = float(array[index].item())
            else:
                getattr(inner.data, name)[...] = array[index]
        if derived:
            self._mujoco.mj_forward(inner.model, inner.data)

    def step(self, actions: Array, ids: Array | None = None) -> StepResults:
        """Steps simulations.

        Args:
            actions: Within the bounds, shape (n, actions).
            ids: Their numbers, shape (n,), increasing; `None` for all.
        """
        rows: Rows = slice(None) if ids is None else ids
        self._ctrl[rows] = actions
        self._batch.step(ids=ids, nstep=self._frame_skip)
        before, after = self._positions[rows], self._task.position(rows).copy()
        if ids is None:
            before = before.copy()
        self._positions[rows] = after
        return self._task.results(rows, before, after, actions, self._contact_forces(ids))

    def _contact_forces(self, ids: Array | None) -> Array | None:
        if self._scratch is None:
            return None
        model, found = self._envs[0].model, []
        for index in range(len(self._envs)) if ids is None else ids.tolist():
            data = self._batch.get_data(index, self._scratch)
            self._mujoco.mj_rnePostConstraint(model, data)
            found.append(data.cfrc_ext.copy())
        return np.array(found)


def time_limit(env: gym.Env[Any, Any]) -> int | None:
    """Returns the time limit of an environment that has no other wrappers than Gymnasium's own.

    Returns:
        Steps; `None` for no limit.

    Raises:
        ValueError: There is another wrapper.
    """
    limit = None
    while isinstance(env, gym.Wrapper):
        if type(env) is TimeLimit:
            limit = env._max_episode_steps if limit is None else min(limit, env._max_episode_steps)
        elif type(env) is not OrderEnforcing:
            raise ValueError(f"{type(env).__name__} is not a wrapper that batches know")
        env = env.env
    return limit


def knows(env: gym.Env[Any, Any]) -> bool:
    """Whether batches know the task of an environment and all its wrappers.

    One that shows each step in a window is stepped by itself.
    """
    if env.render_mode == "human" or find_spec("mujoco.batch") is None:
        return False
    try:
        time_limit(env)
    except ValueError:
        return False
    return task_of(env.unwrapped) is not None


def agrees(env: gym.Env[Any, Any]) -> bool:
    """Compares the steps of a batch with those of an environment, bit for bit.

    Prints one warning if they differ: then the formulas here are not those of the installed
    version of the environment.

    Args:
        env: A new environment that batches know; it is reset and stepped.
    """
    inner: Any = env.unwrapped
    batch = MujocoBatch([inner])
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    batch.load(0)
    for _ in range(_CHECKED_STEPS):
        space = inner.action_space
        action = rng.uniform(space.low, space.high).astype(space.dtype)
        found = batch.step(action[None])
        obs, reward, terminated, _, info = inner.step(action)
        infos = {name: values[0] for name, values in found.infos.items()}
        if not (
            np.array_equal(obs, found.obs[0], equal_nan=True)
            and reward == found.rewards[0]
            and terminated == found.terminated[0]
            and info.keys() == infos.keys()
            and all(np.array_equal(info[name], infos[name]) for name in info)
        ):
            name = type(inner).__name__
            note(f"warning: {name}: a batch's steps differ from the environment's own, which are "
                 "used instead (slower)")  # fmt: skip
            return False
        if terminated:
            env.reset()
            batch.load(0)
    return True
