"""Splits the steps of a vector environment into episodes, with one array write per step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from imitbench.data.observations import DictObs, Observation, maybe_unwrap_dictobs
from imitbench.data.trajectories import TrajectoryWithRew

Array = npt.NDArray[Any]

_FIRST_ROWS = 64


class EpisodeBuffer:
    """Records all environments of a `VecEnv` in shared arrays and copies out finished episodes.

    Row `t` of the arrays, shape `(rows, n_envs, ...)`, contains step `t` of all environments.
    When the arrays are full, rows before the oldest current episode are dropped; if that frees
    less than half of them, the arrays double. Thus, memory is proportional to the longest episode.

    Args:
        obs: First observations, as returned by `VecEnv.reset`.
        acts_like: A batch of actions, for their shape and data type.
    """

    def __init__(self, obs: Observation | Mapping[str, Array], acts_like: Array) -> None:
        first = maybe_unwrap_dictobs(obs)
        self._keyed = isinstance(first, Mapping)
        parts = _by_key(first)
        self._n_envs = len(acts_like)
        self._obs = {key: _rows_like(value) for key, value in parts.items()}
        self._acts = _rows_like(acts_like)
        self._rews = np.empty((_FIRST_ROWS, self._n_envs))
        self._infos: list[Sequence[dict[str, Any]]] = []
        self._row = 0
        self._start = np.zeros(self._n_envs, dtype=np.int64)
        self._active = np.ones(self._n_envs, dtype=bool)
        self._rewards_kind: np.dtype[Any] | None = None
        for key, value in parts.items():
            self._obs[key][0] = value

    @property
    def running_steps(self) -> Array:
        """Steps of the current episodes that were not returned yet, shape `(n_envs,)`, int64."""
        return self._row - self._start

    @property
    def any_active(self) -> bool:
        """Whether any environment is still recorded."""
        return bool(self._active.any())

    def stop(self, ended: Array) -> None:
        """Stops recording some environments and drops their current episodes.

        Args:
            ended: Whether to stop, shape `(n_envs,)`, bool.
        """
        self._active &= ~ended

    def add(
        self,
        acts: Array,
        obs: Observation | Mapping[str, Array],
        rews: Array,
        dones: Array,
        infos: Sequence[dict[str, Any]],
    ) -> list[TrajectoryWithRew]:
        """Records one step.

        Args:
            acts: Actions passed to `VecEnv.step`, shape `(n_envs, *action_shape)`.
            obs: Observations returned by it, shape `(n_envs, *observation_shape)`.
            rews: Rewards returned by it, shape `(n_envs,)`.
            dones: Whether episodes ended, shape `(n_envs,)`, bool.
            infos: Info dictionaries; those of ended episodes have `terminal_observation`.

        Returns:
            Episodes that ended with this step in environments that are still recorded, in order
            of environment. All observations, including the last one, have the vectorized
            environment's data types.
        """
        if self._rewards_kind is None:
            self._rewards_kind = rews.dtype if rews.dtype.kind == "f" else np.dtype(float)
        if self._row + 1 == len(self._acts):
            self._make_room()
        if acts.dtype != self._acts.dtype or acts.shape != self._acts.shape[1:]:
            self._fit_actions(acts)
        row = self._row
        self._acts[row] = acts
        self._rews[row] = rews
        self._infos.append(infos)
        self._row = row + 1
        for key, value in _by_key(maybe_unwrap_dictobs(obs)).items():
            self._obs[key][row + 1] = value
        if not dones.any():
            return []
        finished = [
            self._slice(env, _by_key(maybe_unwrap_dictobs(infos[env]["terminal_observation"])))
            for env in np.flatnonzero(dones & self._active).tolist()
        ]
        self._start[dones] = row + 1
        return finished

    def cut_running(self, env: int) -> TrajectoryWithRew:
        """Returns the steps of the current episode so far; the next trajectory continues there.

        Args:
            env: Index of the environment, with at least one step recorded.
        """
        part = self._slice(env, terminal=None)
        self._start[env] = self._row
        return part

    def _slice(self, env: int, terminal: Mapping[str, Any] | None) -> TrajectoryWithRew:
        """Copies the current steps of `env`.

        Args:
            env: Index of the environment.
            terminal: Last observation of the episode, by key; its row already contains the first
                one of the next episode. `None` for an unfinished episode.
        """
        start, end = int(self._start[env]), self._row
        infos = [infos_of_step[env] for infos_of_step in self._infos[start:end]]
        parts = {}
        for key, rows in self._obs.items():
            parts[key] = rows[start : end + 1, env].copy()
            if terminal is not None:
                parts[key][-1] = terminal[key]
        return TrajectoryWithRew(
            obs=DictObs(parts) if self._keyed else parts[""],
            acts=self._acts[start:end, env].copy(),
            infos=np.fromiter(infos, dtype=object),
            terminal=terminal is not None,
            rews=self._rews[start:end, env].astype(self._rewards_kind),
        )

    def state_dict(self) -> dict[str, Any]:
        """Returns the current episodes, without their infos."""
        oldest = self._oldest()
        rewards_kind = self._rewards_kind
        return {
            "obs": {key: rows[oldest : self._row + 1].copy() for key, rows in self._obs.items()},
            "keyed": self._keyed,
            "acts": self._acts[oldest : self._row].copy(),
            "rews": self._rews[oldest : self._row].copy(),
            "rewards_kind": None if rewards_kind is None else rewards_kind.str,
            "start": self._start - oldest,
            "active": self._active.copy(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> EpisodeBuffer:
        """Creates a buffer that continues from a `state_dict`; earlier infos are empty."""
        obs, acts, rews = state["obs"], state["acts"], state["rews"]
        first = {key: rows[0] for key, rows in obs.items()}
        buffer = cls(first if state["keyed"] else first[""], np.zeros(acts.shape[1:], acts.dtype))
        rows = len(acts)
        size = max(_FIRST_ROWS, 2 * rows)
        buffer._obs = {key: _moved(value, slice(0, rows + 1), size) for key, value in obs.items()}
        buffer._acts = _moved(acts, slice(0, rows), size)
        buffer._rews = _moved(rews, slice(0, rows), size)
        buffer._infos = [[{} for _ in range(buffer._n_envs)] for _ in range(rows)]
        buffer._row = rows
        buffer._start[:] = state["start"]
        buffer._active[:] = state["active"]
        kind = state["rewards_kind"]
        buffer._rewards_kind = None if kind is None else np.dtype(kind)
        return buffer

    def _fit_actions(self, acts: Array) -> None:
        """Converts recorded actions to a data type that can also represent the new ones exactly."""
        if self._row == 0:
            self._acts = np.empty((len(self._acts), *acts.shape), dtype=acts.dtype)
            return
        kind = np.promote_types(self._acts.dtype, acts.dtype)
        self._acts = self._acts.astype(kind, copy=False)

    def _oldest(self) -> int:
        """Returns the first row that is still needed."""
        return int(self._start[self._active].min()) if self.any_active else self._row

    def _make_room(self) -> None:
        oldest = self._oldest()
        used = slice(oldest, self._row + 1)
        rows = len(self._acts)
        if oldest < rows // 2:
            rows *= 2
        self._obs = {key: _moved(value, used, rows) for key, value in self._obs.items()}
        self._acts = _moved(self._acts, used, rows)
        self._rews = _moved(self._rews, used, rows)
        del self._infos[:oldest]
        self._row -= oldest
        self._start -= oldest


def _by_key(obs: Any) -> Mapping[str, Any]:
    """Returns observations as a dictionary; an array gets the empty key."""
    return obs if isinstance(obs, Mapping) else {"": obs}


def _rows_like(batch: Array) -> Array:
    return np.empty((_FIRST_ROWS, *batch.shape), dtype=batch.dtype)


def _moved(rows: Array, used: slice, size: int) -> Array:
    """Copies the used rows to the front of an array of `size` rows."""
    fresh = np.empty((size, *rows.shape[1:]), dtype=rows.dtype)
    fresh[: used.stop - used.start] = rows[used]
    return fresh
