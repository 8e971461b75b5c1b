"""Environment wrappers that record trajectories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from imitbench.data.episode_buffer import EpisodeBuffer
from imitbench.data.observations import Observation, maybe_wrap_in_dictobs, stack_maybe_dictobs
from imitbench.data.rollout import flatten_trajectories_with_rew
from imitbench.data.trajectories import (
    TrajectoryWithRew,
    trajectory_from_state,
    trajectory_state,
)
from imitbench.data.types import TransitionsWithRew


class RolloutInfoWrapper(gym.Wrapper[Any, Any, Any, Any]):
    """Adds the whole episode, as seen by this wrapper, to the info of its last step.

    When an episode ends, `info["rollout"]` is a dictionary with the keys `obs`, shape
    `(T + 1, *observation_shape)`, and `rews`, shape `(T,)`, float64. Outer wrappers may change
    observations and rewards; `imitbench.data.rollout.unwrap_traj` restores the originals.

    Args:
        env: Environment to wrap; must be the innermost wrapper.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self._obs: list[Observation] = []
        self._rews: list[float] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts an episode and discards the previous one."""
        obs, info = self.env.reset(seed=seed, options=options)
        self._obs = [_keep(obs)]
        self._rews = []
        return obs, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Steps the environment.

        Returns:
            Result of the environment, with `info["rollout"]` added at the end of an episode.

        Raises:
            ValueError: The environment's info already has a `rollout` entry.
        """
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._obs.append(_keep(obs))
        self._rews.append(float(reward))
        if terminated or truncated:
            if "rollout" in info:
                raise ValueError("info has an entry 'rollout' already: wrap the environment once")
            info["rollout"] = {
                "obs": stack_maybe_dictobs(self._obs),
                "rews": np.array(self._rews),
            }
        return obs, reward, terminated, truncated, info


class BufferingWrapper(VecEnvWrapper):
    """Records every step of a vectorized environment until it is popped.

    Args:
        venv: Vectorized environment to record.
        error_on_premature_reset: Whether to raise an error at a reset before steps are popped.

    Attributes:
        n_transitions: Steps recorded since the last pop or reset; `None` before the first reset.
    """

    def __init__(self, venv: VecEnv, error_on_premature_reset: bool = True) -> None:
        super().__init__(venv)
        self.error_on_premature_reset = error_on_premature_reset
        self.n_transitions: int | None = None
        self._running: EpisodeBuffer | None = None
        self._forget()

    def _forget(self) -> None:
        self._finished: list[TrajectoryWithRew] = []
        self._lengths: list[int] = []
        self._time = 0
        self._began = np.zeros(self.num_envs, dtype=np.int64)

    def reset(self) -> VecEnvObs:
        """Resets all environments and drops all recorded steps.

        Raises:
            RuntimeError: Recorded steps would be lost.
        """
        if self.error_on_premature_reset and self.n_transitions:
            raise RuntimeError(
                f"reset would lose {self.n_transitions} recorded transitions: pop them first, or "
                "pass error_on_premature_reset=False"
            )
        obs = self.venv.reset()
        self._forget()
        self.n_transitions = 0
        space = self.action_space
        acts_like = np.zeros((self.num_envs, *(space.shape or ())), dtype=space.dtype)
        self._running = EpisodeBuffer(maybe_wrap_in_dictobs(obs), acts_like)  # type: ignore[arg-type]
        return obs

    def step_async(self, actions: np.ndarray[Any, Any]) -> None:
        """Starts a step, and keeps the actions.

        Raises:
            RuntimeError: The environment was not reset.
        """
        if self._running is None:
            raise RuntimeError("call reset() before the first step")
        self._actions = np.array(actions)
        self.venv.step_async(actions)

    def step_wait(self) -> VecEnvStepReturn:
        """Finishes the step and records it."""
        obs, rews, dones, infos = self.venv.step_wait()
        assert self._running is not None, "checked by step_async"
        finished = self._running.add(self._actions, obs, rews, dones, infos)  # type: ignore[arg-type]
        self._time += 1
        if finished:
            self._finished += finished
            self._lengths += (self._time - self._began[dones]).tolist()
            self._began[dones] = self._time
        self.n_transitions = (self.n_transitions or 0) + self.num_envs
        return obs, rews, dones, infos

    def pop_finished_trajectories(self) -> tuple[Sequence[TrajectoryWithRew], Sequence[int]]:
        """Pops the steps of ended episodes; recording of current ones continues.

        Returns:
            Trajectories, without steps returned by an earlier pop, and the lengths of the whole
            episodes; both in the order in which they ended.
        """
        trajectories, lengths = self._finished, self._lengths
        self._finished, self._lengths = [], []
        if self.n_transitions is not None:
            self.n_transitions = 0
        return trajectories, lengths

    def pop_trajectories(self) -> tuple[Sequence[TrajectoryWithRew], Sequence[int]]:
        """Pops all recorded steps, including those of current episodes.

        Returns:
            Trajectories, without steps returned by an earlier pop, and with `terminal` false for
            current episodes; and the lengths of the episodes that have ended.
        """
        partial = []
        if self._running is not None:
            running = np.flatnonzero(self._running.running_steps).tolist()
            partial = [self._running.cut_running(env) for env in running]
        trajectories, lengths = self.pop_finished_trajectories()
        return [*trajectories, *partial], lengths

    def pop_transitions(self) -> TransitionsWithRew:
        """Pops all recorded steps as transitions.

        Raises:
            RuntimeError: No transitions were recorded.
        """
        trajectories, _ = self.pop_trajectories()
        if not trajectories:
            raise RuntimeError("no transitions were recorded since the last pop")
        return flatten_trajectories_with_rew(trajectories)

    def state_dict(self) -> dict[str, Any]:
        """Returns the recorded steps that were not popped, and the state of the current episodes.

        Infos are not included, because they may be any object. After `load_state_dict`, they are
        `None` in finished trajectories, and empty for earlier steps of current ones.
        """
        return {
            "running": None if self._running is None else self._running.state_dict(),
            "finished": [trajectory_state(trajectory) for trajectory in self._finished],
            "lengths": list(self._lengths),
            "steps": self._time - self._began,
            "n_transitions": self.n_transitions,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the result of `state_dict`, without the environments."""
        self._forget()
        running = state["running"]
        self._running = None if running is None else EpisodeBuffer.from_state(running)
        self._finished = [trajectory_from_state(episode) for episode in state["finished"]]
        self._lengths = list(state["lengths"])
        self._began -= state["steps"]
        self.n_transitions = state["n_transitions"]


def _keep(obs: Any) -> Observation:
    """Copies an observation, because environments may reuse its memory."""
    if isinstance(obs, dict):
        return maybe_wrap_in_dictobs({key: np.array(value) for key, value in obs.items()})
    return np.array(obs)
