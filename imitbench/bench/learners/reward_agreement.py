"""Compares learned rewards with the true ones, on episodes that training never saw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from imitbench.bench.environments import make_training_environments
from imitbench.bench.learner import Task
from imitbench.bench.seeding import derive_seed
from imitbench.data import rollout
from imitbench.data.observations import assert_not_dictobs
from imitbench.policies.exploration_wrapper import ExplorationWrapper
from imitbench.records.runs import EnvironmentSpec
from imitbench.rewards.agreement import Part, correlation, fragment_returns, ordered_alike

if TYPE_CHECKING:
    from stable_baselines3.common.policies import BasePolicy

    from imitbench.data.types import TrajectoryWithRew
    from imitbench.rewards.base import RewardNet

Floats: TypeAlias = npt.NDArray[np.float64]

RANDOM_RATES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Shares of random actions, from the policy's actions only to random actions only.

The different shares make the episodes' returns differ.
"""

EPISODES = 8
"""Held-out episodes of each share of random actions, and environments that play them."""
_PAIRS = 1000


def held_out_trajectories(
    policy: BasePolicy,
    environment: EnvironmentSpec,
    seed: int,
    rates: Sequence[float] | None = None,
    count: int | None = None,
) -> list[TrajectoryWithRew]:
    """Samples whole episodes of every quality between a policy and random actions.

    Args:
        policy: Best policy, which acts where its actions are not replaced by random ones.
        environment: Environment to act in; the episodes keep its true rewards.
        seed: Seed of environments and actions.
        rates: Shares of random actions; `None` for `RANDOM_RATES`.
        count: Number of episodes for each rate; `None` for eight.
    """
    count = EPISODES if count is None else count
    venv = make_training_environments(environment, min(count, EPISODES), seed)
    rng = np.random.default_rng(seed)
    episodes: list[TrajectoryWithRew] = []
    for rate in RANDOM_RATES if rates is None else rates:
        actor = ExplorationWrapper(
            policy, venv, random_prob=rate, switch_prob=1.0, rng=rng, stateful=True
        )
        episodes += rollout.generate_trajectories(
            actor, venv, rollout.make_min_episodes(count), rng
        )[:count]
    venv.close()
    return episodes


def reward_agreement(
    net: RewardNet, trajectories: Sequence[TrajectoryWithRew], fragment_length: int, seed: int
) -> dict[str, float]:
    """Compares a learned reward with the true one.

    Args:
        net: The learned reward; its normalizers are not updated.
        trajectories: Whole episodes with true rewards, all of them at least `fragment_length`
            steps long.
        fragment_length: Steps of each fragment.
        seed: Seed of the choice of fragments.

    Returns:
        `reward_correlation`, Spearman's rank correlation of the returns of whole episodes, with its
        interval, see `rank_correlation`; and `preference_accuracy`, the share of pairs of fragments
        that both rewards order in the same way. It covers pairs whose true returns differ;
        a pair with equal learned returns counts half. A value that is undefined, because all
        returns are equal, is omitted.
    """
    rewards, starts = _rewards(net, trajectories)
    found = _return_correlation(rewards, starts)
    sums = [fragment_returns(reward, starts, fragment_length) for reward in rewards]
    pairs = np.random.default_rng(seed).integers(len(sums[0]), size=(2, _PAIRS))
    same, told_apart = ordered_alike(sums[0], sums[1], pairs)
    if told_apart.any():
        found["preference_accuracy"] = float(same[told_apart].mean())
    return found


def held_out_agreement(
    net: RewardNet, policy: BasePolicy, task: Task, fragment_length: int
) -> dict[str, float]:
    """Samples held-out episodes, and compares a learned reward with the true one on them.

    Args:
        net: The learned reward.
        policy: See `held_out_trajectories`.
        task: Environment and seed.
        fragment_length: See `reward_agreement`; shorter episodes are left out.
    """
    seed = derive_seed(task.seed, "held-out trajectories")
    trajectories = held_out_trajectories(policy, task.environment, seed)
    kept = [trajectory for trajectory in trajectories if len(trajectory) >= fragment_length]
    return reward_agreement(net, kept, fragment_length, seed)


def return_correlation(
    net: RewardNet, trajectories: Sequence[TrajectoryWithRew]
) -> dict[str, float]:
    """Compares the returns of whole episodes by a learned reward and by the true one.

    Args:
        net: The learned reward; its normalizers are not updated.
        trajectories: Whole episodes with true rewards.

    Returns:
        `reward_correlation` and its interval, see `rank_correlation`; empty
        if it is undefined, because all returns are equal.
    """
    return _return_correlation(*_rewards(net, trajectories))


def step_correlation(
    net: RewardNet,
    expert: BasePolicy,
    policy: BasePolicy,
    environment: EnvironmentSpec,
    seed: int,
) -> dict[str, float]:
    """Compares the rewards of single steps by a learned reward and by the true one.

    Args:
        net: The learned reward; its normalizers are not updated.
        expert: Policy of the first third of all episodes.
        policy: Policy of the second third; the last one has random actions.
        environment: Environment to act in.
        seed: Seed of environments and actions.

    Returns:
        `reward_step_correlation` and its interval over whole episodes, see
        `rank_correlation`; empty if it is undefined.
    """
    episodes = held_out_trajectories(expert, environment, seed, (0.0,))
    episodes += held_out_trajectories(policy, environment, seed, (0.0, 1.0))
    return rank_correlation("reward_step_correlation", rewards_by_episode(net, episodes))


def rewards_by_episode(net: RewardNet, trajectories: Sequence[TrajectoryWithRew]) -> list[Part]:
    """Returns the learned and the true rewards of the steps of each episode."""
    (learned, true), starts = _rewards(net, trajectories)
    ends = starts[1:-1]
    return list(zip(np.split(learned, ends), np.split(true, ends), strict=True))


def rank_correlation(name: str, parts: Sequence[Part]) -> dict[str, float]:
    """Returns Spearman's rank correlation as a measure, with an interval of 95 %.

    Args:
        name: Name of the measure.
        parts: See `imitbench.rewards.agreement.correlation`.

    Returns:
        The correlation under `name`, and its interval under `name` with `_low` and `_high`; empty
        if one side is constant.
    """
    found = correlation(parts)
    if found is None:
        return {}
    return dict(zip((name, f"{name}_low", f"{name}_high"), found, strict=True))


def _rewards(
    net: RewardNet, trajectories: Sequence[TrajectoryWithRew]
) -> tuple[tuple[Floats, Floats], npt.NDArray[np.int64]]:
    """Learned and true rewards of all steps, and where episodes start, with the end of the last."""
    flat = rollout.flatten_trajectories_with_rew(trajectories)
    learned = net.predict(
        assert_not_dictobs(flat.obs), flat.acts, assert_not_dictobs(flat.next_obs), flat.dones
    ).astype(np.float64)
    starts = np.cumsum([0, *(len(trajectory) for trajectory in trajectories)])
    return (learned, flat.rews), starts


def _return_correlation(
    rewards: tuple[Floats, Floats], starts: npt.NDArray[np.int64]
) -> dict[str, float]:
    learned, true = (np.add.reduceat(side, starts[:-1]) for side in rewards)
    parts = [(learned[at : at + 1], true[at : at + 1]) for at in range(learned.size)]
    return rank_correlation("reward_correlation", parts)
