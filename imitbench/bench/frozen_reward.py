"""Learned rewards that are not trained any more: names, checks and loads them to be optimized.

A run whose specification names a learned reward trains a fresh policy on it. Such runs have a
results folder of their own inside the results folder of the runs that learned the rewards, so that
no table of results mixes the two.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from imitbench.errors import InputError
from imitbench.records.runs import LearnedReward, RunSpec
from imitbench.store.run_dir import RunDirectory
from imitbench.util.files import digest_files

if TYPE_CHECKING:
    import gymnasium as gym

    from imitbench.rewards.base import RewardNet
    from imitbench.rewards.reward_function import RewardFn

REOPTIMIZED_FOLDER = ".reoptimized"
"""Results folder, inside another, of the runs that optimize rewards of the other's runs."""


def pin_reward(directory: RunDirectory) -> LearnedReward:
    """Returns what names the stored reward of a run, with its present content.

    Args:
        directory: A complete run with a stored reward.
    """
    run = directory.path.resolve().relative_to(directory.results).as_posix()
    return LearnedReward(run=run, digest=_digest(directory.reward))


def reward_of_run(
    spec: RunSpec,
    out: Path,
    observation_space: gym.Space[Any],
    action_space: gym.Space[Any],
    device: str,
) -> RewardFn | None:
    """Loads the learned reward that a run optimizes; `None` for a run without one.

    Args:
        spec: Specification of the run.
        out: Results folder of the run, `REOPTIMIZED_FOLDER` in that of the reward's.
        observation_space: Space of the observations in the run's environment.
        action_space: Space of the actions there.
        device: Device of the network.

    Raises:
        InputError: Its content is not what was pinned, cannot be read, or is of other spaces.
    """
    if spec.reward is None:
        return None
    from imitbench.policies.space_check import check_reward_fits
    from imitbench.rewards.storage import load_reward_net
    from imitbench.untrusted import gate

    folder = RunDirectory(out.parent / spec.reward.run).reward
    if not folder.is_dir():
        raise InputError(f"{folder}: no such reward; run {spec.reward.run} must be complete")
    if _digest(folder) != spec.reward.digest:
        raise InputError(
            f"{folder}: the reward changed since its optimization was planned; give the command "
            "again to plan with the new one"
        )
    net = gate.checked(partial(load_reward_net, folder, device), folder)
    check_reward_fits(net, observation_space, action_space, where=str(folder))
    return frozen(net)


def frozen(net: RewardNet) -> RewardFn:
    """Returns the rewards of a network as they train a policy, with its statistics unchanged."""
    return partial(net.predict_processed, update_stats=False)


def _digest(folder: Path) -> str:
    return digest_files(folder, (path for path in folder.rglob("*") if path.is_file()))
