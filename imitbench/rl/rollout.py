"""Rollouts of on-policy algorithms: recording, replacing rewards, estimating advantages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
RewardFn = Callable[[Array, Array, Array, Array], Array]
"""Computes rewards of transitions from observations, actions, next observations and dones.

The first axis of each argument is the transition; the result has shape (transitions,).
"""


@dataclass
class Rollout:
    """Steps of several environments; row `t` has step `t` of all environments.

    Attributes:
        obs: Observations before the steps, shape (T, n, *observation_shape).
        acts: Actions as passed to the environments, shape (T, n, *action_shape), with the
            action space's data type; clipped to the bounds of a `Box`.
        next_obs: Observations after the steps, including those at the end of an episode, same
            shape as `obs`.
        dones: Whether a step ended its episode, by termination or truncation, shape (T, n), bool.
        env_rews: Rewards of the environments, shape (T, n), float32.
        rews: Rewards for training, shape (T, n), float32, before values are added where time
            limits truncated episodes and before scaling by returns; both are applied only to the
            rollout buffer's rewards.
        log_probs: Log-probabilities of the actions before clipping, shape (T, n), float32.
    """

    obs: Array
    acts: Array
    next_obs: Array
    dones: Array
    env_rews: Array
    rews: Array
    log_probs: Array | None = None

    def relabel(self, reward_fn: RewardFn) -> None:
        """Replaces `rews` by the result of one call of a function.

        Transitions are ordered by time: number `t * n + i` is step `t` of environment `i`.

        Args:
            reward_fn: Computes the rewards.

        Raises:
            ValueError: The result has another shape, or is not finite.
        """
        count = self.dones.size
        flat = (each.reshape(count, *each.shape[2:]) for each in
                (self.obs, self.acts, self.next_obs, self.dones))  # fmt: skip
        rewards = np.asarray(reward_fn(*flat), dtype=np.float32)
        if rewards.shape != (count,):
            raise ValueError(f"reward_fn returned shape {rewards.shape}; expected ({count},)")
        if not np.isfinite(rewards).all():
            raise ValueError("reward_fn returned rewards that are not finite")
        self.rews = rewards.reshape(self.dones.shape)


class RolloutRecorder:
    """Fills a rollout step by step.

    Args:
        steps: Steps of each environment.
        n_envs: Number of environments.
        observation_space: Observation space of the environments.
        action_space: Action space of the environments.

    Attributes:
        sampled: Actions before clipping, shape (steps, n_envs, *action_shape).
    """

    def __init__(
        self,
        steps: int,
        n_envs: int,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
    ) -> None:
        rows = (steps, n_envs)
        obs_shape, act_shape = observation_space.shape or (), action_space.shape or ()
        self._obs = np.empty((*rows, *obs_shape), observation_space.dtype)
        self._acts = np.empty((*rows, *act_shape), action_space.dtype)
        self._dones = np.empty(rows, dtype=bool)
        self._env_rews = np.empty(rows, dtype=np.float32)
        self._ends: list[tuple[int, int, Array, bool]] = []
        self.sampled = np.empty((*rows, *act_shape), action_space.dtype)
        self._row = 0

    def act(self, obs: Array, sampled: Array, acts: Array) -> None:
        """Records observations, and the actions before and after clipping."""
        row = self._row
        self._obs[row] = obs
        self.sampled[row] = sampled
        self._acts[row] = acts

    def step(self, rewards: Array, dones: Array, infos: Sequence[dict[str, Any]]) -> None:
        """Records the results of a step of the environments."""
        row = self._row
        self._env_rews[row] = rewards
        self._dones[row] = dones
        if dones.any():
            for env in np.flatnonzero(dones).tolist():
                info = infos[env]
                last = info.get("terminal_observation")
                if last is not None:
                    cut = bool(info.get("TimeLimit.truncated", False))
                    self._ends.append((row, env, np.array(last), cut))
        self._row = row + 1

    def finish(self, last_obs: Array) -> tuple[Rollout, list[tuple[int, int]]]:
        """Completes the rollout.

        Args:
            last_obs: Observations after the last step.

        Returns:
            The rollout, and (step, environment) of each episode that was truncated by a time limit.
        """
        next_obs = np.empty_like(self._obs)
        next_obs[:-1] = self._obs[1:]
        next_obs[-1] = last_obs
        for row, env, last, _ in self._ends:
            next_obs[row, env] = last
        rollout = Rollout(
            obs=self._obs,
            acts=self._acts,
            next_obs=next_obs,
            dones=self._dones,
            env_rews=self._env_rews,
            rews=self._env_rews,
        )
        return rollout, [(row, env) for row, env, _, cut in self._ends if cut]


def estimate_advantages(
    rewards: Array, values: Array, last_values: Array, dones: Array, gamma: float, lam: float
) -> Array:
    """Estimates the advantages of a rollout.

    Source: Schulman et al. 2016, "High-Dimensional Continuous Control Using Generalized Advantage
    Estimation", equation 16.

    Args:
        rewards: Shape (T, n), float32.
        values: Values of the observations before the steps, shape (T, n), float32.
        last_values: Values of the observations after the last step, shape (n,), float32.
        dones: Whether a step ended its episode, shape (T, n), bool.
        gamma: Discount factor.
        lam: The parameter lambda of generalized advantage estimation, in [0, 1].

    Returns:
        Shape (T, n), float32. The critic's targets are their sum with `values`.
    """
    continues = np.float32(1) - dones
    advantages = np.empty_like(values)
    advantages[:-1] = values[1:]
    advantages[-1] = last_values
    advantages *= gamma
    advantages *= continues
    advantages += rewards
    advantages -= values
    continues *= gamma * lam
    following = np.zeros_like(last_values)
    for advantage, weight in zip(advantages[::-1], continues[::-1], strict=True):
        np.multiply(following, weight, out=following)
        advantage += following
        following[...] = advantage
    return advantages
