"""Replaces the rewards of a vector environment."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from imitbench.data.observations import map_maybe_dict
from imitbench.rewards.reward_function import Array, RewardFn, check_reward_shape


class WrappedRewardCallback(BaseCallback):
    """Logs the mean return of wrapped episodes, `rollout/ep_rew_wrapped_mean`, per rollout.

    Args:
        episode_rewards: Returns of the last episodes, updated by the environment.
        *args: Passed to `BaseCallback`.
        **kwargs: Passed to `BaseCallback`.
    """

    def __init__(self, episode_rewards: deque[float], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.episode_rewards = episode_rewards

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        # Stable-Baselines3 writes the log right after the end of a rollout.
        if self.episode_rewards:
            mean = sum(self.episode_rewards) / len(self.episode_rewards)
            self.logger.record("rollout/ep_rew_wrapped_mean", mean)


class RewardVecEnvWrapper(VecEnvWrapper):
    """A vector environment whose rewards come from a function.

    The info of each step holds the original reward as `original_env_rew`. The constructor resets
    the environment.

    Args:
        venv: Vector environment. Its dictionary observations reach `reward_fn` as dictionaries of
            arrays.
        reward_fn: Computes the rewards; at the end of an episode its `next_state` is the
            episode's last observation, not the first one of the next.
        ep_history: Number of episodes whose returns are kept.

    Attributes:
        episode_rewards: Undiscounted returns of the last episodes, by `reward_fn`.
    """

    def __init__(self, venv: VecEnv, reward_fn: RewardFn, ep_history: int = 100) -> None:
        super().__init__(venv)
        self.reward_fn = reward_fn
        self.episode_rewards: deque[float] = deque(maxlen=ep_history)
        self._returns = np.zeros(self.num_envs)
        self.reset()

    def make_log_callback(self) -> WrappedRewardCallback:
        """Makes a callback that logs the mean return of this environment's last episodes."""
        return WrappedRewardCallback(self.episode_rewards)

    @property
    def envs(self) -> list[gym.Env[Any, Any]]:
        """The individual environments, if they run in this process."""
        envs: list[gym.Env[Any, Any]] = self.venv.envs  # type: ignore[attr-defined]
        return envs

    def reset(self) -> VecEnvObs:
        """Resets all environments and drops the returns of unfinished episodes."""
        obs = self.venv.reset()
        self._obs: Any = obs
        self._returns[:] = 0.0
        return obs

    def step_async(self, actions: Array) -> None:
        """Starts a step and stores the actions."""
        self._actions = actions
        self.venv.step_async(actions)

    def step_wait(self) -> VecEnvStepReturn:
        """Finishes the step, with rewards of `reward_fn`.

        Raises:
            ValueError: `reward_fn` did not return one reward per environment.
        """
        obs, own_rewards, dones, infos = self.venv.step_wait()
        ended = np.flatnonzero(dones)
        next_obs: Any = obs
        if len(ended):
            # Copied, because the caller gets the first observation of the next episode.
            next_obs = map_maybe_dict(np.array, obs)
            for env in ended.tolist():
                _put(next_obs, env, infos[env]["terminal_observation"])
        rewards = self.reward_fn(self._obs, self._actions, next_obs, dones)
        check_reward_shape(np.shape(rewards), self.num_envs)
        self._obs = obs
        self._returns += rewards
        self.episode_rewards.extend(self._returns[ended].tolist())
        self._returns[ended] = 0.0
        for info, reward in zip(infos, own_rewards.tolist(), strict=True):
            info["original_env_rew"] = reward
        return obs, rewards, dones, infos

    def state_dict(self) -> dict[str, Any]:
        """State of the running episodes; the caller saves that of the environments."""
        return {
            "obs": map_maybe_dict(np.array, self._obs),
            "returns": self._returns.copy(),
            "episode_rewards": list(self.episode_rewards),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a `state_dict`."""
        self._obs = map_maybe_dict(np.array, state["obs"])
        self._returns[:] = state["returns"]
        self.episode_rewards.clear()
        self.episode_rewards.extend(state["episode_rewards"])


def _put(batch: Any, index: int, obs: Any) -> None:
    """Replaces an observation of a batch."""
    if isinstance(batch, dict):
        for key, values in batch.items():
            values[index] = obs[key]
    else:
        batch[index] = obs
