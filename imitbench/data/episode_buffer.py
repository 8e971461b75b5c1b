"""Turns the steps of a vector environment into episodes with one array write per step."""

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
    """Records every environment of a `VecEnv` side by side and cuts out finished episodes.

    Row `t` of the arrays, shape `(rows, n_envs, ...)`, holds step `t` of all environments.
    When the rows are used up, those before the oldest running episode are dropped, and the
    arrays double when that frees less than half of them: memory follows the longest episode.

    Args:
        obs: First observations, as `VecEnv.reset` returns them.
        acts_like: A batch of actions, for shape and data type alone.
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
    def any_active(self) -> bool:
        """Whether some environment is still being recorded."""
        return bool(self._active.any())

    def stop(self, ended: Array) -> None:
        """Ends the recording of environments.

        Args:
            ended: Which ones, shape `(n_envs,)`, bool. Their running episodes are dropped.
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
            acts: What was passed to `VecEnv.step`, shape `(n_envs, *action_shape)`.
            obs: Observations it returned, shape `(n_envs, *observation_shape)`.
            rews: Rewards it returned, shape `(n_envs,)`.
            dones: Whether episodes ended, shape `(n_envs,)`, bool.
            infos: Info dictionaries; those of ended episodes hold `terminal_observation`.

        Returns:
            Episodes that this step ended in environments that are still recorded, in order of
            environment. Their data types are those of the vector environment, the last
            observation included.
        """
        if self._rewards_kind is None:
            self._rewards_kind = rews.dtype if rews.dtype.kind == "f" else np.dtype(float)
        if self._row + 1 == len(self._acts):
            self._make_room()
        row = self._row
        self._acts[row] = acts
        self._rews[row] = rews
        self._infos.append(infos)
        self._row = row + 1
        for key, value in _by_key(maybe_unwrap_dictobs(obs)).items():
            self._obs[key][row + 1] = value
        if not dones.any():
            return []
        finished = [self._cut(int(i)) for i in np.flatnonzero(dones & self._active)]
        self._start[dones] = row + 1
        return finished

    def _cut(self, env: int) -> TrajectoryWithRew:
        """Copies out the episode that ends with the newest step of `env`."""
        start, end = int(self._start[env]), self._row
        infos = np.empty(end - start, dtype=object)
        infos[:] = [infos_of_step[env] for infos_of_step in self._infos[start:end]]
        terminal = _by_key(maybe_unwrap_dictobs(infos[-1]["terminal_observation"]))
        parts = {}
        for key, rows in self._obs.items():
            parts[key] = rows[start : end + 1, env].copy()
            parts[key][-1] = terminal[key]
        return TrajectoryWithRew(
            obs=DictObs(parts) if self._keyed else parts[""],
            acts=self._acts[start:end, env].copy(),
            infos=infos,
            terminal=True,
            rews=self._rews[start:end, env].astype(self._rewards_kind),
        )

    def _make_room(self) -> None:
        oldest = int(self._start[self._active].min()) if self.any_active else self._row
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
    """One shape for both kinds of observation: a plain array goes under the empty key."""
    return obs if isinstance(obs, Mapping) else {"": obs}


def _rows_like(batch: Array) -> Array:
    return np.empty((_FIRST_ROWS, *batch.shape), dtype=batch.dtype)


def _moved(rows: Array, used: slice, size: int) -> Array:
    """The used rows at the front of an array of `size` rows."""
    fresh = np.empty((size, *rows.shape[1:]), dtype=rows.dtype)
    fresh[: used.stop - used.start] = rows[used]
    return fresh
