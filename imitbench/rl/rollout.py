"""Rollouts of on-policy algorithms: recording, other and scaled rewards, advantages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn

from imitbench.rewards.reward_function import RewardFn

Array = npt.NDArray[Any]

_EPSILON = 1e-8
_CLIP = 10.0
_FIRST_COUNT = 1e-4


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
        flat = (array.reshape(count, *array.shape[2:]) for array in
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


class ReturnScaling:
    """Divides rewards by the running standard deviation of discounted returns.

    A step updates the statistics before its rewards are scaled.

    Source: Engstrom et al. 2020, "Implementation Matters in Deep Policy Gradients: A Case Study on
    PPO and TRPO", algorithm 1; as implemented in `stable_baselines3.common.vec_env.VecNormalize`.

    Args:
        n_envs: Number of environments.
        gamma: Discount factor of the returns.

    Attributes:
        returns: Discounted returns of the current episodes so far, shape (n_envs,), float64.
        mean: Mean of all returns so far.
        variance: Variance of all returns so far.
        count: Number of all returns so far.
    """

    def __init__(self, n_envs: int, gamma: float) -> None:
        self.gamma = gamma
        self.returns = np.zeros(n_envs, dtype=np.float64)
        self.mean, self.variance, self.count = 0.0, 1.0, _FIRST_COUNT

    def __call__(self, rewards: Array, dones: Array) -> Array:
        """Scales the rewards of a rollout, and adds its returns to the statistics.

        Args:
            rewards: Shape (T, n_envs).
            dones: Whether a step ended its episode, shape (T, n_envs), bool.

        Returns:
            Shape (T, n_envs), float32, in [-10, 10].
        """
        steps, n_envs = rewards.shape
        weights = self.gamma * (1.0 - dones)
        returns = np.empty((steps, n_envs), dtype=np.float64)
        carried = self.returns * self.gamma
        for row, reward, weight in zip(returns, rewards, weights, strict=True):
            np.add(carried, reward, out=row)
            np.multiply(row, weight, out=carried)
        self.returns = np.where(dones[-1], 0.0, returns[-1])
        # Moments after each step, relative to the mean before the first step.
        apart = returns - self.mean
        sums, squares = (np.cumsum(part.sum(axis=1)) for part in (apart, apart**2))
        counts = self.count + n_envs * np.arange(1, steps + 1)
        variances = (self.variance * self.count + squares - sums**2 / counts) / counts
        self.mean += float(sums[-1] / counts[-1])
        self.variance, self.count = float(variances[-1]), float(counts[-1])
        scaled = rewards / np.sqrt(np.maximum(variances, 0.0) + _EPSILON)[:, None]
        clipped: Array = np.clip(scaled, -_CLIP, _CLIP).astype(np.float32)
        return clipped

    def wrapped(self, venv: VecEnv) -> VecEnvWrapper:
        """Wraps environments to scale their rewards, for algorithms that process single steps."""
        return _ScaledRewards(venv, self)

    def state_dict(self) -> dict[str, Any]:
        """Returns the statistics, and the returns of the current episodes."""
        return {
            "returns": self.returns.copy(),
            "mean": self.mean,
            "variance": self.variance,
            "count": self.count,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the result of `state_dict`."""
        self.returns = np.array(state["returns"], dtype=np.float64)
        self.mean, self.variance = state["mean"], state["variance"]
        self.count = state["count"]


class _ScaledRewards(VecEnvWrapper):
    def __init__(self, venv: VecEnv, scaling: ReturnScaling) -> None:
        super().__init__(venv)
        self._scaling = scaling

    def reset(self) -> Any:
        return self.venv.reset()

    def step_wait(self) -> VecEnvStepReturn:
        obs, rewards, dones, infos = self.venv.step_wait()
        return obs, self._scaling(rewards[None], dones[None])[0], dones, infos
