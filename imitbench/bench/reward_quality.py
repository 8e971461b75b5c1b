"""How well a learnt reward agrees with the true one, on episodes that training never saw."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from imitbench.bench.environments import make_training_environments
from imitbench.data import rollout
from imitbench.data.observations import assert_not_dictobs
from imitbench.policies.exploration_wrapper import ExplorationWrapper
from imitbench.records.runs import EnvironmentSpec

if TYPE_CHECKING:
    from stable_baselines3.common.policies import BasePolicy

    from imitbench.data.types import TrajectoryWithRew
    from imitbench.rewards.base import RewardNet

RANDOM_RATES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Shares of random actions: from the policy's own behaviour to chance, so that returns spread."""

_ENVIRONMENTS = 8
_PAIRS = 1000


def held_out_trajectories(
    policy: BasePolicy, environment: EnvironmentSpec, seed: int
) -> list[TrajectoryWithRew]:
    """Whole episodes of every quality between a policy and chance.

    Args:
        policy: The better end of the scale.
        environment: Where to act; its true rewards are kept.
        seed: Seed of environments and actions.

    Returns:
        Eight episodes for each of `RANDOM_RATES`.
    """
    venv = make_training_environments(environment, _ENVIRONMENTS, seed)
    rng = np.random.default_rng(seed)
    episodes: list[TrajectoryWithRew] = []
    for rate in RANDOM_RATES:
        actor = ExplorationWrapper(policy, venv, random_prob=rate, switch_prob=1.0, rng=rng)
        episodes += rollout.generate_trajectories(
            actor, venv, rollout.make_min_episodes(_ENVIRONMENTS), rng
        )[:_ENVIRONMENTS]
    venv.close()
    return episodes


def reward_agreement(
    net: RewardNet, trajectories: Sequence[TrajectoryWithRew], fragment_length: int, seed: int
) -> dict[str, float]:
    """Compares a learnt reward with the true one.

    Args:
        net: The learnt reward; its normalizers do not learn from this.
        trajectories: Whole episodes with true rewards, all of them at least `fragment_length`
            steps long.
        fragment_length: Steps of each fragment.
        seed: Seed of the choice of fragments.

    Returns:
        `reward_correlation`, Spearman's rank correlation of the returns of whole episodes, and
        `preference_accuracy`, the share of pairs of fragments that both order alike, over pairs
        that the true reward tells apart and counting half where the learnt one does not. What
        is not defined, because nothing differs, is left out.
    """
    from scipy.stats import spearmanr

    flat = rollout.flatten_trajectories_with_rew(trajectories)
    learnt = net.predict(
        assert_not_dictobs(flat.obs), flat.acts, assert_not_dictobs(flat.next_obs), flat.dones
    ).astype(np.float64)
    starts = np.cumsum([0, *(len(trajectory) for trajectory in trajectories)])
    found: dict[str, float] = {}
    returns = [np.add.reduceat(rewards, starts[:-1]) for rewards in (learnt, flat.rews)]
    if all(np.ptp(values) > 0 for values in returns):
        found["reward_correlation"] = float(spearmanr(*returns).statistic)
    sums = [_fragment_returns(rewards, starts, fragment_length) for rewards in (learnt, flat.rews)]
    pairs = np.random.default_rng(seed).integers(len(sums[0]), size=(2, _PAIRS))
    learnt_order, true_order = (np.sign(values[pairs[0]] - values[pairs[1]]) for values in sums)
    told_apart = true_order != 0
    if told_apart.any():
        same = (1 + learnt_order * true_order)[told_apart] / 2
        found["preference_accuracy"] = float(same.mean())
    return found


def _fragment_returns(
    rewards: npt.NDArray[np.float64], starts: npt.NDArray[np.int64], length: int
) -> npt.NDArray[np.float64]:
    """Return of every fragment that lies within one episode."""
    sums = np.concatenate([[0.0], np.cumsum(rewards, dtype=np.float64)])
    first = np.concatenate([np.arange(start, end - length + 1) for start, end in pairwise(starts)])
    # Prefix sums cancel exactly only up to rounding; equal fragments must stay equal.
    differences: npt.NDArray[np.float64] = np.round(sums[first + length] - sums[first], 9)
    return differences
