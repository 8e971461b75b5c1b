"""Lets a policy act step by step, and finds what its actions depend on but must not."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from stable_baselines3.common.policies import BasePolicy

from imitbench.data.policy_callable import seeded_sampling

# The size of a batch changes the order of sums.
_RELATIVE, _ABSOLUTE = 1e-3, 1e-4


def has_memory(policy: BasePolicy) -> bool:
    """Whether a policy passes a state from one step to the next."""
    return type(policy).predict is not BasePolicy.predict


def memory_fault(policy: BasePolicy, seen: npt.NDArray[Any]) -> str:
    """Describes what deterministic actions depend on but must not.

    The memory of a policy is that of one episode in one environment.

    Args:
        policy: Policy to check.
        seen: Any observations, see `TestBed.steps`: at least two steps.

    Returns:
        The fault; empty if there is none, or if even deterministic actions are random.
    """
    steps = len(seen)
    whole = act_in_turn(policy, seen)
    if not np.array_equal(whole, act_in_turn(policy, seen)):
        return (
            "the same episode gives other actions the second time: the policy keeps something "
            "between calls that is not in its state"
        )
    if not np.array_equal(whole, act_in_turn(policy, seen, seed=1)):
        return ""
    # Batches of one size, as networks amplify what another order of sums rounds otherwise.
    others = seen.copy()
    others[:, 1:] = seen[::-1, 1:]
    if not _alike(whole[:, :1], act_in_turn(policy, others)[:, :1]):
        return "the actions in an environment depend on the other environments of the batch"
    half = steps // 2
    starts = np.zeros(seen.shape[:2], dtype=bool)
    starts[half, 1:] = True  # the first environment goes on
    restarted = act_in_turn(policy, seen, starts)
    if not _alike(restarted[half:, 1:], act_in_turn(policy, seen[half:])[:, 1:]):
        return "the memory is not reset where `episode_start` says that an episode starts"
    if not _alike(restarted[:, :1], whole[:, :1]):
        return "the memory is reset where another environment starts an episode"
    return ""


def act_in_turn(
    policy: BasePolicy,
    observations: npt.NDArray[Any],
    starts: npt.NDArray[np.bool_] | None = None,
    *,
    deterministic: bool = True,
    seed: int = 0,
) -> npt.NDArray[Any]:
    """Acts step by step.

    Args:
        policy: Policy that acts.
        observations: Shape (steps, environments, …).
        starts: Where episodes start, shape (steps, environments); `None` for the first step only.
        deterministic: Whether to take the most likely actions.
        seed: Seed of sampled actions.

    Returns:
        The actions, shape (steps, environments, …).
    """
    episode_starts = np.zeros(observations.shape[:2], dtype=bool) if starts is None else starts
    episode_starts[0] = True
    state: Any = None
    actions = []
    policy.action_space.seed(seed)
    with seeded_sampling(policy, np.random.default_rng(seed)):
        for observation, start in zip(observations, episode_starts, strict=True):
            chosen, state = policy.predict(
                observation, state=state, episode_start=start, deterministic=deterministic
            )
            actions.append(np.asarray(chosen))
    return np.stack(actions)


def _alike(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    return np.allclose(one, other, rtol=_RELATIVE, atol=_ABSOLUTE)
