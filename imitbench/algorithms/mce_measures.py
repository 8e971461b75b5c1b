"""Exact measures of what was learnt on a tabular environment, beyond the return of episodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from imitbench.algorithms.mce_planning import SoftPlanner, optimal_policy
from imitbench.data.tabular import TabularModel

Floats = npt.NDArray[np.float64]
Array = npt.NDArray[Any]


def occupancy_distance(env: Any, pi: Array, other: Array) -> float:
    """How differently two policies visit states.

    The total variation distance between the distributions of states, half the sum of absolute
    differences, averaged over the steps of an episode.

    Args:
        env: A tabular environment.
        pi: A policy, shape (horizon, states, actions).
        other: Another one, that of the expert usually.

    Returns:
        From 0, where visits are the same at each step, to 1, where no state is shared at any.

    Raises:
        ValueError: `env` is not tabular, or a policy does not fit it.
    """
    model = TabularModel.of(env)
    difference = _occupancies(model, pi, "pi") - _occupancies(model, other, "other")
    return float(np.abs(difference).sum(axis=1).mean() / 2)


def policy_value(env: Any, pi: Array) -> float:
    """Expected undiscounted return of a policy under the environment's own reward.

    Args:
        env: A tabular environment.
        pi: A policy, shape (horizon, states, actions).

    Raises:
        ValueError: `env` is not tabular, or the policy does not fit it.
    """
    model = TabularModel.of(env)
    return _value(model, pi)


def policy_value_regret(env: Any, pi: Array) -> float:
    """By how much a policy falls short of the best one, in expected undiscounted return.

    Args:
        env: A tabular environment.
        pi: A policy, shape (horizon, states, actions).

    Returns:
        At least 0, up to rounding.

    Raises:
        ValueError: `env` is not tabular, or the policy does not fit it.
    """
    model = TabularModel.of(env)
    _, values = optimal_policy(model)
    return float(model.initial @ values[0]) - _value(model, pi)


def reward_rank_correlation(learnt: Array, true: Array, weights: Array | None = None) -> float:
    """Whether a learnt reward ranks states as the true one does: Spearman's correlation.

    Ranks do not change with the scale and the offset of a reward, which demonstrations leave
    open. They do change with potential shaping, which leaves optimal policies as they are: a low
    value alone does not make a reward wrong.

    Args:
        learnt: Learnt rewards, any shape, such as (states,).
        true: True rewards, same shape.
        weights: How much each entry counts, same shape, such as the expert's visits; all the same
            when `None`. Ranks are those among all entries of positive weight.

    Returns:
        From -1 to 1; not a number where one of the rewards is constant.

    Raises:
        ValueError: Shapes differ, numbers are not finite, or weights are negative or all zero.

    Source: Spearman 1904, "The Proof and Measurement of Association between Two Things".
    """
    from scipy.stats import rankdata

    counts = np.ones(np.shape(true)) if weights is None else np.asarray(weights, dtype=np.float64)
    arrays = {"learnt": np.asarray(learnt), "true": np.asarray(true), "weights": counts}
    for name, array in arrays.items():
        if array.shape != arrays["true"].shape:
            raise ValueError(
                f"{name}: has shape {array.shape}, but true rewards have {arrays['true'].shape}"
            )
        if not np.isfinite(array).all():
            raise ValueError(f"{name}: holds numbers that are not finite")
    if (counts < 0).any() or not (counts > 0).any():
        raise ValueError("weights: must not be negative, nor all zero")
    kept = counts > 0
    share = counts[kept] / counts[kept].sum()
    ranks = np.stack([rankdata(arrays[name][kept]) for name in ("learnt", "true")])
    ranks -= (ranks @ share)[:, None]
    covariance = (ranks * share) @ ranks.T
    scale = float(np.sqrt(covariance[0, 0] * covariance[1, 1]))
    return float(covariance[0, 1]) / scale if scale > 0 else float("nan")


def policy_table(policy: Any, env: Any) -> Floats:
    """The probabilities with which a policy acts on a tabular environment.

    Args:
        policy: A tabular policy, a Stable-Baselines3 actor-critic policy, or uniformly random.
        env: A tabular environment.

    Returns:
        Shape (horizon, states, actions), float64; the same at each step for policies without
        memory.

    Raises:
        ValueError: The policy is of another kind, or made for other spaces.
    """
    import torch as th
    from stable_baselines3.common.distributions import CategoricalDistribution
    from stable_baselines3.common.policies import ActorCriticPolicy

    from imitbench.policies.base import RandomPolicy
    from imitbench.policies.tabular import TabularPolicy

    model = TabularModel.of(env)
    shape = (model.horizon, model.states, model.actions)
    if isinstance(policy, TabularPolicy):
        model.check_policy(policy.pi, "policy")
        return policy.pi.copy()
    if isinstance(policy, RandomPolicy):
        return np.full(shape, 1 / model.actions)
    if not isinstance(policy, ActorCriticPolicy):
        raise ValueError(f"policy: the probabilities of a {type(policy).__name__} are not known")
    known = np.arange(model.states) if model.observations is None else model.observations
    observations, _ = policy.obs_to_tensor(known)
    training = policy.training
    policy.set_training_mode(False)
    with th.no_grad():
        distribution = policy.get_distribution(observations)
    policy.set_training_mode(training)
    if not isinstance(distribution, CategoricalDistribution):
        raise ValueError("policy: it does not choose among discrete actions")
    by_state = distribution.distribution.probs.double().cpu().numpy()
    if by_state.shape != shape[1:]:
        raise ValueError(f"policy: it has {by_state.shape[1]} actions, not {model.actions}")
    table: Floats = np.broadcast_to(by_state / by_state.sum(axis=1, keepdims=True), shape).copy()
    return table


def _occupancies(model: TabularModel, pi: Array, argument: str) -> Floats:
    table = np.asarray(pi, dtype=np.float64)
    model.check_policy(table, argument)
    return SoftPlanner(model).occupancies(np.ascontiguousarray(table.transpose(0, 2, 1)))


def _value(model: TabularModel, pi: Array) -> float:
    occupancies = _occupancies(model, pi, "pi")
    rewards = model.rewards_by_action(model.rewards)
    return float(np.einsum("ts,tsa,sa->", occupancies, np.asarray(pi, dtype=np.float64), rewards))
