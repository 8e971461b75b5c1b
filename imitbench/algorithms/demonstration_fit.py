"""Demonstrations: whether they fit the spaces of an algorithm, and their transitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv

from imitbench.algorithms import base
from imitbench.data import types
from imitbench.data.observations import maybe_unwrap_dictobs
from imitbench.data.trajectories import first_step
from imitbench.util.util import safe_to_numpy

Array = npt.NDArray[Any]

FIELDS = ("obs", "acts", "next_obs", "dones")
"""Fields of transitions with next observations."""


def check_fit(
    obs: Any, acts: Any, observation_space: gym.Space[Any], action_space: gym.Space[Any]
) -> None:
    """Checks that a policy for these spaces can learn from observations and actions.

    Checks keys, shapes, finite numbers, and the range of discrete actions. Values of a box may
    exceed its bounds: expert actions are often recorded before clipping.

    Args:
        obs: Observations, shape (N, *observation_shape), or a dictionary of them; arrays or
            tensors.
        acts: Actions, shape (N, *action_shape); array or tensor.
        observation_space: Space of one observation.
        action_space: Space of one action.

    Raises:
        ValueError: Something does not fit; the message names the first.
    """
    obs = maybe_unwrap_dictobs(obs)
    acts = safe_to_numpy(acts)
    if isinstance(obs, Mapping) != isinstance(observation_space, spaces.Dict):
        raise ValueError(
            f"demonstrations: observations do not fit observation_space {observation_space}"
        )
    if isinstance(observation_space, spaces.Dict):
        if obs.keys() != observation_space.keys():
            raise ValueError(
                f"demonstrations: observations have keys {sorted(obs)}, observation_space has "
                f"{sorted(observation_space)}"
            )
        for key, space in observation_space.items():
            _check_values(f"obs['{key}']", safe_to_numpy(obs[key]), space, len(acts))
    else:
        _check_values("obs", safe_to_numpy(obs), observation_space, len(acts))
    _check_values("acts", acts, action_space, len(acts))
    _check_range(acts, action_space)


def _check_values(name: str, values: Array, space: gym.Space[Any], count: int) -> None:
    wanted = (count, *(values.shape[1:] if space.shape is None else space.shape))
    if values.shape != wanted:
        raise ValueError(f"demonstrations: {name} has shape {values.shape}, not {wanted}")
    if np.issubdtype(values.dtype, np.floating) and not np.isfinite(values).all():
        raise ValueError(f"demonstrations: {name} holds values that are not finite")


def _check_range(acts: Array, space: gym.Space[Any]) -> None:
    """Policies number the choices of a discrete space from 0."""
    if isinstance(space, spaces.Discrete):
        choices: Any = space.n
    elif isinstance(space, spaces.MultiDiscrete):
        choices = space.nvec
    elif isinstance(space, spaces.MultiBinary):
        choices = 2
    else:
        return
    outside = (acts < 0) | (acts >= choices)
    if outside.any():
        index = int(np.argwhere(outside)[0][0])
        raise ValueError(
            f"demonstrations: acts holds {acts[index]} at index {index}, which is outside "
            f"action_space {space}"
        )


def check_action_space(space: gym.Space[Any]) -> None:
    """Checks that the choices of a discrete space are numbered from 0, as policies need.

    Raises:
        ValueError: The choices start at another number.
    """
    _check_start("action_space", space, "actions")


def check_observation_space(space: gym.Space[Any]) -> None:
    """The same check for observations, those in a dictionary included.

    Raises:
        ValueError: A discrete space does not start at 0.
    """
    if isinstance(space, spaces.Dict):
        for key, part in space.items():
            _check_start(f"observation_space['{key}']", part, "observations")
    else:
        _check_start("observation_space", space, "observations")


def _check_start(name: str, space: gym.Space[Any], what: str) -> None:
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete) and np.any(space.start):
        raise ValueError(
            f"{name}: {space} does not start at 0, as policies need; shift the {what} of "
            "demonstrations and environment"
        )


def placeholder_actions(space: gym.Space[Any], count: int) -> Array:
    """Zeros in place of the expert's actions, for methods that learn from observations.

    Args:
        space: Space of one action.
        count: Number of actions.

    Returns:
        Shape (count, *action_shape), in the data type of the space.
    """
    return np.zeros((count, *(space.shape or ())), space.dtype)


def expert_transitions(
    demonstrations: base.AnyTransitions,
    observation_space: gym.Space[Any],
    action_space: gym.Space[Any],
    time_limit: int | None,
    *,
    read_actions: bool = True,
) -> dict[str, Array]:
    """Checks and joins demonstrations.

    Args:
        demonstrations: Trajectories, transitions with next observations, or a finite iterable of
            batches of them.
        observation_space: Space of one observation.
        action_space: Space of one action.
        time_limit: Maximum episode length in steps, if there is one. A trajectory that ends at
            this step of its episode counts as truncated, as does one whose last info has
            `TimeLimit.truncated`.
        read_actions: Whether actions are read. If not, they may be missing their entries, and
            `placeholder_actions` stand for them.

    Returns:
        `obs`, `acts`, `next_obs`, `dones`, `timeouts` and `starts`, each of shape (n, …); the last
        two are whether the episode was truncated there, and whether it began there.

    Raises:
        TypeError: Demonstrations of another type.
        ValueError: Demonstrations are empty, not finite, of other shapes, or lack a field.
    """
    trajectories, given = base.split_kinds(demonstrations)
    batches: list[Mapping[str, Any]] = (
        [vars(given)] if isinstance(given, types.TransitionsMinimal) else [*given]
    )
    for batch in batches:
        for name in FIELDS:
            if batch.get(name) is None:
                raise ValueError(f"demonstrations: {name} is missing")
    if not read_actions:
        batches = [
            {**batch, "acts": placeholder_actions(action_space, len(batch["acts"]))}
            for batch in batches
        ]
    for batch in batches:
        for name in ("obs", "next_obs"):
            check_fit(batch[name], batch["acts"], observation_space, action_space)
    rows = {
        name: np.concatenate([safe_to_numpy(batch[name]) for batch in batches]) for name in FIELDS
    }
    cut = np.concatenate([_marked_as_truncated(batch) for batch in batches])
    if trajectories is not None and time_limit is not None:
        lengths = np.array([len(trajectory) for trajectory in trajectories])
        ends = lengths + [first_step(trajectory) for trajectory in trajectories]
        cut[np.cumsum(lengths)[ends == time_limit] - 1] = True
    rows["timeouts"] = cut & rows["dones"].astype(bool)
    starts = np.roll(rows["dones"].astype(bool), 1)
    if trajectories is not None:
        starts[np.cumsum([0, *map(len, trajectories[:-1])])] = True
    starts[0] = True
    rows["starts"] = starts
    return rows


def _marked_as_truncated(batch: Mapping[str, Any]) -> npt.NDArray[np.bool_]:
    infos = batch.get("infos")
    if infos is None:
        return np.zeros(len(batch["acts"]), dtype=bool)
    return np.array([bool(info.get("TimeLimit.truncated", False)) for info in infos])


def common_time_limit(venv: VecEnv) -> int | None:
    """Maximum episode length in steps, if all environments have the same."""
    try:
        specs = venv.get_attr("spec")
    except AttributeError:
        return None
    limits = {getattr(spec, "max_episode_steps", None) for spec in specs}
    return limits.pop() if len(limits) == 1 else None
