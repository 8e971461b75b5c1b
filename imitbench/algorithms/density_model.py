"""Densities of transitions: their rows and time steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch as th
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from imitbench.algorithms import base
from imitbench.algorithms.demonstration_fit import check_fit
from imitbench.data import types
from imitbench.data.observations import maybe_unwrap_dictobs
from imitbench.data.trajectories import first_step
from imitbench.rewards.density import DensityRewardNet
from imitbench.util.kernel_density import Standardiser, fit_density
from imitbench.util.util import safe_to_numpy

Array = npt.NDArray[Any]


def flatten_batch(space: gym.Space[Any], values: Any) -> Array:
    """Flattens a batch of elements of a space, each as `gymnasium.spaces.flatten` does.

    Args:
        space: Box, Discrete, MultiDiscrete, MultiBinary, or Dict of these.
        values: Elements along the first axis; a dictionary of arrays for a Dict.

    Returns:
        Shape (n, `gymnasium.spaces.flatdim(space)`); choices are one-hot encoded.

    Raises:
        ValueError: The space is of another kind.
    """
    if isinstance(space, spaces.Dict):
        values = maybe_unwrap_dictobs(values)
        parts = [flatten_batch(part, values[key]) for key, part in space.spaces.items()]
        return np.concatenate(parts, axis=1)
    if not isinstance(
        space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary
    ):
        raise ValueError(f"space {space} cannot be flattened: {type(space).__name__}")
    array = safe_to_numpy(values)
    rows = array.reshape(len(array), -1)
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        return np.asarray(rows, dtype=space.dtype)
    if isinstance(space, spaces.Discrete):
        sizes, starts = np.array([space.n]), np.array([space.start])
    else:
        sizes, starts = space.nvec.ravel(), space.start.ravel()
    offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    hot = np.zeros((len(rows), int(sizes.sum())), dtype=space.dtype)
    np.put_along_axis(hot, rows.astype(np.int64) - starts + offsets, 1, axis=1)
    return hot


@dataclass(frozen=True)
class FeatureMaker:
    """Makes the rows that a density is estimated over.

    Attributes:
        observation_space: Space of one observation.
        action_space: Space of one action.
        use_action: Whether the action is part of a row.
        use_next: Whether the next observation is part of a row.
    """

    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]
    use_action: bool
    use_next: bool

    def __call__(self, obs: Any, acts: Any, next_obs: Any) -> Array:
        """Makes rows of transitions.

        Args:
            obs: Observations, shape (n, *observation_shape), or a dictionary of them.
            acts: Actions, shape (n, *action_shape).
            next_obs: Next observations, like `obs`; ignored unless part of a row.

        Returns:
            Shape (n, d), float64.
        """
        parts = [flatten_batch(self.observation_space, obs)]
        if self.use_action:
            parts.append(flatten_batch(self.action_space, acts))
        if self.use_next:
            parts.append(flatten_batch(self.observation_space, next_obs))
        return np.concatenate(parts, axis=1, dtype=np.float64)

    def of_demonstrations(self, demonstrations: base.AnyTransitions) -> tuple[Array, Array | None]:
        """Makes rows of demonstrations.

        Args:
            demonstrations: Trajectories, transitions, or a finite iterable of batches.

        Returns:
            Rows, shape (n, d), float64, and the time step of each within its trajectory, shape
            (n,), or `None` unless given as trajectories.

        Raises:
            TypeError: Demonstrations of another type.
            ValueError: Demonstrations are empty, not finite, of other shapes, or lack a field that
                is part of a row.
        """
        trajectories, given = base.split_kinds(demonstrations)
        times = None
        if trajectories is not None:
            times = np.concatenate(
                [first_step(trajectory) + np.arange(len(trajectory)) for trajectory in trajectories]
            )
        if isinstance(given, types.TransitionsMinimal):
            return self._of_batch(vars(given)), times
        return np.concatenate([self._of_batch(batch) for batch in given]), None

    def _of_batch(self, batch: Mapping[str, Any]) -> Array:
        wanted = ["obs", "acts"] + ["next_obs"] * self.use_next
        for name in wanted:
            if batch.get(name) is None:
                raise ValueError(f"demonstrations: {name} is missing; the density needs it")
        for name in wanted[::2]:
            check_fit(batch[name], batch["acts"], self.observation_space, self.action_space)
        return self(batch["obs"], batch["acts"], batch.get("next_obs"))


class TimedDensity:
    """One density per time step, or a single one for all, over standardized rows.

    Args:
        rows_by_time: Rows of each time step, shape (n, d); a single entry `None` stands for all
            steps.
        kernel: One of `KERNELS`.
        bandwidth: Width of the kernel.
        standardise: Whether rows are standardized, by those of all time steps together.
    """

    def __init__(
        self,
        rows_by_time: Mapping[int | None, Array],
        kernel: str,
        bandwidth: float,
        standardise: bool,
    ) -> None:
        self._kernel, self._bandwidth = kernel, bandwidth
        self._standardise = Standardiser(np.concatenate(list(rows_by_time.values())), standardise)
        self._points = {time: self._standardise(rows) for time, rows in rows_by_time.items()}
        self._models = {
            time: fit_density(points, kernel, bandwidth) for time, points in self._points.items()
        }

    def log_density(self, rows: Array, steps: Array | None) -> Array:
        """Natural logarithm of the density.

        Args:
            rows: Shape (m, d).
            steps: Time step of each row, shape (m,); ignored by a single density for all steps.

        Returns:
            Shape (m,), float64.

        Raises:
            ValueError: `steps` are missing, of another shape, or beyond the known ones.
        """
        rows = self._standardise(rows)
        if None in self._models:
            return self._models[None].log_density(rows)
        if steps is None:
            raise ValueError("steps: required, because the density is not stationary")
        steps = np.asarray(steps)
        if steps.shape != (len(rows),):
            raise ValueError(f"steps has shape {steps.shape}; it needs ({len(rows)},)")
        result = np.empty(len(rows))
        for time in np.unique(steps).tolist():
            if time not in self._models:
                raise ValueError(
                    f"steps: time {time} is beyond the demonstrations, which have "
                    f"{len(self._models)} steps"
                )
            at_time = steps == time
            result[at_time] = self._models[time].log_density(rows[at_time])
        return result

    def reward_net(self, features: FeatureMaker) -> DensityRewardNet:
        """The logarithm of the density as a network, which can be stored.

        Args:
            features: What made the rows.

        Raises:
            ValueError: There is a density for each time step, which a network does not see, or the
                network does not support a space.
        """
        if None not in self._points:
            raise ValueError("is_stationary=False: a reward network does not see the time step")
        points = self._points[None]
        net = DensityRewardNet(
            features.observation_space,
            features.action_space,
            kernel=self._kernel,
            bandwidth=self._bandwidth,
            n_points=len(points),
            use_action=features.use_action,
            use_next_state=features.use_next,
        )
        state = {"points": points, "mean": self._standardise.mean, "scale": self._standardise.scale}
        net.load_state_dict({name: th.tensor(array) for name, array in state.items()})
        return net


class EpisodeClock(VecEnvWrapper):
    """Gives the time step of transitions of which only the ends of episodes are known.

    Args:
        venv: Environment; its resets restart the clock.

    Attributes:
        steps: Steps of the running episodes that `advance` has counted, shape (n_envs,).
    """

    def __init__(self, venv: VecEnv) -> None:
        super().__init__(venv)
        self.steps: npt.NDArray[np.int64] = np.zeros(self.num_envs, dtype=np.int64)

    def reset(self) -> VecEnvObs:
        """Resets the environments."""
        self.steps[:] = 0
        return self.venv.reset()

    def step_wait(self) -> VecEnvStepReturn:
        """Finishes a step; `advance` counts it."""
        return self.venv.step_wait()

    def advance(self, dones: Array) -> npt.NDArray[np.int64]:
        """Counts transitions.

        Args:
            dones: Whether the episode ended, shape (steps * n_envs,): entry `t * n_envs + i` is of
                environment `i`.

        Returns:
            Time step of each transition within its episode, from 0, in the same order.
        """
        ends = np.asarray(dones, dtype=bool).reshape(-1, self.num_envs)
        # Counted from the last end before, or from the clock's state.
        rows = np.arange(len(ends))[:, None]
        start = np.full((len(ends) + 1, self.num_envs), -1, dtype=np.int64)
        start[1:][ends] = np.broadcast_to(rows + 1, ends.shape)[ends]
        start = np.maximum.accumulate(start, axis=0)
        begun = start >= 0
        rows = np.arange(len(ends) + 1)[:, None]
        times = np.where(begun, rows - start, rows + self.steps)
        self.steps[:] = times[-1]
        return np.asarray(times[:-1].reshape(-1), dtype=np.int64)
