"""Demonstrations of experts from the hub, to test other code with."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import DataLoader

from imitbench.data import rollout, serialize
from imitbench.data.types import (
    TrajectoryWithRew,
    TransitionMapping,
    TransitionsWithRew,
    transitions_collate_fn,
)
from imitbench.data.wrappers import RolloutInfoWrapper
from imitbench.errors import did_you_mean
from imitbench.policies.serialize import load_policy
from imitbench.util.util import make_vec_env

_KINDS = ("trajectories", "data_loader", "ducktyped_data_loader", "transitions")


def generate_expert_trajectories(
    env_id: str, num_trajectories: int, rng: np.random.Generator
) -> Sequence[TrajectoryWithRew]:
    """Rolls out the PPO expert of the organization HumanCompatibleAI on the hub.

    Args:
        env_id: Environment of expert and episodes.
        num_trajectories: Number of episodes.
        rng: Generator of the seeds of environments and actions.

    Returns:
        `num_trajectories` episodes.

    Raises:
        ValueError: `num_trajectories` is not positive.
        InputError: There is no such expert, or the hub cannot be reached.
    """
    enough = rollout.make_sample_until(min_episodes=num_trajectories)
    env = make_vec_env(
        env_id,
        rng=rng,
        n_envs=min(8, num_trajectories),
        post_wrappers=[lambda env, _: RolloutInfoWrapper(env)],
    )
    try:
        expert = load_policy("ppo-huggingface", env, env_name=env_id)
        episodes = rollout.rollout(expert, env, enough, rng=rng)
    finally:
        env.close()
    return episodes[:num_trajectories]


def lazy_generate_expert_trajectories(
    cache_path: str | os.PathLike[str],
    env_id: str,
    num_trajectories: int,
    rng: np.random.Generator,
) -> Sequence[TrajectoryWithRew]:
    """Does what `generate_expert_trajectories` does, but only if the cache has fewer episodes.

    Args:
        cache_path: Folder for the episodes of any number of environments.
        env_id: Environment of expert and episodes.
        num_trajectories: Number of episodes.
        rng: Generator of the seeds of environments and actions.

    Returns:
        `num_trajectories` episodes.

    Raises:
        InputError: See `generate_expert_trajectories`; or the cache is damaged.
    """
    path = Path(cache_path) / env_id.replace("/", "_")
    try:
        cached = serialize.load_with_rewards(path)
    except FileNotFoundError:
        cached = ()
    if len(cached) < num_trajectories:
        cached = generate_expert_trajectories(env_id, num_trajectories, rng)
        serialize.save(path, cached)
    return cached[:num_trajectories]


def make_expert_transition_loader(
    cache_dir: str | os.PathLike[str],
    batch_size: int,
    expert_data_type: str,
    env_name: str,
    rng: np.random.Generator,
    num_trajectories: int = 1,
    shuffle: bool = True,
) -> (
    Sequence[TrajectoryWithRew] | DataLoader[Any] | Iterable[TransitionMapping] | TransitionsWithRew
):
    """Prepares an expert's steps for an algorithm that learns from demonstrations.

    Args:
        cache_dir: See `lazy_generate_expert_trajectories`.
        batch_size: Steps per batch.
        expert_data_type: `trajectories`; `transitions`; `data_loader`, a loader of torch; or
            `ducktyped_data_loader`, an iterable of the same batches.
        env_name: Environment of expert and episodes.
        rng: Generator of the seeds of environments and actions.
        num_trajectories: Number of episodes; more are made if their steps do not fill a batch.
        shuffle: Whether loaders draw the steps in random order.

    Raises:
        ValueError: `expert_data_type` is none of these.
        InputError: See `lazy_generate_expert_trajectories`.
    """
    if expert_data_type not in _KINDS:
        raise ValueError(
            f"expert_data_type: '{expert_data_type}'; {did_you_mean(expert_data_type, _KINDS)}"
        )
    episodes = lazy_generate_expert_trajectories(cache_dir, env_name, num_trajectories, rng)
    if expert_data_type == "trajectories":
        return episodes
    transitions = rollout.flatten_trajectories_with_rew(episodes)
    if len(transitions) < batch_size:
        enough = math.ceil(batch_size * len(episodes) / len(transitions))
        episodes = lazy_generate_expert_trajectories(cache_dir, env_name, enough, rng)
        transitions = rollout.flatten_trajectories_with_rew(episodes)
    if expert_data_type == "transitions":
        return transitions
    loader: DataLoader[Any] = DataLoader(
        transitions,
        batch_size=batch_size,
        collate_fn=transitions_collate_fn,
        shuffle=shuffle,
        drop_last=True,
    )
    return loader if expert_data_type == "data_loader" else _Batches(loader)


class _Batches:
    """The batches of a loader, without its type."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._loader = loader

    def __iter__(self) -> Any:
        return iter(self._loader)
