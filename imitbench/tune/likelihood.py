"""Likelihood of expert actions under a policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch as th
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.sac.policies import SACPolicy

from imitbench.data.rollout import flatten_trajectories
from imitbench.policies.tabular import TabularPolicy
from imitbench.tune.unsuitable import UnsuitableObjectiveError

if TYPE_CHECKING:
    from stable_baselines3.common.policies import BasePolicy

    from imitbench.data.types import TrajectoryWithRew

_BATCH = 4096
_LEAST_PROBABILITY = 1e-12


def mean_log_likelihood(policy: BasePolicy, demos: Sequence[TrajectoryWithRew]) -> float:
    """Computes the mean log-probability (or log-density) of the expert's actions, in nats.

    Args:
        policy: A stochastic policy; it is left in evaluation mode.
        demos: Whole episodes.

    Raises:
        UnsuitableObjectiveError: The policy has no action probabilities.
    """
    if isinstance(policy, TabularPolicy):
        return float(np.mean(np.concatenate([_of_table(policy, demo) for demo in demos])))
    transitions = flatten_trajectories(demos)
    policy.set_training_mode(False)
    found = []
    for start in range(0, len(transitions), _BATCH):
        part = transitions[start : start + _BATCH]
        # Unwraps a `DictObs` to a dictionary of arrays.
        plain = part.obs if isinstance(part.obs, np.ndarray) else dict(part.obs.items())
        with th.no_grad():
            found.append(_log_probability(policy, policy.obs_to_tensor(plain)[0], part.acts))
    return float(th.cat(found).double().mean())


def _of_table(policy: TabularPolicy, demo: TrajectoryWithRew) -> npt.NDArray[np.float64]:
    steps = np.arange(len(demo))
    chances = policy.probabilities(np.asarray(demo.obs)[:-1], steps)
    start = int(getattr(policy.action_space, "start", 0))
    taken = chances[steps, np.asarray(demo.acts).reshape(-1).astype(np.int64) - start]
    logarithms: npt.NDArray[np.float64] = np.log(np.maximum(taken, _LEAST_PROBABILITY))
    return logarithms


def _log_probability(
    policy: BasePolicy,
    observations: th.Tensor | dict[str, th.Tensor],
    actions: npt.NDArray[np.generic],
) -> th.Tensor:
    if isinstance(policy, ActorCriticPolicy):
        taken = th.as_tensor(np.array(actions), device=policy.device)
        return policy.evaluate_actions(observations, taken)[1]
    if isinstance(policy, SACPolicy):
        scaled = th.as_tensor(policy.scale_action(np.array(actions)), device=policy.device)
        mean, log_std, kwargs = policy.actor.get_action_dist_params(observations)
        distribution = policy.actor.action_dist.proba_distribution(mean, log_std, **kwargs)
        return distribution.log_prob(scaled.float())
    raise UnsuitableObjectiveError(
        f"a {type(policy).__name__} has no action probabilities, which the likelihood of "
        "demonstrations needs; choose another objective"
    )
