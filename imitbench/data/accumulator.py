"""Collects trajectories one step at a time."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from imitbench.data.observations import (
    DictObs,
    Observation,
    assert_not_dictobs,
    maybe_wrap_in_dictobs,
    stack_maybe_dictobs,
)
from imitbench.data.trajectories import TrajectoryWithRew

Array = npt.NDArray[Any]


class TrajectoryAccumulator:
    """Accumulates unfinished trajectories by key until they are finished.

    For complete vectorized rollouts, `imitbench.data.episode_buffer.EpisodeBuffer` is faster: it
    writes to an array per step instead of a dictionary per environment and step.

    Attributes:
        partial_trajectories: The recorded values of each unfinished trajectory, by key and then
            by field.
    """

    def __init__(self) -> None:
        self.partial_trajectories: dict[Hashable, dict[str, list[Any]]] = {}

    def add_step(self, step_dict: Mapping[str, Any], key: Hashable = None) -> None:
        """Appends one step.

        Args:
            step_dict: Values of any of the fields of `TrajectoryWithRew`. The first step of a
                trajectory has only an observation.
            key: Identifies the trajectory; may be omitted for a single one.
        """
        fields = self.partial_trajectories.setdefault(key, {})
        for name, value in step_dict.items():
            fields.setdefault(name, []).append(value)

    def finish_trajectory(self, key: Hashable, terminal: bool) -> TrajectoryWithRew:
        """Removes a trajectory and returns it.

        Args:
            key: See `add_step`.
            terminal: Whether it includes the end of its episode.

        Raises:
            KeyError: No step was recorded under `key`.
            ValueError: A field is missing, or lengths do not match.
        """
        fields = self.partial_trajectories.pop(key)
        missing = {"obs", "acts", "rews"} - fields.keys()
        if missing:
            raise ValueError(f"trajectory {key!r} has no {', '.join(sorted(missing))}")
        return TrajectoryWithRew(
            obs=stack_maybe_dictobs(fields["obs"]),
            acts=np.stack(fields["acts"]),
            infos=_object_array(fields["infos"]) if "infos" in fields else None,
            terminal=terminal,
            rews=np.stack(fields["rews"]),
        )

    def add_steps_and_auto_finish(
        self,
        acts: Array,
        obs: Observation | dict[str, Array],
        rews: Array,
        dones: Array,
        infos: Sequence[dict[str, Any]],
    ) -> list[TrajectoryWithRew]:
        """Records one step of every environment of a `VecEnv`; keys are their indices.

        Before the first call, record the first observation of each environment: call
        `add_step({"obs": obs[i]}, key=i)` after `venv.reset()`. When an episode ends, the
        observation that `step` returned starts the next one.

        Args:
            acts: Actions passed to `VecEnv.step`, shape `(n_envs, *action_shape)`.
            obs: Observations returned by it, shape `(n_envs, *observation_shape)`.
            rews: Rewards returned by it, shape `(n_envs,)`.
            dones: Whether episodes ended, shape `(n_envs,)`, bool.
            infos: Info dictionaries; those of ended episodes have `terminal_observation`.

        Returns:
            The finished trajectories, one for each True in `dones`.

        Raises:
            KeyError: An environment's first observation is missing.
        """
        batch = maybe_wrap_in_dictobs(obs)
        for i in range(len(acts)):
            if i not in self.partial_trajectories:
                raise KeyError(f"environment {i}: add its first observation with add_step")
        finished = []
        for i, (done, info) in enumerate(zip(dones, infos, strict=True)):
            last = _like(info["terminal_observation"], batch) if done else batch[i]
            self.add_step({"acts": acts[i], "rews": rews[i], "obs": last, "infos": info}, key=i)
            if done:
                finished.append(self.finish_trajectory(i, terminal=True))
                self.add_step({"obs": batch[i]}, key=i)
        return finished


def _object_array(values: list[Any]) -> Array:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _like(terminal: Observation | Mapping[str, Array], batch: Observation) -> Observation:
    """Converts a raw terminal observation to the data types of the vector environment."""
    raw = maybe_wrap_in_dictobs(terminal)
    if isinstance(raw, DictObs) and isinstance(batch, DictObs):
        return DictObs({key: np.asarray(v, batch.get(key).dtype) for key, v in raw.items()})
    return np.asarray(raw, dtype=assert_not_dictobs(batch).dtype)
