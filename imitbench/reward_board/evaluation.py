"""Measures how far the learned reward of a run agrees with the true one.

The run's policy, its expert and random actions act in the run's environment, each from seeds of
their own, which no training saw. Nothing is trained here; policies that were trained on the reward
are compared with others where there are any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.policies import BasePolicy

from imitbench.bench.environments import make_environment
from imitbench.bench.frozen_reward import frozen
from imitbench.bench.learners.reward_agreement import held_out_trajectories, rewards_by_episode
from imitbench.bench.seeding import derive_seed
from imitbench.cards.wrappers import RandomStart
from imitbench.data import rollout
from imitbench.data.observations import assert_not_dictobs
from imitbench.data.tabular import TabularModel
from imitbench.data.types import TrajectoryWithRew
from imitbench.envs.equations import equations_of
from imitbench.errors import InputError
from imitbench.experts.loading import (
    load_run_reward,
    load_subject,
    load_suite_expert,
)
from imitbench.experts.lookup import find_named_policy, find_same_environment
from imitbench.policies.space_check import check_reward_fits
from imitbench.records.reward_scores import RewardProtocol, RewardScore, RewardScores
from imitbench.records.runs import EnvironmentSpec, RunSpec
from imitbench.reward_board.optimization import Optimizations
from imitbench.reward_board.outcomes import optimization_scores
from imitbench.rewards.agreement import (
    Estimate,
    agreement,
    distances,
    tabular_distances,
    undefined_measures,
)
from imitbench.rewards.base import RewardNet
from imitbench.rewards.distances import Steps
from imitbench.store.run_dir import RunDirectory
from imitbench.util.hub_client import silent
from imitbench.version import __version__

_CLOSED_FORM = (
    "the true reward of {env} is not known in closed form, as it must be for any pair of states"
)
_MOST_TRANSITIONS = 100_000  # of a tabular environment with exact distances


def evaluate_reward(
    directory: RunDirectory,
    protocol: RewardProtocol,
    *,
    suite: str | None = None,
    plugin: str | None = None,
    trust: bool = False,
    optimizations: Optimizations | None = None,
) -> RewardScores:
    """Compares the learned reward of a run with the true one.

    Args:
        directory: The run, which must be complete.
        protocol: How to measure.
        suite: Name or folder of the suite that has the run's expert; `None` for the bundled ones.
        plugin: The plug-in method, such as `./my_method`, whose source defines classes of the run's
            policy or reward; it is imported.
        trust: Whether that source may have changed since the run.
        optimizations: Fresh policies on the reward, trained already; `None` for none.

    Raises:
        InputError: The run is not complete, has no stored reward, or one of other spaces; its
            policy cannot be read; its observations are no arrays; or a reward is not finite.
    """
    if not directory.is_done:
        raise InputError(
            f"run {directory.path.name}: is not complete; only complete runs have rewards"
        )
    spec = directory.read_spec()
    net = load_run_reward(directory.path, out=directory.results, plugin=plugin, trust=trust)
    subject = find_named_policy(
        str(directory.path), out=directory.results, revision=None, notify=silent
    )
    if subject.environment is None:
        raise InputError(f"run {spec.run_id}: {subject.lacks}")
    check_spaces(net, spec)
    policy = load_subject(subject, spec.environment, trust=trust, plugin=plugin)
    listed = find_same_environment(spec.environment.evaluated, suite)
    expert = load_suite_expert(listed, spec.environment)
    behaviors = sample_behaviors(policy, expert, spec.environment, spec.seed, protocol)
    scores, undefined = _agreement(net, behaviors, protocol, spec)
    far, without = _distances(net, behaviors, spec, protocol)
    without = undefined | without
    if expert is None:
        env_id = spec.environment.id
        without["expert"] = f"no expert of {env_id} is known here; name its --suite"
        if listed is not None:
            without["expert"] = f"suite {listed.suite.name} has no expert of {env_id}"
    fresh: list[RewardScore] = []
    if optimizations is not None:
        returns = {
            name: learned_return(net, episodes)
            for name, episodes in behaviors.items()
            if name in ("random", "expert")
        }
        fresh, missing = optimization_scores(directory, optimizations, policy, returns)
        without |= missing | _not_trained(protocol, optimizations, spec)
    return RewardScores(
        run_id=spec.run_id,
        protocol=protocol,
        without=without,
        scores=(*scores, *far, *fresh),
        imitbench=__version__,
    )


def _not_trained(
    protocol: RewardProtocol, optimizations: Optimizations, spec: RunSpec
) -> dict[str, str]:
    """Returns the optimizers that train nothing here, with the reason."""
    asked = () if protocol.optimization is None else protocol.optimization.optimizers
    trained = {fresh.optimizer for fresh in optimizations.learned}
    return {
        f"reoptimized_{name}": f"{name.upper()} is not for the actions of {spec.environment.id}"
        for name in asked
        if name not in trained
    }


def check_spaces(net: RewardNet, spec: RunSpec) -> None:
    """Checks that a reward is one of the spaces of a run's environment.

    Raises:
        InputError: It is not.
    """
    env = make_environment(spec.environment)
    env.close()
    where = f"run {spec.run_id}: its reward"
    check_reward_fits(net, env.observation_space, env.action_space, where=where)


def sample_behaviors(
    policy: BasePolicy,
    expert: BasePolicy | None,
    environment: EnvironmentSpec,
    seed: int,
    protocol: RewardProtocol,
) -> dict[str, list[TrajectoryWithRew]]:
    """Samples whole episodes of every behavior.

    Args:
        policy: The learner's policy.
        expert: The expert; `None` for none.
        environment: Environment to act in.
        seed: Seed of the run.
        protocol: Number of episodes, and shares of random actions.

    Returns:
        Episodes with true rewards of `expert`, if there is one, `learner`, `mixture` (of the
        learner's and random actions) and `random`.
    """

    def sampled(purpose: str, actor: BasePolicy, rates: Sequence[float]) -> list[TrajectoryWithRew]:
        own = derive_seed(seed, f"reward board, {purpose}")
        return held_out_trajectories(actor, environment, own, rates, protocol.episodes)

    behaviors = {} if expert is None else {"expert": sampled("expert", expert, (0.0,))}
    return behaviors | {
        "learner": sampled("learner", policy, (0.0,)),
        "mixture": sampled("mixture", policy, protocol.random_rates),
        "random": sampled("random", policy, (1.0,)),
    }


def learned_return(net: RewardNet, episodes: Sequence[TrajectoryWithRew]) -> float:
    """Returns the mean learned return of episodes, of rewards as they train a policy."""
    flat = rollout.flatten_trajectories_with_rew(episodes)
    rewards = frozen(net)(
        assert_not_dictobs(flat.obs), flat.acts, assert_not_dictobs(flat.next_obs), flat.dones
    )
    return float(np.sum(rewards, dtype=np.float64)) / len(episodes)


def _agreement(
    net: RewardNet,
    behaviors: Mapping[str, Sequence[TrajectoryWithRew]],
    protocol: RewardProtocol,
    spec: RunSpec,
) -> tuple[list[RewardScore], dict[str, str]]:
    """Returns how far rewards agree, and why some measures are undefined."""
    parts = {name: rewards_by_episode(net, episodes) for name, episodes in behaviors.items()}
    if not all(
        np.isfinite(learned).all() for episodes in parts.values() for learned, _ in episodes
    ):
        raise InputError(f"run {spec.run_id}: its reward is not finite in the compared episodes")
    shortest = min(len(learned) for episodes in parts.values() for learned, _ in episodes)
    length = min(protocol.fragment_length, max(1, shortest // 2))
    found = agreement(parts, length, derive_seed(spec.seed, "reward board, pairs"))
    return _as_scores(found, undefined_measures(parts, found))


def _distances(
    net: RewardNet,
    behaviors: Mapping[str, Sequence[TrajectoryWithRew]],
    spec: RunSpec,
    protocol: RewardProtocol,
) -> tuple[list[RewardScore], dict[str, str]]:
    """Returns EPIC and DARD distance, and why there is none of them."""
    env = make_environment(spec.environment)
    equations, table = equations_of(env), _small_table(env)
    env.close()
    # Both are of the task itself: of the observations that it makes, and the actions that it gets.
    if any(not isinstance(wrapper, RandomStart) for wrapper in spec.environment.active_wrappers):
        equations = table = None
    if table is not None:
        return _as_scores(*tabular_distances(net.predict, table, protocol.discount))
    if equations is None:
        why = _CLOSED_FORM.format(env=spec.environment.id)
        return [], {"epic": why, "dard": why}
    # Every behavior has the same share of the coverage distribution, and so has every mixture.
    most = min(len(episodes) for episodes in behaviors.values())
    episodes = [episode for some in behaviors.values() for episode in _evenly(some, most)]
    flat = rollout.flatten_trajectories_with_rew(episodes)
    steps = Steps(
        assert_not_dictobs(flat.obs), flat.acts, assert_not_dictobs(flat.next_obs), flat.dones
    )
    found, without = distances(
        net.predict,
        equations.reward_fn,
        equations.move,
        steps,
        np.repeat(np.arange(len(episodes)), [len(episode) for episode in episodes]),
        discount=protocol.discount,
        samples=protocol.samples,
        seed=derive_seed(spec.seed, "reward board, distances"),
    )
    return _as_scores(found, without)


def _evenly(episodes: Sequence[TrajectoryWithRew], number: int) -> list[TrajectoryWithRew]:
    """Returns a number of episodes at equal distances; mixtures are in order of their shares."""
    return [episodes[(2 * n + 1) * len(episodes) // (2 * number)] for n in range(number)]


def _small_table(env: gym.Env[Any, Any]) -> TabularModel | None:
    """The model of a tabular environment whose transitions can all be compared; or `None`."""
    try:
        model = TabularModel.of(env)
    except ValueError:
        return None
    return model if model.transitions.size <= _MOST_TRANSITIONS else None


def _as_scores(
    found: Sequence[Estimate], without: dict[str, str]
) -> tuple[list[RewardScore], dict[str, str]]:
    return [RewardScore.model_validate(vars(estimate)) for estimate in found], without
