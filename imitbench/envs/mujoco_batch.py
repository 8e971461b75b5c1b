"""Steps many simulations of a MuJoCo task at once, with the results of the environments' `step`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from imitbench.envs.batch import Array, Rows, StepResults
from imitbench.envs.mujoco_tasks import task_of

# The entries of a simulation that later steps depend on.
_STATE = ("time", "qpos", "qvel", "act", "qacc_warmstart", "ctrl", "qfrc_applied", "xfrc_applied",
          "mocap_pos", "mocap_quat", "userdata")  # fmt: skip


class MujocoBatch:
    """Simulations of environments of one task; see `imitbench.envs.batch.Batch`.

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
