"""Transitions of demonstrations, with whether their episodes ended for good."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from stable_baselines3.common.vec_env import VecEnv

from imitbench.algorithms import base
from imitbench.algorithms.demonstration_fit import check_fit, split_kinds
from imitbench.data import types
from imitbench.util.util import safe_to_numpy

Array = npt.NDArray[Any]

FIELDS = ("obs", "acts", "next_obs", "dones")


def expert_transitions(
    demonstrations: base.AnyTransitions,
    observation_space: gym.Space[Any],
    action_space: gym.Space[Any],
    time_limit: int | None,
) -> dict[str, Array]:
    """Checks and joins demonstrations.

    Args:
        demonstrations: Trajectories, transitions with next observations, or a finite iterable of
            batches of them.
        observation_space: Space of one observation.
        action_space: Space of one action.
        time_limit: Maximum episode length in steps, if there is one. A trajectory of this length
            counts as truncated, as does one whose last info has `TimeLimit.truncated`.

    Returns:
        `obs`, `acts`, `next_obs`, `dones`, `timeouts` and `starts`, each of shape (n, …); the last
        two are whether the episode was truncated there, and whether it began there.

    Raises:
        TypeError: Demonstrations of another type.
        ValueError: Demonstrations are empty, not finite, of other shapes, or lack a field.
    """
    trajectories, given = split_kinds(demonstrations)
    batches: list[Mapping[str, Any]] = (
        [vars(given)] if isinstance(given, types.TransitionsMinimal) else [*given]
    )
    for batch in batches:
        for name in FIELDS:
            if batch.get(name) is None:
                raise ValueError(f"demonstrations: {name} is missing")
        for name in ("obs", "next_obs"):
            check_fit(batch[name], batch["acts"], observation_space, action_space)
    rows = {
        name: np.concatenate([safe_to_numpy(batch[name]) for batch in batches]) for name in FIELDS
    }
    cut = np.concatenate([_marked_as_truncated(batch) for batch in batches])
    if trajectories is not None and time_limit is not None:
        lengths = np.array([len(each) for each in trajectories])
        cut[np.cumsum(lengths)[lengths == time_limit] - 1] = True
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
