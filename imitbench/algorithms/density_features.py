"""Rows of transitions that a density is estimated over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from imitbench.algorithms import base
from imitbench.algorithms.demonstration_fit import check_fit, split_kinds
from imitbench.data import types
from imitbench.data.observations import maybe_unwrap_dictobs
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


class FeatureMaker:
    """Makes the rows that a density is estimated over.

    Args:
        observation_space: Space of one observation.
        action_space: Space of one action.
        use_action: Whether the action is part of a row.
        use_next: Whether the next observation is part of a row.
    """

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        *,
        use_action: bool,
        use_next: bool,
    ) -> None:
        self.observation_space = observation_space
        self.action_space = action_space
        self.use_action = use_action
        self.use_next = use_next

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
        trajectories, given = split_kinds(demonstrations)
        times = None
        if trajectories is not None:
            times = np.concatenate([np.arange(len(each)) for each in trajectories])
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
