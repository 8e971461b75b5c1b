"""Puts other rewards in place of an environment's own."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from imitbench.rewards.reward_function import Array, RewardFn, check_reward_shape


class WrappedRewardCallback(BaseCallback):
    """Logs the mean return of wrapped episodes, `rollout/ep_rew_wrapped_mean`, per rollout.

    Args:
        episode_rewards: Returns of the last episodes, which somebody else keeps.
        *args: Passed on to `BaseCallback`.
        **kwargs: Passed on to `BaseCallback`.
    """

    def __init__(self, episode_rewards: deque[float], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.episode_rewards = episode_rewards

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        # At the end, because that is right before Stable-Baselines3 writes the log.
        if self.episode_rewards:
            mean = sum(self.episode_rewards) / len(self.episode_rewards)
            self.logger.record("rollout/ep_rew_wrapped_mean", mean)


class RewardVecEnvWrapper(VecEnvWrapper):
    """A vector environment with a given function's rewards.

    The environment's own reward is in the info of each step, as `original_env_rew`. Building
    the wrapper resets the environment.

    Args:
        venv: Environment to wrap.
        reward_fn: The function; at the end of an episode its `next_state` is the episode's last
            observation, not the first one of the next.
        ep_history: How many episodes' returns are kept.

    Attributes:
        episode_rewards: Sums of the function's rewards over the last episodes.

    Raises:
        ValueError: Observations are dictionaries.
    """

    def __init__(self, venv: VecEnv, reward_fn: RewardFn, ep_history: int = 100) -> None:
        if isinstance(venv.observation_space, spaces.Dict):
            raise ValueError("venv: dictionary observations are not supported by rewards")
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
        """The single environments, where they live in this process."""
        envs: list[gym.Env[Any, Any]] = self.venv.envs  # type: ignore[attr-defined]
        return envs

    def reset(self) -> VecEnvObs:
        """Resets all environments; unfinished episodes count for no return."""
        obs = self.venv.reset()
        assert isinstance(obs, np.ndarray), "the constructor refused everything else"
        self._obs: Array = obs
        self._returns[:] = 0.0
        return obs

    def step_async(self, actions: Array) -> None:
        """Starts a step; remembers the actions."""
        self._actions = actions
        self.venv.step_async(actions)

    def step_wait(self) -> VecEnvStepReturn:
        """Finishes the step.

        Returns:
            Observations, the function's rewards, ends and infos.

        Raises:
            ValueError: The function gave another shape than one reward per environment.
        """
        obs, own_rewards, dones, infos = self.venv.step_wait()
        assert isinstance(obs, np.ndarray), "the constructor refused everything else"
        ended = np.flatnonzero(dones)
        next_obs = obs
        if len(ended):
            next_obs = obs.copy()  # the next episode's first observation is the caller's
            for env in ended:
                next_obs[env] = infos[env]["terminal_observation"]
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
        """Where the running episodes stand; the environments' own state is the caller's."""
        return {
            "obs": self._obs.copy(),
            "returns": self._returns.copy(),
            "episode_rewards": list(self.episode_rewards),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` gave."""
        self._obs = np.array(state["obs"])
        self._returns[:] = state["returns"]
        self.episode_rewards.clear()
        self.episode_rewards.extend(state["episode_rewards"])
